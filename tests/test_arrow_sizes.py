"""What Arrow's data becomes is counted before it is unpacked."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mgce._arrow_sizes import check_arrow, memory_of
from mgce._limits import TableSize, TooLargeError

TEXTS = ["a" * 1000, None, "b"] * 200
VIEWS = pa.array(TEXTS).cast(pa.string_view())


@pytest.mark.parametrize(
    "array",
    [
        pa.array(np.zeros(999)),
        pa.array([True, None] * 500),
        pa.array(TEXTS),
        pa.array(TEXTS).dictionary_encode(),
        VIEWS,
        VIEWS[1:],
        pa.array([[1.0] * 30, None, []] * 300),
        pa.array([{"a": "x" * 50, "b": 1}] * 300),
        pa.array([[("k", "v" * 50)]] * 300, pa.map_(pa.string(), pa.string())),
        pa.nulls(700),
        pa.array(pd.to_datetime(["2024-01-01"] * 500).date),
        pa.RunEndEncodedArray.from_arrays(pa.array([500], pa.int32()), pa.array(["words"])),
        pa.ListViewArray.from_arrays(
            pa.array([0] * 300, pa.int32()), pa.array([9] * 300, pa.int32()), pa.array(np.zeros(9))
        ),
    ],
    ids=lambda array: f"{array.type}-{len(array)}",
)
def test_no_less_is_counted_than_pandas_takes(array):
    column = array.to_pandas().astype(object) if pa.types.is_dictionary(array.type) else array.to_pandas()
    texts = sum(len(cell) for cell in column if isinstance(cell, str))
    assert memory_of(array) >= max(texts, column.memory_usage(index=False))


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
def test_the_buffers_of_a_file_are_counted_as_they_unpack(make, compression):
    batch = pa.record_batch([pa.array(np.zeros(100_000)), pa.array(["x"] * 100_000).dictionary_encode()], ["a", "b"])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with make(buffer := io.BytesIO(), batch.schema, options=options) as writer:
        for _ in range(3):
            writer.write_batch(batch)
    content, size = buffer.getvalue(), TableSize(0)
    size.most = 3 * (800_000 + 400_000)
    if compression is None:  # they are as large as the file
        return check_arrow(content, size)
    with pytest.raises(TooLargeError):
        check_arrow(content, size)
    size.most += 100_000  # the dictionary, and what the last byte of a bitmap leaves
    return check_arrow(content, size)


@pytest.mark.parametrize("n", range(0, 400, 7))
def test_a_file_that_is_cut_is_damaged_or_whole(n):
    batch = pa.record_batch([pa.array(np.zeros(100))], ["a"])
    with pa.ipc.new_stream(
        buffer := io.BytesIO(), batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as w:
        w.write_batch(batch)
    for content in (buffer.getvalue()[:n], buffer.getvalue()[n:]):
        try:
            check_arrow(content, TableSize(0))
        except ValueError as error:
            assert "it is no whole Arrow file" in str(error) or isinstance(error, TooLargeError)
