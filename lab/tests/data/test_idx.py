import gzip
import hashlib
import struct

import numpy as np
import pytest

from mgce_lab.data import idx, load, load_images
from mgce_lab.data.idx import read_idx


def idx_file(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def tiny_mnist(tmp_path, monkeypatch):
    """Write five training and three test images 2 x 3 where MNIST has its own."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(256, size=(5, 2, 3), dtype=np.uint8),
        np.array([3, 1, 4, 1, 5], np.uint8),
        rng.integers(256, size=(3, 2, 3), dtype=np.uint8),
        np.array([9, 2, 6], np.uint8),
    ]
    folder, url, checksums = idx.MNIST
    (tmp_path / folder).mkdir(parents=True)
    tiny = {}
    for name, array in zip(checksums, arrays, strict=True):
        content = gzip.compress(idx_file(array))
        (tmp_path / folder / name).write_bytes(content)
        tiny[name] = hashlib.md5(content).hexdigest()
    monkeypatch.setattr(idx, "MNIST", (folder, url, tiny))
    return arrays


def test_images_and_labels_are_those_written(tmp_path, tiny_mnist):
    dataset = load_images("mnist", data_dir=tmp_path)
    assert dataset.name == "mnist" and dataset.classes == tuple("0123456789") and dataset.validation is None
    for part, images, labels in ((dataset.train, *tiny_mnist[:2]), (dataset.test, *tiny_mnist[2:])):
        np.testing.assert_array_equal(part.images[:, 0], images)
        assert part.images.shape == (len(labels), 1, 2, 3) and part.images.dtype == np.uint8
        assert part.target.tolist() == labels.tolist() and part.target.dtype == np.int64
        assert part.images.flags.writeable and len(part) == len(labels) and not part.noisy


def test_as_a_table_it_has_a_column_for_each_pixel(tmp_path, tiny_mnist):
    table = load("mnist", data_dir=tmp_path)
    pixels = np.concatenate([tiny_mnist[0].reshape(5, 6), tiny_mnist[2].reshape(3, 6)])
    np.testing.assert_array_equal(table.features.to_numpy(), pixels)
    assert list(table.features.columns) == [f"pixel{i}" for i in range(6)]
    assert table.target.tolist() == [3, 1, 4, 1, 5, 9, 2, 6] and table.n_train == 5


def test_a_file_with_another_checksum_is_not_read(tmp_path, tiny_mnist):
    path = tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx_file(np.array([9, 2, 7], np.uint8))))
    with pytest.raises(ValueError, match="t10k-labels-idx1-ubyte.gz to have the md5 checksum"):
        load_images("mnist", data_dir=tmp_path)


WHOLE = idx_file(np.arange(6, dtype=np.uint8).reshape(2, 3))


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"not gzip", "to have gzipped content, but got Not a gzipped file"),
        (gzip.compress(WHOLE)[:-4], "to have gzipped content, but got Compressed file ended"),
        (gzip.compress(b""), "to have the header of an IDX file of bytes, but got b''"),
        (gzip.compress(b"\0\0\x0d" + WHOLE[3:]), "to have the header of an IDX file of bytes"),
        (gzip.compress(WHOLE[:8]), "to have the header of an IDX file of bytes"),
        (gzip.compress(WHOLE[:-1]), "to have 6 values, as its header says, but got 5"),
        (gzip.compress(WHOLE + b"\0"), "to have 6 values, as its header says, but got 7"),
    ],
    ids=["no gzip", "cut gzip", "empty", "floats", "cut header", "value missing", "value too many"],
)
def test_damaged_files_are_refused_with_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"Expected .*images.gz {sentence}"):
        read_idx(path)
    path.write_bytes(gzip.compress(WHOLE))
    assert read_idx(path).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_mnist_has_its_published_facts(real_data):
    dataset = load_images("mnist", data_dir=real_data("MNIST/raw"))
    train, test = dataset.train, dataset.test
    assert train.images.shape == (60_000, 1, 28, 28) and test.images.shape == (10_000, 1, 28, 28)
    assert train.target[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3] and test.target[:4].tolist() == [7, 2, 1, 0]
    # The counts of digits and the mean and standard deviation that everyone uses.
    assert np.bincount(train.target).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(test.target).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert round(train.images.mean() / 255, 4) == 0.1307 and round(train.images.std() / 255, 4) == 0.3081
    with gzip.open(real_data() / "MNIST/raw/train-images-idx3-ubyte.gz") as file:
        assert struct.unpack(">4I", file.read(16)) == (2051, 60_000, 28, 28)
        file.seek(16 + 12_345 * 784)
        assert file.read(784) == train.images[12_345].tobytes()


def test_fashion_mnist_has_its_published_facts(real_data):
    dataset = load_images("fashion_mnist", data_dir=real_data("FashionMNIST/raw"))
    assert np.bincount(dataset.train.target).tolist() == [6000] * 10
    assert np.bincount(dataset.test.target).tolist() == [1000] * 10
    assert dataset.classes[dataset.train.target[0]] == "Ankle boot"
    assert round(dataset.train.images.mean() / 255, 4) == 0.2860
    assert round(dataset.train.images.std() / 255, 4) == 0.3530
