"""Every loss and every wrapper inside every library; `tests/losses/test_inside_libraries.py` has one of them."""

import pytest

from contracts.inside_libraries import (
    MADE,
    check_compile,
    check_lightning,
    check_onnx,
    check_skorch,
    check_trainer,
)
from mgce.losses.protocol import link_of, own_link

EVERY = pytest.mark.parametrize("name", MADE)
LINKS = {repr(link_of(make())): name for name, make in MADE.items()}  # many losses are for softmax


@EVERY
def test_trainer(name, tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="needs transformers")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    # The folder tests/datasets is on the path here, and the Trainer takes it for the library of that name.
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    check_trainer(MADE[name], tmp_path)


@EVERY
@pytest.mark.filterwarnings("ignore:.*does not have many workers")  # of a loader of twelve rows
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning's, about PyTorch
def test_lightning(name, tmp_path):
    pytest.importorskip("lightning", reason="needs lightning")
    check_lightning(MADE[name], tmp_path)


@pytest.mark.parametrize("name", [name for name in MADE if own_link(MADE[name]()) is not None])
def test_skorch(name):
    pytest.importorskip("skorch", reason="needs skorch")
    check_skorch(MADE[name])


@EVERY
def test_compile(name):
    check_compile(MADE[name])


@pytest.mark.parametrize("name", LINKS.values())
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning", "ignore::DeprecationWarning")  # of PyTorch's exporter
def test_onnx(name):
    pytest.importorskip("onnxscript", reason="needs onnxscript")
    check_onnx(MADE[name])
