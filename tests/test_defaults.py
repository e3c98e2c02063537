"""A default of beta stands in one place, and the function, the module and the name of a loss have the same."""

import ast
import inspect
from pathlib import Path

import pytest
import torch

import mgce
from mgce import GCELoss, MGCELoss, estimators, functional, robust_loss
from mgce.numerics.root import DEFAULT_BETA, DEFAULT_GCE_BETA

SOURCES = sorted((Path(mgce.__file__).parent).rglob("*.py"))


def written_betas(path):
    """Yield the lines in which a parameter called beta has a number that is written there for its default."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.arguments):
            by_place = node.posonlyargs + node.args
            pairs = list(zip(by_place[len(by_place) - len(node.defaults) :], node.defaults, strict=True))
            pairs += zip(node.kwonlyargs, node.kw_defaults, strict=True)
            for argument, default in pairs:
                if argument.arg == "beta" and isinstance(default, ast.Constant) and isinstance(default.value, float):
                    yield f"{path.name}:{default.lineno}"


def test_no_signature_writes_a_default_of_beta():
    assert not [place for path in SOURCES for place in written_betas(path)]


@pytest.mark.parametrize(
    "takes_beta", [functional.mgce_loss, MGCELoss, estimators.MGCEClassifier, estimators.MGCEForestClassifier]
)
def test_the_default_is_the_papers(takes_beta):
    assert inspect.signature(takes_beta).parameters["beta"].default == DEFAULT_BETA == 1.4


def test_gce_has_one_default_that_of_its_authors():
    logits, target = torch.randn(9, 4, dtype=torch.float64), torch.randint(4, (9,))
    p = logits.softmax(-1).gather(1, target[:, None])
    want = ((1 - p**0.7) / 0.7).mean()
    for loss in (functional.gce_loss, GCELoss(), robust_loss("gce")):
        torch.testing.assert_close(loss(logits, target), want)
    assert GCELoss().beta == robust_loss("gce").beta == DEFAULT_GCE_BETA == 1 / 0.7
