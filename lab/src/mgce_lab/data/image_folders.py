"""Read Tiny ImageNet, WebVision and Clothing-1M: folders of image files, with lists of labels in text files."""

from __future__ import annotations

import zipfile
from collections.abc import Sized
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mgce._files import replacing
from mgce._limits import check_zip, read_at_most
from mgce.desk.files.images import ImageFiles
from mgce_lab.data.image_sets import ImageDataset
from mgce_lab.data.sources import DataSource, Source, damaged

# The authors publish no checksum; this is the one that many programs verify.
# Members of a data set in a zip file: Tiny ImageNet, the only one, has 120,206 of 250 MB.
DATASET_MEMBERS = 200_000
TINY_IMAGENET = Source.named("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de")
WEBVISION = "https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html"
CLOTHING1M = "https://github.com/Cysu/noisy_label"
WEBVISION_CLASSES = 50
DIGITS = 9  # of a class: enough for any, and few enough for an integer of 32 bits
# Rows of each part, as published; for these sets no checksum is.
TINY_IMAGENET_ROWS = {"train": 100_000, "val": 10_000}
WEBVISION_ROWS = {"train_filelist_google.txt": 65_944, "val_filelist.txt": 2_500}
CLOTHING1M_ROWS = {
    "noisy_train_key_list.txt": 1_000_000,
    "clean_val_key_list.txt": 14_313,
    "clean_test_key_list.txt": 10_526,
}


def load_tiny_imagenet(data: DataSource) -> ImageDataset:
    """Read Tiny ImageNet: 100,000 training images 64 x 64 of 200 classes, and 10,000 validation images as test part.

    The images are read from the unpacked folder `tiny-imagenet-200/`: wnids.txt, train/<wnid>/images/*.JPEG,
    val/images/*.JPEG, val/val_annotations.txt. The labels of the original test images are not published.
    """
    root = data.folder / "tiny-imagenet-200"
    if not root.is_dir():
        _unpack(data.locate(TINY_IMAGENET), root)
    classes = tuple(sorted(_lines(root, "wnids.txt", TINY_IMAGENET.url)))
    train = [(path, name) for name in classes for path in sorted((root / "train" / name / "images").glob("*.JPEG"))]
    test = [(root / "val" / "images" / file, name) for file, name in _annotations(root, classes)]
    label = {name: number for number, name in enumerate(classes)}
    parts = []
    for part, rows in (("train", train), ("val", test)):
        _check_rows(root / part, rows, TINY_IMAGENET_ROWS[part])
        parts.append(_image_files([(path, label[name]) for path, name in rows]))
    return ImageDataset("tiny_imagenet", classes, *parts)


def load_webvision(data: DataSource) -> ImageDataset:
    """Read mini WebVision 1.0: the Google images of the first 50 classes, with the validation images as the test part.

    The images are read from the folder `webvision/`: info/train_filelist_google.txt, info/val_filelist.txt,
    info/synsets.txt, and the resized images google/ and val_images_256/. There are 65,944 training and 2,500 test
    images. You must download the data set yourself.
    """
    root = data.folder / "webvision"
    classes = tuple(_lines(root, "info/synsets.txt", WEBVISION)[:WEBVISION_CLASSES])
    parts = []
    for listing, folder in (("train_filelist_google.txt", root), ("val_filelist.txt", root / "val_images_256")):
        labels = _labels(root, f"info/{listing}", WEBVISION)
        rows = [(folder / file, label) for file, label in labels.items() if label < WEBVISION_CLASSES]
        _check_rows(root / "info" / listing, rows, WEBVISION_ROWS[listing])
        parts.append(_image_files(rows))
    return ImageDataset("webvision", classes, *parts)


def load_clothing1m(data: DataSource) -> ImageDataset:
    """Read Clothing-1M: 1,000,000 training images with noisy labels, 14,313 validation and 10,526 test images.

    There are 14 classes; validation and test labels are clean. The images are read from the folder `clothing1m/`:
    noisy_train_key_list.txt, clean_val_key_list.txt, clean_test_key_list.txt, noisy_label_kv.txt, clean_label_kv.txt,
    category_names_eng.txt, images/. The data set is not downloaded: request it from the authors.
    """
    root = data.folder / "clothing1m"
    classes = tuple(_lines(root, "category_names_eng.txt", CLOTHING1M))
    labels = {kind: _labels(root, f"{kind}_label_kv.txt", CLOTHING1M) for kind in ("noisy", "clean")}
    for kind, label in labels.items():
        if (largest := max(label.values(), default=0)) >= len(classes):
            raise damaged(root / f"{kind}_label_kv.txt", f"classes below {len(classes)}", largest)
    parts = []
    for listing, n_rows in CLOTHING1M_ROWS.items():
        label, keys = labels[listing.partition("_")[0]], _lines(root, listing, CLOTHING1M)
        _check_rows(root / listing, keys, n_rows)
        if unknown := [key for key in keys if key not in label]:
            raise damaged(root / listing, "images with a label each", f"{unknown[0]} without one")
        parts.append(_image_files([(root / key, label[key]) for key in keys]))
    train, validation, test = parts
    return ImageDataset("clothing1m", classes, train, test, validation)


def _lines(root: Path, name: str, url: str) -> list[str]:
    path = root / name
    if not path.is_file():
        raise DataSource(root.parent).missing(f"{root.name}/{name}", f"get the data set from {url}")
    try:
        with path.open("rb") as file:
            text = read_at_most(file).decode()
    except ValueError as error:  # too long, or not UTF-8
        raise damaged(path, "lines of text", error) from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _annotations(root: Path, classes: tuple[str, ...]) -> list[tuple[str, str]]:
    name = "val/val_annotations.txt"
    pairs = []
    for line in _lines(root, name, TINY_IMAGENET.url):
        file, _, rest = line.partition("\t")
        label = rest.partition("\t")[0]
        if label not in classes:
            raise damaged(root / name, "a file and a class of wnids.txt in every line", repr(line))
        pairs.append((file, label))
    return pairs


def _labels(root: Path, name: str, url: str) -> dict[str, int]:
    pairs = [line.split() for line in _lines(root, name, url)]
    for pair in pairs:
        if len(pair) != 2 or not pair[1].isdecimal() or len(pair[1]) > DIGITS:
            raise damaged(root / name, "a file and the number of its class in every line", " ".join(pair))
    return {file: int(label) for file, label in pairs}


def _check_rows(path: Path, rows: Sized, published: int) -> None:
    if len(rows) != published:
        raise damaged(path, f"{published} images", len(rows))


def _image_files(rows: list[tuple[Path, int]]) -> ImageFiles:
    return ImageFiles(tuple(path for path, _ in rows), np.array([label for _, label in rows], dtype=np.int64))


def _unpack(archive: Path, root: Path) -> None:
    with replacing(root) as temporary, TemporaryDirectory(dir=root.parent, prefix=".") as unpacked:
        with zipfile.ZipFile(archive) as content:
            check_zip(content, members=DATASET_MEMBERS)
            content.extractall(unpacked)
        Path(unpacked, root.name).replace(temporary)
