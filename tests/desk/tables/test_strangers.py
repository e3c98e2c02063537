"""Model files of strangers, forged to read files, fill the memory, start processes or never end: they do none of it."""

import gzip
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mgce.desk.tables.model import TableModel
from mgce.estimators.archive import FORMAT
from mgce_lab.soak import forged_models

ROOT = Path(__file__).parents[3]
# In a process of its own for each file: at most 1 GB beyond what the libraries take, 30 seconds, and a list of what it
# opened or started once the file was there. Its answer is one line of JSON.
OPEN_THEM = """
import json, os, resource, signal, sys
from pathlib import Path
import numpy as np
from mgce.desk.tables.model import TableModel
from mgce_lab.soak import forged_models

frame = forged_models.frame()
for good in map(Path, sys.argv[1].split(",")):  # loads what libraries load late
    TableModel.load(good).predict(TableModel.load(good).columns.select(frame))
libraries = sys.prefix, sys.base_prefix, os.getcwd()


def answer(path):
    seen = []

    def hook(event, arguments):
        opens = event == "open" and str(arguments[0]) != str(path)
        if opens and not str(arguments[0]).startswith(libraries) or event.startswith(("os.exec", "os.fork", "os.posix",
                "os.spawn", "os.system", "subprocess.", "socket.", "pickle.", "ctypes.dlopen")):
            seen.append([event, str(arguments)])

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.alarm(30)
    sys.addaudithook(hook)
    came = None
    try:
        model = TableModel.load(path)
        came = model.predict(model.columns.select(frame)).h.tolist()
    except ValueError as error:
        came = str(error)
    return {"came": came, "seen": seen}


for path in map(Path, sys.argv[2:]):
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        try:
            with os.fdopen(write, "w") as file:
                file.write(json.dumps(answer(path)))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    _, status, usage = os.wait4(-1, 0)
    print(json.dumps({"name": path.name, "status": status, **json.loads(text or "{}")}), flush=True)
"""


def opened(folder, kinds, makers):
    """Open forged files and unchanged ones of some kinds; return what came of each by its name."""
    unchanged = {kind: partial(forged_models.model, kind) for kind in kinds}
    makers = {**makers, **unchanged}
    for number, make in enumerate(makers.values()):
        (folder / f"{number}.mgce").write_bytes(make())
    paths = [str(folder / f"{number}.mgce") for number in range(len(makers))]
    command = [sys.executable, "-W", "ignore", "-c", OPEN_THEM, ",".join(paths[-len(unchanged) :]), *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(makers, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("refused"), [forged_models.KIND], forged_models.REFUSED)


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    kinds = sorted(set(forged_models.KIND_OF.values()))
    return opened(tmp_path_factory.mktemp("harmless"), kinds, forged_models.HARMLESS)


def check_opens_nothing(came):
    assert came.get("seen") == [] and came["status"] == 0, came


@pytest.mark.parametrize("name", forged_models.REFUSED)
def test_a_forged_model_opens_nothing_stays_small_and_is_refused_in_one_sentence(refused, name):
    came = refused[name]
    check_opens_nothing(came)
    sentence = "Expected `model` to be an undamaged file written by `mgce fit`, but got '"
    assert str(came["came"]).startswith(sentence), came["came"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", forged_models.HARMLESS)
def test_what_only_a_forged_model_says_has_no_effect(harmless, name):
    check_opens_nothing(harmless[name])
    assert harmless[name]["came"] == harmless[forged_models.KIND_OF[name]]["came"]


def test_a_committed_file_predicts_what_it_did(tmp_path):
    """Whoever changes what files hold changes the number of the format, and writes this file anew."""
    files, path = Path(__file__).parent / "files", tmp_path / "model.mgce"
    path.write_bytes(gzip.decompress((files / f"model-format-{FORMAT}.mgce.gz").read_bytes()))
    then = json.loads((files / f"model-format-{FORMAT}.json").read_text())
    model = TableModel.load(path)
    rows = pd.DataFrame(then["rows"])
    predictions = model.predict(model.columns.select(rows))
    for name in ("h", "p", "q"):
        np.testing.assert_allclose(getattr(predictions, name), then[name], rtol=1e-12, atol=1e-12)
    assert model.sets.predict(predictions.softmax).astype(int).tolist() == then["sets"]
    assert model.version == then["version"]
    assert [sentence.split("`")[1] for sentence in model.unseen(model.columns.select(rows))] == ["few"]
