"""The loss whose parts are hardest to reach, inside each library; `tests/integrations/test_every_loss.py` has all."""

import pytest

from contracts.inside_libraries import (
    HARDEST,
    MADE,
    check_compile,
    check_lightning,
    check_onnx,
    check_skorch,
    check_trainer,
)

MAKE = MADE[HARDEST]


@pytest.mark.slow
def test_trainer(tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="needs transformers")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    # The folder tests/datasets is on the path here, and the Trainer takes it for the library of that name.
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    check_trainer(MAKE, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not have many workers")  # of a loader of twelve rows
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning's, about PyTorch
def test_lightning(tmp_path):
    pytest.importorskip("lightning", reason="needs lightning")
    check_lightning(MAKE, tmp_path)


def test_skorch():
    pytest.importorskip("skorch", reason="needs skorch")
    check_skorch(MAKE)


def test_compile():
    check_compile(MAKE)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning", "ignore::DeprecationWarning")  # of PyTorch's exporter
def test_onnx():
    pytest.importorskip("onnxscript", reason="needs onnxscript")
    check_onnx(MAKE)
