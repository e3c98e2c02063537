import io

import numpy as np
import pytest
from scipy.io import savemat

from mgce_lab.data import load_images, svhn


def mat_file(**arrays):
    buffer = io.BytesIO()
    savemat(buffer, arrays)
    return buffer.getvalue()


def test_images_are_channels_first_and_ten_is_zero(tmp_path, publish):
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(32, 32, 3, 4), dtype=np.uint8)
    publish(svhn, "TRAIN", mat_file(X=images, y=np.array([[1], [10], [9], [10]], np.uint8)))
    publish(svhn, "TEST", mat_file(X=images[..., :1], y=np.array([[5]], np.uint8)))
    dataset = load_images("svhn", data_dir=tmp_path)
    assert dataset.train.target.tolist() == [1, 0, 9, 0] and dataset.test.target.tolist() == [5]
    assert dataset.train.images.shape == (4, 3, 32, 32) and dataset.train.images.flags.c_contiguous
    for row, channel, y, x in ((0, 0, 0, 0), (3, 2, 31, 5), (2, 1, 7, 30)):
        assert dataset.train.images[row, channel, y, x] == images[y, x, channel, row]
    assert dataset.classes[dataset.train.target[1]] == "0"


def test_a_damaged_file_never_gets_to_the_reader(tmp_path, publish, monkeypatch):
    """SciPy's is compiled, and a changed byte may crash it."""
    whole = mat_file(X=np.zeros((32, 32, 3, 2), np.uint8), y=np.ones((2, 1)))
    path = publish(svhn, "TRAIN", whole)
    monkeypatch.setattr("scipy.io.loadmat", lambda *_, **__: pytest.fail("a damaged file was read"))
    rng = np.random.default_rng(1)
    for place in [0, *rng.integers(len(whole), size=20), len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1
        for content in (bytes(changed), whole[:place], whole + b"\0"):
            path.write_bytes(content)
            with pytest.raises(ValueError, match=r"Expected .*train_32x32.mat to have the sha256 checksum"):
                load_images("svhn", data_dir=tmp_path)


def test_another_checksum_and_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="hold train_32x32.mat, .* get it from http://ufldl.stanford.edu"):
        load_images("svhn", data_dir=tmp_path)
    (tmp_path / "train_32x32.mat").write_bytes(mat_file(X=np.zeros((32, 32, 3, 1), np.uint8), y=np.ones((1, 1))))
    with pytest.raises(ValueError, match="train_32x32.mat to have the sha256 checksum 435e94d6"):
        load_images("svhn", data_dir=tmp_path)
