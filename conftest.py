"""Names that every doctest may use, what may be imported where there is no GPU, and how many threads there are."""

import importlib.util
import os

# Test processes run side by side, one for each core; they, and the commands that they start, have a thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy
import pytest
import torch

# Each module of mgce.integrations needs the library of its name, and some another.
INTEGRATIONS = {
    "cleanlab": ["cleanlab"],
    "lightgbm": ["lightgbm"],
    "lightning": ["lightning"],
    "onnx": ["onnx", "onnxscript"],
    "skorch": ["skorch"],
    "transformers": ["transformers"],
    "xgboost": ["xgboost"],
}
collect_ignore_glob = [
    f"src/mgce/integrations/{name}.py"
    for name, libraries in INTEGRATIONS.items()
    if any(importlib.util.find_spec(library) is None for library in libraries)
]
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob += ["src/mgce/kernels/cuda_[!p]*.py", "tests/kernels/compile_worker.py"]
elif not torch.cuda.is_available():
    # Read where triton is first imported and where a kernel is defined.
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace["torch"] = torch
    doctest_namespace["np"] = numpy


@pytest.fixture
def two_recipes():
    """Leave two of the recipes, and all of them afterwards, in the order that other tests see."""
    from mgce.training.recipes import RECIPES

    every = dict(RECIPES)
    for name in set(RECIPES) - {"cross-entropy", "ELR"}:
        del RECIPES[name]
    yield
    RECIPES.clear()
    RECIPES.update(every)
