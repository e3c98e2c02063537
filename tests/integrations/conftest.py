"""Tests against other libraries: each is skipped, with the reason, where its library is missing or does not load."""

import importlib

import pytest


def library(name):
    """Return a library, or skip the tests that need it."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # one that is there but built for another PyTorch raises what it likes
        pytest.skip(f"needs {name}: {type(error).__name__}: {error}", allow_module_level=True)


def pytest_collection_modifyitems(items):
    """Mark what stands in this folder, except in files that say that they are quick."""
    for item in items:
        if "tests/integrations" in item.path.as_posix() and not getattr(item.module, "QUICK", False):
            item.add_marker(pytest.mark.integration)
