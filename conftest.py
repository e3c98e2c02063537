"""Names that every doctest may use, what may be imported where there is no GPU, and how many threads there are."""

import gc
import importlib.util
import os

# Test processes run side by side, one for each core; they, and the commands that they start, have a thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy
import pytest
import torch
from hypothesis import settings

from web_pages import CHROMIUM

# No deadline: a busy machine is not a wrong answer.
settings.register_profile("mgce", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("mgce")

# Each module of mgce.integrations needs the library of its name, and some another; cleanlab's names need pandas alone.
INTEGRATIONS = {
    "cleanlab": ["pandas"],
    "lightgbm": ["lightgbm"],
    "lightning": ["lightning"],
    "onnx": ["onnx", "onnxscript"],
    "skorch": ["skorch"],
    "transformers": ["transformers"],
    "xgboost": ["xgboost"],
}
collect_ignore_glob = [
    f"src/mgce/integrations/{name}[./]*"
    for name, libraries in INTEGRATIONS.items()
    if any(importlib.util.find_spec(library) is None for library in libraries)
]
# Programs of the lab that need what the development extra lacks, or a GPU.
collect_ignore_glob += ["lab/src/mgce_lab/studies/*", "lab/src/mgce_lab/soak/*", "lab/src/mgce_lab/table_model/*"]
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob += ["src/mgce/kernels/cuda_[!p]*.py", "tests/kernels/compile_worker.py"]
elif not torch.cuda.is_available():
    # Read where triton is first imported and where a kernel is defined.
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave what is collected out of every search for garbage: it lives to the end, in millions of objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace["torch"] = torch
    doctest_namespace["np"] = numpy


@pytest.fixture
def two_recipes():
    """Leave two of the recipes, and all of them afterwards, in the order that other tests see."""
    from mgce.loop.recipes import RECIPES

    every = dict(RECIPES)
    for name in set(RECIPES) - {"cross-entropy", "ELR"}:
        del RECIPES[name]
    yield
    RECIPES.clear()
    RECIPES.update(every)


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)


@pytest.fixture
def browser():
    """Chromium, driven from Python; skipped where either is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()
