"""Read CIFAR-10N and CIFAR-100N: CIFAR, with further noisy labels of the training images by human annotators."""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mgce._limits import check_zip
from mgce_lab.data.cifar import load_cifar10, load_cifar100
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.data.sources import DataSource, Source, damaged

# The checksums are our own, of the files in the authors' repository at this commit.
REPOSITORY = "https://raw.githubusercontent.com/UCSC-REAL/cifar-10-100n/49df7d8a69e355470c77c1c2f2424916325a394b/data"
CIFAR10N = Source.named(
    f"{REPOSITORY}/CIFAR-10_human.pt",
    "sha256:873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",
    "cifarn",
)
CIFAR100N = Source.named(
    f"{REPOSITORY}/CIFAR-100_human.pt",
    "sha256:bd2d80409754d420292d622e15e25248ba21e37d27429efac49c8da723f44394",
    "cifarn",
)
NAMES10 = {
    "aggregate": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "worst": "worse_label",
}
NAMES100 = {"noisy": "noisy_label"}


def load_cifar10n(data: DataSource) -> ImageDataset:
    """Read CIFAR-10 with human labels in `train.noisy`.

    `train.noisy` maps names to labels. "random1" to "random3" are three labels of each image, "aggregate" is the
    majority of the three, and "worst" is a wrong label if one of the three is wrong.
    """
    path = data.locate(CIFAR10N)
    return _add_labels(load_cifar10(data), path, NAMES10)


def load_cifar100n(data: DataSource) -> ImageDataset:
    """Read CIFAR-100 with human labels: `train.noisy["noisy"]` contains fine labels, each by one annotator."""
    path = data.locate(CIFAR100N)
    return _add_labels(load_cifar100(data), path, NAMES100)


def read_labels(path: Path) -> dict[str, NDArray[np.int64]]:
    """Return the label arrays by name from a file that `torch.save` has written, without unpickling it.

    The file contains a pickled mapping of names to arrays. This function lists the opcodes of the pickle and never runs
    them. A name is a string that contains "label". Its array is the next string of eight or more characters: each
    character stands for a byte (latin-1), and eight bytes are one label, a little-endian int64.

    Raises:
        ValueError: if the file contains no such mapping.
    """
    labels: dict[str, NDArray[np.int64]] = {}
    name = None
    try:
        with zipfile.ZipFile(path) as archive:
            check_zip(archive)
            (member,) = (member for member in archive.namelist() if member.endswith("/data.pkl"))
            content = archive.read(member)
        for opcode, value, _ in pickletools.genops(content):
            if opcode.name != "BINUNICODE" or not isinstance(value, str):
                continue
            if "label" in value:
                name = value
            elif name is not None and len(value) >= 8:
                labels[name] = np.frombuffer(value.encode("latin-1"), "<i8").astype(np.int64)
                name = None
    except Exception as error:  # zipfile and pickletools raise whatever they meet in a damaged file
        raise damaged(path, "label arrays that torch.save wrote", error) from error
    return labels


def _add_labels(dataset: ImageDataset, path: Path, names: Mapping[str, str]) -> ImageDataset:
    labels = read_labels(path)
    train = dataset.train
    assert isinstance(train, Images)
    absent = {"clean_label", *names.values()} - labels.keys()
    if absent or any(len(values) != len(train) for values in labels.values()):
        got = {name: len(values) for name, values in labels.items()}
        raise damaged(path, f"clean_label, {', '.join(names.values())}, each for {len(train)} images", got)
    if not np.array_equal(labels["clean_label"], train.target):
        differing = int((labels["clean_label"] != train.target).sum())
        raise damaged(path, "CIFAR's own labels in CIFAR's order as clean_label", f"{differing} other ones")
    noisy = {name: labels[key] for name, key in names.items()}
    return replace(dataset, name=f"{dataset.name}n", train=replace(train, noisy=noisy))
