"""No command overwrites a file that it reads, nor writes two outputs to one file: it refuses before its work."""

import itertools
import typing
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from mgce.desk.cli.commands import Program
from mgce_lab.cli.commands import Program as LabProgram
from mgce_lab.data import uci, uci_copies
from mgce_lab.data.registry import FOLDERS
from mgce_lab.data.sources import Source

PACKAGES = {command: group.package for group in (Program, LabProgram) for command in group.sentences}


# Every parameter of a command that is a path stands in one of these; so a new one has to be named, and is then tried.
@pytest.fixture(autouse=True)
def _inputs_need_not_be_there(monkeypatch):
    """Leave out the check of missing inputs, which comes first: the errors on outputs come without them too."""
    monkeypatch.setattr(Program, "check", staticmethod(lambda command, words: None))


READ = {"annotations", "model", "source", "suspects", "table", "target_file", "transition"}
WRITTEN = {"cleaned", "json_file", "mended", "out", "to_check"}
OF_FOLDERS = {"data_dir", "out_dir", "runs"}
# And every one that is a text stands in one of these. A table by its path is what `compare` alone calls a data set.
TEXTS_OF_FILES = {"checked", "checked_again", "embeddings", "encoder"}
TEXTS = {
    *("target", "label_columns", "model", "metric", "noise_rate", "noise_type", "id", "drop", "text"),
    *(
        "category",
        "number",
        "groups",
        "time",
        "sep",
        "decimal",
        "encoding",
        "sheet",
        "header",
        "row",
        "annotator",
        "label",
        "image",
        "device",
        "column",
        "shard",
    ),
    *("prediction", "bounds", "by", "dataset", "methods", "betas", "trims", "protocol", "precision", "name", "stem"),
    *("backend", "scheduler", "memory"),
}
# What a command is called with, unless the case says otherwise: its arguments by position, then its options.
CALLS = {
    "fit": {"table": "t.csv", "target": "kind"},
    "review": {"suspects": "t.suspects.csv"},
    "clean": {"suspects": "t.suspects.csv"},
    "train": {"source": "a.npz"},
    "embed": {"source": "photos", "out": "x.npz"},
    "predict": {"model": "m.mgce", "table": "t.csv"},
    "certify": {"model": "m.mgce", "table": "t.csv"},
    "compare": {"dataset": "t.csv", "target": "kind"},
}
OF_PICTURES = {("fit", "target_file"): "table", ("fit", "encoder"): "table", ("train", "target_file"): "source"}
NOT_TOGETHER = {("fit", "cleaned", "annotations"), ("fit", "mended", "annotations"), ("certify", "to_check", "checked")}
NOT_TOGETHER |= {("certify", "to_check", "checked_again")}
REFUSED = "nothing else uses"


def parameters(command):
    """Return the names of the parameters of a command that are paths, and of those that are texts."""
    hints = typing.get_type_hints(getattr(import_module(f"{PACKAGES[command]}.{command}"), command))
    of = {name: {hint, *typing.get_args(hint)} for name, hint in hints.items() if name != "return"}
    return [{name for name, types in of.items() if types & wanted} for wanted in ({Path}, {str, list[str]})]


def pairs():
    """Yield every output of every command with every input and every other output of it."""
    for command in PACKAGES:
        paths, texts = parameters(command)
        written = sorted(paths & WRITTEN)
        read = sorted(paths & READ | texts & TEXTS_OF_FILES) + ["dataset"] * (command == "compare")
        yield from ((command, *pair) for pair in itertools.product(written, read))
        yield from ((command, *pair) for pair in itertools.combinations(written, 2))


@pytest.fixture
def folder(tmp_path):
    """A folder with what commands look at before they see which files they would overwrite."""
    for name in ("photos/dark", "photos/light", "encoder"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "0.png")
    pd.DataFrame({"kind": ["a", "b"], "file": ["photos/dark/0.png"] * 2}).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def typed(command, options):
    """Return what a person types: the arguments by position, then the options."""
    places = [name for name in CALLS[command] if name not in ("target", "out")]
    flags = {name: value for name, value in options.items() if name not in places}
    named = [(f"--{name.removesuffix('_file') if name == 'json_file' else name}", flags[name]) for name in flags]
    return [
        *(options[name] for name in places),
        *(part for flag, value in named for part in (flag.replace("_", "-"), value)),
    ]


@pytest.mark.parametrize("command", PACKAGES)
def test_every_parameter_is_known_to_name_a_file_or_none(command):
    paths, texts = parameters(command)
    assert paths <= READ | WRITTEN | OF_FOLDERS
    assert texts <= TEXTS_OF_FILES | TEXTS
    assert command in CALLS or not paths & (READ | WRITTEN)


@pytest.mark.parametrize(("command", "output", "other"), [*pairs()])
def test_no_output_is_an_input_or_another_output(refuses, folder, command, output, other):
    name = "encoder/same.npz" if other == "encoder" else "same.npz" if command == "embed" else "same.csv"
    options = dict(CALLS[command])
    if (command, other) in OF_PICTURES:
        options[OF_PICTURES[command, other]] = "photos"
    if other == "checked_again":
        options["checked"] = "d.csv"
    options[other] = "encoder" if other == "encoder" else name
    sentence = "left out with" if (command, output, other) in NOT_TOGETHER else REFUSED
    if other not in WRITTEN:
        (folder / name).write_text("what is read")
    (folder / "link.npz").symlink_to(folder / name)
    for spelled in (name, f"photos/../{name}", folder / name, "link.npz"):
        if spelled != "link.npz" or (command, output) != ("clean", "out"):  # which wants the suffix of a table
            refuses(sentence, command, *typed(command, {**options, output: spelled}))


@pytest.mark.parametrize(
    ("there", "arguments"),
    [
        ("m.html", "fit t.csv --target kind --embeddings m.html --out m.mgce"),
        ("m.suspects.csv", "fit t.csv --target kind --annotations m.suspects.csv --out m.mgce"),
        ("m.consensus.csv", "fit t.csv --label-columns kind,file --checked m.consensus.csv --out m.mgce"),
        ("", "fit photos --json m.features.npz --out m.mgce"),
        ("m.features.npz", "fit photos --target-file m.features.npz --target kind --out m.mgce"),
        ("", "fit photos --json photos/dark/0.png"),
        ("x.npy.json", "fit t.csv --target kind --embeddings a.npy,x.npy --json x.npy.json"),
        ("x.npy.json", "predict m.mgce x.npy --json x.npy.json"),
        ("", "predict m.mgce photos --encoder timm:encoder --json encoder/0.png"),
        ("x.npy.json", "certify m.mgce t.csv --embeddings x.npy --json x.npy.json"),
        ("m.svg", "train m.svg --out m.pt"),
        ("m.svg", "train photos --out m.pt --json m.svg"),
        ("", "train photos --out photos/light/0.png"),
        ("x.npy.json", "embed x.npy.json --column kind --out x.npy"),
        ("link.npz -> photos/dark/0.png", "embed photos --out link.npz"),
        ("link.npz -> photos/dark/0.png", "embed t.csv --column file --out link.npz"),
        ("encoder/0.npz", "embed photos --encoder encoder --out encoder/0.npz"),
        ("data/uci/letter-recognition.data", "compare letter --data-dir data --json data/uci/letter-recognition.data"),
        ("runs.json -> t.csv", "compare t.csv --target kind --out-dir ."),
        ("here/breast_cancer.new.csv -> here/breast_cancer.csv", "demo --out-dir here"),
    ],
)
def test_nor_is_a_file_beside_what_an_option_names(refuses, folder, there, arguments):
    name, _, target = there.partition(" -> ")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    if target:
        (folder / name).symlink_to(folder / target)
    elif name:
        (folder / name).write_text("what is read")
    refuses(REFUSED, *arguments.split())


def test_published_tables_lie_in_the_folders_that_are_known():
    paths = [one.path for module in (uci, uci_copies) for one in vars(module).values() if isinstance(one, Source)]
    assert len(paths) > 5 and {path.partition("/")[0] for path in paths} <= set(FOLDERS)
