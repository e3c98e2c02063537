"""What is made of a record is what a written function and module would be, for people, pickles and type checkers."""

import ast
import copy
import doctest
import inspect
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import losses_stub
import mgce_lab.losses
from mgce import functional, losses
from mgce.losses import arguments, presets
from mgce.losses.base import Loss
from mgce.losses.records import Number
from mgce.losses.scored_module import by_scores

ROOT = Path(__file__).parents[2]
MADE = list(presets.MADE.values())
MODULES = [made for made in MADE if isinstance(made, type)]
# Written by hand, with the arguments of cross-entropy from the same source.
DOCUMENTED = [*MADE, functional.gce_loss, losses.GCELoss, losses.MGCELoss]


def named(made):
    return made.__name__


@pytest.mark.parametrize("made", DOCUMENTED, ids=named)
def test_help_describes_every_argument_once_and_in_its_place(made):
    section = inspect.getdoc(made).partition("\nArgs:\n")[2].partition("\n\n")[0]
    described = re.findall(r"^    (\w+):", section, re.MULTILINE)
    assert described == list(inspect.signature(made).parameters)
    assert max(map(len, made.__doc__.splitlines())) <= 120 and arguments.PLACE not in made.__doc__


def test_the_arguments_of_cross_entropy_are_described_once_in_the_source():
    source = "".join(path.read_text() for path in (ROOT / "src/mgce/losses").rglob("*.py"))
    for line in {*arguments.OF_FUNCTIONS.splitlines(), *arguments.OF_MODULES.splitlines()}:
        name, _, meaning = line.partition(": ")
        if name in ("input", "target", "size_average", "reduce"):
            assert source.count(f"{name}: {meaning}\n") + source.count(f'{name}: {meaning}"') == 1, line


@pytest.mark.parametrize("made", MADE, ids=named)
def test_the_example_in_its_docstring_is_right(made):
    (example,) = doctest.DocTestFinder(recurse=False).find(
        made, named(made), module=False, globs={**presets.MADE, "torch": torch}
    )
    assert example.examples and doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("made", MADE, ids=named)
def test_what_is_made_is_found_where_it_says_and_pickled(made):
    home = sys.modules[made.__module__]
    assert getattr(home, made.__name__) is made is pickle.loads(pickle.dumps(made))
    assert home is mgce_lab.losses or made.__name__ in (*losses.__all__, *functional.__all__)


def test_the_room_names_every_module_that_is_made():
    own = [module for module in MODULES if module.__module__ == "mgce.losses"]
    assert {module.__name__ for module in own} == set(losses._MADE)
    with pytest.raises(AttributeError, match="module 'mgce.losses' has no attribute 'NothingLoss'"):
        losses.NothingLoss  # noqa: B018


@pytest.mark.slow
def test_each_file_of_the_room_is_imported_first_of_all():
    """And `MGCELoss` waits for no loss that is made."""
    files = [path.relative_to(ROOT / "src") for path in (ROOT / "src/mgce/losses").rglob("*.py")]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files]
    code = """
import importlib, os, sys, torch
for name in sys.argv[1:]:
    if os.fork() == 0:
        importlib.import_module(name)
        os._exit(name == "mgce.losses.modules" and "mgce.losses.presets" in sys.modules)
    assert os.wait()[1] == 0, name
"""
    result = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_a_module_is_copied_and_pickled_with_its_numbers(module):
    criterion = module(label_smoothing=0.1, **module.defaults)
    for other in (copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))):
        assert repr(other) == repr(criterion) and other.hyperparameters() == criterion.hyperparameters()
    assert isinstance(criterion, Loss) and criterion.label_smoothing == 0.1


def test_a_word_that_is_no_argument_is_refused_by_its_name():
    with pytest.raises(TypeError, match=r"agce_loss\(\) got an unexpected keyword argument 'alpha'"):
        functional.agce_loss(torch.zeros(1, 2), torch.tensor([0]), alpha=1.0)
    with pytest.raises(TypeError, match="AGCELoss got an unexpected keyword argument 'alpha'"):
        losses.AGCELoss(alpha=1.0)


def test_a_number_outside_its_range_is_refused_by_function_and_module():
    def plain_scores(logits, wanted, low, count, free):
        """Compute.

        Reference: nobody.
        """
        return wanted.of(logits) * low * count

    numbers = {"low": Number(1.0, "above 0.", 0, 2, above=True), "count": Number(1, "", 1, 3), "free": Number(0.0, "")}
    module = by_scores("PlainLoss", plain_scores, ("", ""), **numbers)
    assert module(low=2, count=3, free=-1e9)(torch.tensor([[1.0, 2.0]]), torch.tensor([1])) == -12
    for wrong in ({"low": 0.0}, {"low": 2.1}, {"count": 0}, {"count": 4}):
        with pytest.raises(ValueError, match=f"Expected `{next(iter(wrong))}` to be"):
            module(**wrong)
    with pytest.raises(TypeError, match="Expected `count` to be an integer"):
        module.function(torch.zeros(1, 2), torch.tensor([0]), count=1.5)


def test_type_checkers_are_told_what_is_made():
    """After a new loss of `mgce.losses`: `python tests/losses_stub.py`."""
    written, made = losses_stub.STUB.read_text(), losses_stub.render()
    found, want = ([ast.dump(node) for node in ast.parse(text).body] for text in (written, made))
    assert sorted(found) == sorted(want)


CALLS = """
import torch

from mgce.functional import rce_loss
from mgce.losses import AGCELoss, RCELoss

f, y = torch.zeros(1, 2), torch.tensor([0])
AGCELoss(torch.ones(2), a=0.6, q=0.6, reduction="sum")(f, y)
rce_loss(f, y, None, -100, "mean", 0.1, log_zero=-4.0).sum()
RCELoss(log_zero=-2.0).link
AGCELoss(a="much")  # wrong
AGCELoss(alpha=1.0)  # wrong
rce_loss(f, y, log_zeros=2.0)  # wrong
rce_loss(f, 1)  # wrong
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_mypy_finds_wrong_arguments(tmp_path):
    (tmp_path / "calls.py").write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", tmp_path / "calls.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    output = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout
    found = {int(line.split(":")[1]) for line in output.splitlines() if ": error: " in line}
    assert found == {i for i, line in enumerate(CALLS.splitlines(), 1) if line.endswith("# wrong")}, output
