import pytest
import torch
from hypothesis import settings

# No deadline: a busy machine is not a wrong answer.
settings.register_profile("mgce", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("mgce")


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)
