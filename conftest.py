"""Names that every doctest may use."""

import numpy
import pytest
import torch


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace["torch"] = torch
    doctest_namespace["np"] = numpy
