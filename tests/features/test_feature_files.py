"""Files of features: ours and those of other programs, and what is refused."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mgce.features import feature_files
from mgce.features.feature_files import Card, read_features, sidecar, write_features

CARD = Card("tiny:net", "texts", "ab" * 32, "none", 3)
X = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
NAMES = [f"row {i}" for i in range(7)]


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".safetensors"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_written_is_read(tmp_path, suffix, dtype):
    path = tmp_path / f"x{suffix}"
    write_features(path, iter([X[:4], X[4:]]), dtype, NAMES, CARD, "of these")
    found = read_features(path)
    np.testing.assert_array_equal(found.values, X.astype(dtype))
    assert found.values.dtype == dtype and found.names.tolist() == NAMES
    assert (found.card, found.inputs) == (CARD, "of these")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".safetensors"])
def test_a_single_row_is_read(tmp_path, suffix):
    write_features(tmp_path / f"x{suffix}", iter([X[:1]]), "float32", NAMES[:1], CARD, "")
    np.testing.assert_array_equal(read_features(tmp_path / f"x{suffix}").values, X[:1])


def write_foreign(path):
    """Write features as numpy, pyarrow and safetensors do, without a word on them."""
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".npz":
        np.savez_compressed(path, x=X, y=np.arange(7))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"vector": X.tolist(), "label": NAMES}), path)
    else:
        from safetensors.numpy import save_file

        save_file({"x": X}, path)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".safetensors"])
def test_a_file_of_another_program_is_read(tmp_path, suffix):
    write_foreign(tmp_path / f"x{suffix}")
    found = read_features(tmp_path / f"x{suffix}")
    np.testing.assert_array_equal(found.values.astype(np.float32), X)
    assert found.names is None and found.card is None


def test_an_npy_file_is_mapped_into_memory_and_read_by_numpy_alone(tmp_path):
    write_features(tmp_path / "x.npy", iter([X]), "float32", NAMES, CARD, "")
    assert isinstance(read_features(tmp_path / "x.npy").values, np.memmap)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)
    assert json.loads(sidecar(tmp_path / "x.npy").read_text())["names"] == NAMES


def refused(path):
    with pytest.raises(ValueError, match="Expected `embeddings` to be a file of features") as raised:
        read_features(path)
    return str(raised.value)


def test_what_holds_no_features_is_refused(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X[0])
    assert "float32 of shape (3,)" in refused(path)
    np.save(path, np.zeros((1, 65_537), np.int8))
    assert "d at most 65,536, but has int8 of shape (1, 65537)" in refused(path)
    np.save(path, np.array([["a"]]))
    assert "<U1" in refused(path)
    np.save(path, np.array([[{}]]), allow_pickle=True)
    assert "Python objects in dtype" in refused(path)
    np.savez(tmp_path / "x.npz", a=X, b=X)
    assert "but holds 2" in refused(tmp_path / "x.npz")
    pq.write_table(pa.table({"v": [[1.0], [1.0, 2.0]]}), tmp_path / "x.parquet")
    assert "all be of one length" in refused(tmp_path / "x.parquet")
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    refused(tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=r"a file of features \(.npy, .npz, .parquet, .safetensors\), but got"):
        read_features(touched(tmp_path / "x.csv"))
    with pytest.raises(FileNotFoundError, match="Expected `embeddings` to be the path of a file that exists"):
        read_features(tmp_path / "none.npy")


def touched(path):
    path.write_bytes(b"")
    return path


def test_a_description_of_another_file_is_refused(tmp_path):
    write_features(tmp_path / "x.npy", iter([X]), "float32", NAMES, CARD, "")
    np.save(tmp_path / "x.npy", X[:5])
    assert "it should name 5 rows, but names 7" in refused(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.ones((7, 2)))
    assert "its encoder makes 3 features, but the file has 2" in refused(tmp_path / "x.npy")


def test_a_small_file_cannot_fill_the_memory(tmp_path, monkeypatch):
    """Compressed zeros: a megabyte of them holds a gigabyte."""
    monkeypatch.setattr(feature_files, "EXPANDED_BYTES", 1 << 16)
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((1 << 12, 8), np.float32))
    assert "bytes when unpacked" in refused(tmp_path / "x.npz")
    pq.write_table(pa.table({"x": [[0.0] * 64] * (1 << 12)}), tmp_path / "x.parquet")
    assert "its lists unpack to more than" in refused(tmp_path / "x.parquet")
    pq.write_table(pa.table({"x": [[1.0]] * 300}), tmp_path / "x.parquet")  # the rows of a block are not its width
    assert read_features(tmp_path / "x.parquet").values.shape == (300, 1)
