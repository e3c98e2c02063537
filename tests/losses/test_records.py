"""What each loss says of itself is checked here without its formula; a new loss says all of it in its own file."""

import json
import math
import pkgutil
import runpy
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import every_loss
import mgce_lab.losses
from contracts.loss_contract import K
from contracts.robust_loss_contract import told
from mgce import robust_loss
from mgce.losses import presets
from mgce.losses.modules import CE, GCE, MGCE
from mgce.losses.sums import sum_of
from mgce_lab.losses import LOSSES, NAMED

DOCS = Path(__file__).parents[2] / "docs"
UNTRIMMED = [name for name, loss in LOSSES.items() if "trim" not in loss.told]  # a row alone has no loss by the others


def table(name, logits):
    """Return the loss of every class of every row, in the noise that a loss is told of."""
    criterion = robust_loss(name, reduction="none", **told(name, K, rate=0.2))
    return torch.stack([criterion(logits, torch.full((len(logits),), y)) for y in range(K)], 1)


@pytest.mark.parametrize("name", UNTRIMMED)
def test_a_loss_is_bounded_above_as_it_says(name):
    """A hundred times the logits: a hundred times the largest loss, or the same."""
    directions = torch.cat([torch.randn(50, K, dtype=torch.float64), torch.eye(K, dtype=torch.float64)])
    small, large = (table(name, scale * directions).max() for scale in (1e4, 1e6))
    assert large < 1.01 * small if LOSSES[name].bounded else large > 50 * small


@pytest.mark.parametrize("name", UNTRIMMED)
def test_a_loss_is_symmetric_as_it_says(name):
    sums = table(name, 30 * torch.randn(20, K, dtype=torch.float64)).sum(1)
    spread = sums.max() - sums.min()
    assert spread < 1e-13 * sums.abs().max() if LOSSES[name].symmetric else spread > 0.01


@pytest.mark.parametrize("name", UNTRIMMED)
def test_a_loss_is_convex_as_it_says(name):
    ends = 6 * torch.randn(2, 400, K, dtype=torch.float64)
    first, middle, last = (table(name, f) for f in (ends[0], ends.mean(0), ends[1]))
    excess = (middle - (first + last) / 2).max()
    assert excess < 1e-13 * max(1, first.abs().max()) if LOSSES[name].convex else excess > 1e-3


RANGES = [
    (module, name, end)
    for module in every_loss.MODULES.values()
    for name, (is_integer, least, most, above) in getattr(module, "_ranges", {}).items()
    for end in (least, most)
    if end is not None and math.isfinite(end) and not (above and end == least)
]


@pytest.mark.parametrize(("module", "name", "end"), RANGES)
def test_a_loss_and_its_gradient_are_finite_in_float32_at_both_ends_of_every_range(module, name, end):
    logits = torch.cat([torch.zeros(1, K), 50 * torch.eye(K), torch.randn(20, K)]).requires_grad_()
    for y in range(K):
        try:
            loss = module(reduction="none", **{name: end})(logits, torch.full((len(logits),), y))
        except ValueError as refusal:  # an end that is excluded, alone or for so many classes
            assert f"Expected `{name}` to be below" in str(refusal)
            continue
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        assert loss.isfinite().all() and gradient.isfinite().all()


def test_losses_stand_in_the_order_in_which_they_are_added(monkeypatch):
    assert list(NAMED)[:6] == ["ce", "mae", "gce", "mgce", "rce", "sce"]
    named = [replace(MGCE, name=name) for name in ("b", "a", "c")]
    for kept in ("NAMED", "LOSSES"):
        monkeypatch.setattr(presets, kept, {})
    presets.add([SimpleNamespace(NAMED=named[1:])])
    presets.add([SimpleNamespace(NAMED=named[:1])])
    assert list(presets.NAMED) == list(presets.LOSSES) == ["a", "c", "b"]
    with pytest.raises(ValueError, match="Expected `NAMED` to be losses of different names"):
        presets.add([SimpleNamespace(NAMED=named[:1])])


def test_the_losses_of_every_file_of_the_lab_have_their_names():
    for file in pkgutil.iter_modules(mgce_lab.losses.__path__, "mgce_lab.losses."):
        missing = {loss.name for loss in getattr(import_module(file.name), "NAMED", ())} - NAMED.keys()
        assert not missing, f"`_MODULES` of mgce_lab.losses does not list {file.name}"


def test_a_sum_takes_what_its_losses_take():
    loss = sum_of("gce+ce", GCE, CE)
    assert loss.hyperparameters == {"weights": (1.0, 1.0), "beta": 1 / 0.7}
    logits, target = torch.randn(6, K), torch.arange(6) % K
    want = robust_loss("gce", beta=2.0, label_smoothing=0.1)(logits, target)
    want += 3 * robust_loss("ce", label_smoothing=0.1)(logits, target)
    torch.testing.assert_close(loss(beta=2.0, weights=(1.0, 3.0), label_smoothing=0.1)(logits, target), want)
    assert not loss.told
    assert (loss.formula, loss.bounded, loss.symmetric, loss.convex) == ("GCE + CE", False, False, False)


def test_the_page_of_losses_has_a_row_for_each():
    program = runpy.run_path(str(DOCS / "losses_table.py"))
    page = (DOCS / "losses.md").read_text()
    source = [page]
    program["fill"](None, "other", source)
    assert source == [page]
    program["fill"](None, "losses", source)
    before, after = page.split(program["PLACE"])
    assert source[0].startswith(before) and source[0].endswith(after)
    header, _, *rows = source[0][len(before) : -len(after)].splitlines()
    assert [row.split(" | ")[0] for row in rows] == [f"| `{name}`" for name in NAMED]
    assert {row.count(" | ") for row in (header, *rows)} == {8}
    (rce,) = (row for row in rows if row.startswith("| `rce`"))
    want = "`RCELoss` | $A (1 - p_y)$, `log_zero` = -A | `log_zero`: -9.21 | yes | yes | no | Wang et al. 2019 |"
    assert rce == f"| `rce` |  | {want}"


# A loss in a file of its own: the folder of losses is longer by this, and nothing else is edited.
CUBE = '''
from mgce.losses.records import NamedLoss, Number, Presets
from mgce.losses.scored_module import by_scores


def cube_scores(logits, wanted, power):
    r"""Compute the cube loss.

    .. math:: (1 - p_y)^3

    Reference: Nobody, Cubes, 2026.
    """
    return -((1 - wanted.of(logits.softmax(wanted.dim))) ** power)


CUBE = NamedLoss(
    "cube",
    by_scores("CubeLoss", cube_scores, ("power=2.0", "0.5344"), power=Number(3.0, "above 0.", 0, above=True)),
    "$(1 - p_y)^3$",
    bounded=True,
    source="Nobody 2026",
    presets=Presets({"cifar10": {"power": 4.0}}),
)
NAMED = (CUBE,)
'''
USE = """
import json, runpy, sys

from mgce.losses import presets

sys.path.insert(0, sys.argv[1])
import cube

presets.add([cube])
import torch
from mgce import robust_loss
from mgce_lab.cli.compare import KNOWN
from mgce_lab.cli.lists import parse_methods
from mgce_lab.cli.main import main
from mgce_lab.protocols.protocols import PROTOCOLS, Request, plan
from mgce_lab.engine.methods import Method
from mgce_lab.losses import LOSSES, preset

logits, target = torch.tensor([[1.0, 0.0]]), torch.tensor([1])
value = robust_loss("cube")(logits, target), robust_loss("cube", "cifar10")(logits, target)
planned = {}
for protocol in PROTOCOLS:
    runs = plan(protocol, Request(seeds=1))
    planned[protocol] = "cube" in {name for run in runs for name in run.hyperparameters}
table, out = runpy.run_path(sys.argv[3])["table"](), sys.argv[2]
options = "--methods cube --epochs 1 --hidden 2 --seeds 1 --quiet --out-dir"
sys.argv = ["mgce-lab", "compare", "wine", *options.split(), out]
try:
    code = main()
except SystemExit as error:
    code = error.code
json.dump(
    {
        "values": [float(one) for one in value], "names": list(LOSSES), "label": Method("cube").label,
        "planned": planned, "code": code or 0, "all": parse_methods("all", KNOWN), "rows": table.splitlines(),
    },
    sys.stdout,
)
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_a_new_loss_is_one_file(tmp_path):
    (tmp_path / "cube.py").write_text(CUBE)
    command = [sys.executable, "-c", USE, str(tmp_path), str(tmp_path / "out"), str(DOCS / "losses_table.py")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    q = 1 / (1 + torch.tensor(-1.0).exp()).item()  # 1 - p of the label
    assert found["values"] == [pytest.approx(q**3), pytest.approx(q**4)]
    assert "cube" in found["names"] and (found["label"], found["code"]) == ("cube", 0)
    assert {protocol for protocol, has in found["planned"].items() if has} == {"p1", "p2", "reduced", "rates"}
    row = "| `cube` |  | `CubeLoss` | $(1 - p_y)^3$ | `power`: 3 | yes | no | no | Nobody 2026 |"
    assert row in found["rows"]
    compared = (tmp_path / "out" / "table.csv").read_text().splitlines()
    assert compared[1].startswith("cube,") and "cube" in found["all"] and set(LOSSES) < set(found["all"])
