import pytest
import torch
from hypothesis import settings

# No deadline: a busy machine is not a wrong answer.
settings.register_profile("mgce", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("mgce")
# Test processes run side by side, one for each core.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)
