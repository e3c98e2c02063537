"""Ways of the GPU kernels through a row, made to be taken by short rows too."""

from collections.abc import Iterator

import pytest

from mgce.kernels import cuda_plan

CHUNKS = {"PACKED_BLOCK": 1, "PLAIN_BLOCK": 1, "CHUNK": 64, "CHUNK_WARPS": 1, "LARGEST_CHUNK_WARPS": 1}
WAYS = {
    "rows": {},
    "small_packs": {"SMALLEST_PACKED_BLOCK": 256},  # of every row of more than 128 classes that is held in registers
    "small_chunks": CHUNKS,
    "one_pass": {**CHUNKS, "ONE_PASS": True, "STREAM_BYTES": 256, "STREAM_WARPS": 1},
}


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Have every row go the way of the fixture's parameter."""
    plans = (cuda_plan.plan_rows, cuda_plan.plan_stream, cuda_plan.plan_cached_rows)
    for name, value in WAYS[request.param].items():
        monkeypatch.setattr(cuda_plan, name, value)
    for plan in plans:
        plan.cache_clear()
    yield request.param
    for plan in plans:
        plan.cache_clear()
