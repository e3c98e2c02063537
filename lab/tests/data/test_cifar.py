import io
import lzma
import re
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from mgce_lab.data import cifar, load_images
from mgce_lab.data.cifar import read_records


def rows(n, n_classes, label_bytes, seed):
    """Make n rows of zeros, equally many of each class in a random order, with their number in the last bytes."""
    content = np.zeros((n, label_bytes + 3072), np.uint8)
    content[:, label_bytes - 1] = np.random.default_rng(seed).permutation(np.arange(n) % n_classes)
    content[:, -4:] = np.arange(n, dtype="<u4").view(np.uint8).reshape(n, 4)
    return content


@pytest.fixture
def folder(tmp_path):
    """Write a whole folder of CIFAR-10, one file of it compressed."""
    path = tmp_path / "cifar-10-batches-bin"
    path.mkdir()
    parts = [rows(10_000, 10, 1, seed) for seed in range(6)]
    for number, part in enumerate(parts[:5], start=1):
        (path / f"data_batch_{number}.bin").write_bytes(part.tobytes())
    (path / "test_batch.bin.xz").write_bytes(lzma.compress(parts[5].tobytes(), preset=0))
    return path, parts


def test_records_are_a_label_and_red_green_blue(tmp_path):
    red_in_the_first_row = bytes([7]) + bytes([250] * 32 + [0] * 992) + bytes(1024) + bytes(1024)
    blue_in_the_last_column = bytes([2]) + bytes(2048) + bytes(([0] * 31 + [9]) * 32)
    images, labels = read_records(red_in_the_first_row + blue_in_the_last_column, tmp_path)
    assert labels.tolist() == [7, 2]
    assert (images[0, 0, 0] == 250).all() and images[0].sum() == 250 * 32
    assert (images[1, 2, :, 31] == 9).all() and images[1].sum() == 9 * 32


def test_of_two_label_bytes_the_fine_label_counts(tmp_path):
    images, labels = read_records(bytes([19, 99]) + bytes([1]) * 3072, tmp_path, label_bytes=2)
    assert labels.tolist() == [99] and images.shape == (1, 3, 32, 32) and (images == 1).all()


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_parts_of_rows_are_refused(tmp_path, size):
    with pytest.raises(ValueError, match=f"Expected .*x.bin to have rows of 3073 bytes, but got {size} bytes"):
        read_records(bytes(size), tmp_path / "x.bin")


def test_cifar10_is_read_from_the_folder_in_order(tmp_path, folder):
    dataset = load_images("cifar10", data_dir=tmp_path)
    train = np.concatenate(folder[1][:5])
    assert dataset.train.target.tolist() == train[:, 0].tolist()
    np.testing.assert_array_equal(dataset.train.images.reshape(50_000, -1)[:, -4:], train[:, -4:])
    assert dataset.test.images[7_777].tobytes() == folder[1][5][7_777, 1:].tobytes()
    assert dataset.train.images.flags.c_contiguous and dataset.train.images.shape == (50_000, 3, 32, 32)
    assert dataset.classes[9] == "truck"


def test_a_damaged_folder_is_refused_with_a_sentence(tmp_path, folder):
    path, parts = folder
    batch, packed = path / "data_batch_3.bin", path / "test_batch.bin.xz"
    changed = parts[2].copy()
    changed[0, 0] = 1 if changed[0, 0] != 1 else 0
    batch.write_bytes(changed.tobytes())
    with pytest.raises(ValueError, match="cifar-10-batches-bin to have 5000 training images of each of 10 classes"):
        load_images("cifar10", data_dir=tmp_path)
    batch.write_bytes(parts[2].tobytes()[:-1])
    with pytest.raises(ValueError, match="data_batch_3.bin to have rows of 3073 bytes"):
        load_images("cifar10", data_dir=tmp_path)
    batch.unlink()
    with pytest.raises(
        FileNotFoundError, match="hold cifar-10-batches-bin/data_batch_3.bin, .* get the binary version"
    ):
        load_images("cifar10", data_dir=tmp_path)
    batch.write_bytes(parts[2].tobytes())
    packed.write_bytes(packed.read_bytes()[:-1])
    with pytest.raises(ValueError, match="test_batch.bin.xz to have xz-compressed content"):
        load_images("cifar10", data_dir=tmp_path)


def archive(name, members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for member, content in members.items():
            info = tarfile.TarInfo(f"{name}/{member}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_cifar100_is_read_from_the_verified_archive(tmp_path, publish, monkeypatch):
    train, test = rows(50_000, 100, 2, 0), rows(10_000, 100, 2, 1)
    names = [f"class{i}" for i in range(100)]
    members = {
        "train.bin": train.tobytes(),
        "test.bin": test.tobytes(),
        "fine_label_names.txt": "\n".join(names).encode(),
    }
    publish(cifar, "CIFAR100", archive("cifar-100-binary", members))
    dataset = load_images("cifar100", data_dir=tmp_path)
    assert dataset.train.target.tolist() == train[:, 1].tolist() and dataset.classes == tuple(names)
    assert dataset.test.images[4_321].tobytes() == test[4_321, 2:].tobytes()
    monkeypatch.setattr(cifar, "CIFAR100", replace(cifar.CIFAR100, checksum="sha256:" + "0" * 64))
    with pytest.raises(ValueError, match=f"cifar-100-binary.tar.gz to have the sha256 checksum {'0' * 64}"):
        load_images("cifar100", data_dir=tmp_path)


def test_a_missing_data_set_says_where_to_get_it(tmp_path):
    sentence = "hold cifar-10-binary.tar.gz, .* get it from " + re.escape(cifar.CIFAR10.url)
    with pytest.raises(FileNotFoundError, match=sentence):
        load_images("cifar10", data_dir=tmp_path)


@pytest.mark.nightly
def test_cifar10_has_its_published_facts(real_data):
    dataset = load_images("cifar10", data_dir=real_data("cifar-10-batches-bin"))
    assert dataset.train.target[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert dataset.test.target[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    mean = [dataset.train.images[:, channel].mean() / 255 for channel in range(3)]
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=5e-5)
