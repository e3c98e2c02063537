"""Ways of the GPU kernels through a row, made to be taken by short rows too."""

from collections.abc import Iterator

import pytest

from mgce.kernels import cuda_plan

# One warp, blocks of 64 logits, and lists of 128, so that rows of the tests have several blocks and overflow.
SMALL = {"LONGEST_TILE": 0, "LONG_BLOCK": 64, "LONG_WARPS": 1, "CAPACITY": 128}
WAYS = {
    "tiles": {"LONGEST_TILE": 8192},
    "lists": {"LONGEST_TILE": 0},
    "small_lists": SMALL,
    "small_chunks": {**SMALL, "LARGEST_LISTED_BETA": 1.0},
}


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Have every row go the way of the fixture's parameter."""
    plans = (cuda_plan.plan_tile, cuda_plan.plan_long)
    for name, value in WAYS[request.param].items():
        monkeypatch.setattr(cuda_plan, name, value)
    for plan in plans:
        plan.cache_clear()
    yield request.param
    for plan in plans:
        plan.cache_clear()
