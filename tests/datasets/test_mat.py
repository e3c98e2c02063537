import io
import struct

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from mgce import _limits
from mgce.datasets import mat
from mgce.datasets.mat import read_arrays

RNG = np.random.default_rng(0)
ARRAYS = {
    "bytes": RNG.integers(256, size=(3, 4, 2, 5), dtype=np.uint8),
    "small": np.array([[1, 2, 3]], np.uint8),
    "one": np.array([[7]], np.int16),
    "float": RNG.normal(size=(4, 3)),
    "single": RNG.normal(size=(2, 2)).astype(np.float32),
    "whole": np.arange(12.0).reshape(3, 4),
    "long": np.array([[2**40, -1]]),
    "none": np.zeros((0, 3)),
    "a_name_of_more_than_eight": np.ones((1, 1)),
}


def mat_file(arrays, **options):
    buffer = io.BytesIO()
    savemat(buffer, arrays, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_are_those_that_scipy_reads(compressed):
    content = mat_file(ARRAYS, do_compression=compressed, long_field_names=True)
    expected = loadmat(io.BytesIO(content))
    read = read_arrays(content, ARRAYS)
    assert read.keys() == ARRAYS.keys()
    for name, values in read.items():
        np.testing.assert_array_equal(values, expected[name])
        assert values.dtype.isnative


def test_only_numbers_of_the_names_asked_for_are_given():
    others = {"text": "abc", "cell": np.array([[1, "a"]], object), "complex": np.array([[1j]]), "x": np.eye(2)}
    content = mat_file({**others, "y": np.ones((1, 1))})
    assert read_arrays(content, [*others]).keys() == {"x"}
    assert read_arrays(content, ["z"]) == {}


def test_the_other_byte_order():
    values = np.arange(6, dtype=">f8").reshape(2, 3)
    parts = (
        struct.pack(">IIII", 6, 8, 6, 0),
        struct.pack(">IIii", 5, 8, 2, 3),
        struct.pack(">HH4s", 1, 1, b"x"),
        struct.pack(">II", 9, 48) + values.tobytes(order="F"),
    )
    body = b"".join(parts)
    content = b"MATLAB".ljust(124) + b"\x01\x00MI" + struct.pack(">II", 14, len(body)) + body
    np.testing.assert_array_equal(read_arrays(content, ["x"])["x"], loadmat(io.BytesIO(content))["x"])
    np.testing.assert_array_equal(read_arrays(content, ["x"])["x"], values)


def test_what_unpacks_to_more_than_its_limit_is_refused(monkeypatch):
    content = mat_file({"X": np.zeros((1000, 1000), np.uint8)}, do_compression=True)
    assert len(content) < 5000
    monkeypatch.setattr(mat, "EXPANDED_BYTES", 1 << 20)
    assert read_arrays(content, ["X"])["X"].shape == (1000, 1000)
    monkeypatch.setattr(mat, "EXPANDED_BYTES", 1 << 19)
    with pytest.raises(_limits.TooLargeError, match="more than 524,288 bytes"):
        read_arrays(content, ["X"])
    twice = mat_file({name: np.zeros((600, 1000), np.uint8) for name in "XY"}, do_compression=True)
    monkeypatch.setattr(mat, "EXPANDED_BYTES", 1 << 20)
    with pytest.raises(_limits.TooLargeError):
        read_arrays(twice, ["X"])


@pytest.mark.parametrize("compressed", [False, True])
def test_a_damaged_file_gives_arrays_or_a_value_error(compressed):
    content = mat_file({"X": ARRAYS["bytes"], "y": ARRAYS["float"]}, do_compression=compressed)
    rng, refused = np.random.default_rng(1), 0
    for _ in range(3000):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        try:
            read_arrays(bytes(damaged[: rng.integers(len(content)) if rng.random() < 0.2 else None]), ["X", "y"])
        except ValueError:
            refused += 1
    assert refused > 300
