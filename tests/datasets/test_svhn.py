import io

import numpy as np
import pytest
from scipy.io import savemat

from mgce.datasets import load_images, svhn
from mgce.datasets.svhn import read_mat


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


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"no MATLAB file" * 20, "the arrays X and y of a MATLAB file"),
        (mat_file(y=np.ones((2, 1))), "images X .* as many labels y"),
        (mat_file(X=np.zeros((2, 2, 3, 4), np.uint8), y=np.ones((3, 1))), "images X .* as many labels y"),
        (
            mat_file(X=np.zeros((2, 2, 3, 40), np.uint8), y=np.ones((40, 1)))[:300],
            "the arrays X and y of a MATLAB file",
        ),
    ],
    ids=["no MATLAB file", "no images", "other lengths", "cut"],
)
def test_damaged_files_are_refused_with_a_sentence(tmp_path, content, sentence):
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(ValueError, match=f"Expected .*x.mat to have {sentence}"):
        read_mat(tmp_path / "x.mat")


def test_another_checksum_and_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="hold train_32x32.mat, .* get it from http://ufldl.stanford.edu"):
        load_images("svhn", data_dir=tmp_path)
    (tmp_path / "train_32x32.mat").write_bytes(mat_file(X=np.zeros((32, 32, 3, 1), np.uint8), y=np.ones((1, 1))))
    with pytest.raises(ValueError, match="train_32x32.mat to have the sha256 checksum 435e94d6"):
        load_images("svhn", data_dir=tmp_path)
