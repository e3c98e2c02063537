"""Load a data set by its name, or a table by its path, and return what to cite for a data set."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from mgce._messages import check_choice, expected, nearest
from mgce.desk.files.table_files import SUFFIXES, is_table
from mgce.desk.files.tables import Table, read_table
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.tables.known_table import bundled_table
from mgce_lab.data import cifar, cifar_n, idx, image_folders, openml, svhn, uci, uci_copies
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.data.sources import DataSource

N_TRAIN_DIGITS = 1437  # four fifths of the 1,797 images
FOLDERS = ("MNIST", "FashionMNIST", "openml", "uci", "uci-copies")  # of the local copies of published tables
DatasetT = TypeVar("DatasetT", Table, ImageDataset)


@dataclass(frozen=True)
class Entry(Generic[DatasetT]):
    """An entry of the registry: the function that reads a data set, and the data set's citation with its licence."""

    read: Callable[[DataSource], DatasetT]
    citation: str


def load(
    dataset: str,
    target: str | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = False,
    drop: Collection[str] = (),
    form: TextFormat | None = None,
) -> Table:
    """Load a table by name, or from a CSV or Parquet file by path.

    ============================================  =======  =======  ==================================
    name                                          rows     classes  published training part
    ============================================  =======  =======  ==================================
    digits, iris, wine, breast_cancer             various  various  none; they come with scikit-learn
    letter                                        20,000   26       the first 16,000, by custom
    adult                                         48,842   2        the first 32,561
    covertype (OpenML 180)                        110,393  7        none
    covertype_full (UCI)                          581,012  7        none
    covertype_sample (random rows of the former)  176,997  7        none
    spambase                                      4,601    2        none
    magic                                         19,020   2        none
    pendigits                                     10,992   10       the first 7,494, by custom
    segment                                       2,310    7        the first 210, by custom
    nursery                                       12,958   4        none
    mnist, fashion_mnist (784 pixels)             70,000   10       the first 60,000
    ============================================  =======  =======  ==================================

    A local copy in `data_dir` is read if it exists, and its checksum is verified. The folders are MNIST/raw/ and
    FashionMNIST/raw/ as torchvision writes them, uci/ with UCI's own files, uci-copies/ with copies of
    such files on GitHub, and openml/, the cache of scikit-learn.

    Args:
        dataset: one of `NAMES`, or a path that ends in .csv or another of :data:`mgce.desk.files.table_files.SUFFIXES`.
        target: the column that contains the classes; required for a file, not allowed for a name.
        data_dir: the directory of the local copies; None for $MGCE_DATA_DIR, or ./data if that is not set.
        download: whether to download missing files into `data_dir`.
        drop: columns of a file that are not features; not allowed for a name.
        form: format of a text file, not allowed for a name; None to detect the separator and use the other defaults.

    Raises:
        ValueError: if the name is unknown, `target` is missing, an argument that is only for files is given with a
            name, a file is damaged, or the table is not fit for classification.
        FileNotFoundError: if a file is missing; the message names the file and where to get it.
        OSError: if the download fails.

    Example:
        >>> table = load("iris")
        >>> len(table.features), table.classes
        (150, ('setosa', 'versicolor', 'virginica'))
    """
    if dataset in TABLES:
        usual = {**asdict(TextFormat()), "target": None, "drop": ()}
        given = {**asdict(form or TextFormat()), "target": target, "drop": tuple(drop)}
        for name in given:
            if given[name] != usual[name]:
                raise ValueError(expected(name, f"left out, since {dataset!r} is not a file", given[name]))
        return TABLES[dataset].read(DataSource(data_dir, download))
    if is_table(Path(dataset)):
        return read_table(Path(dataset), target, drop=drop, form=form)
    what = "one of " + ", ".join(map(repr, NAMES)) + f", or the path of a file that ends in {' or '.join(SUFFIXES)}"
    raise ValueError(expected("dataset", what, dataset) + nearest(dataset, NAMES))


def load_images(
    dataset: str, *, data_dir: str | os.PathLike[str] | None = None, download: bool = False
) -> ImageDataset:
    """Load a data set of images by name, with its published parts.

    ===================  ============  =========  =======  ======================================
    name                 images        train      classes  test
    ===================  ============  =========  =======  ======================================
    mnist                (1, 28, 28)   60,000     10       10,000
    fashion_mnist        (1, 28, 28)   60,000     10       10,000
    cifar10, cifar10n    (3, 32, 32)   50,000     10       10,000
    cifar100, cifar100n  (3, 32, 32)   50,000     100      10,000
    svhn                 (3, 32, 32)   73,257     10       26,032
    digits               (1, 8, 8)     1,437      10       360: no parts are published
    tiny_imagenet        64 x 64       100,000    200      10,000, published for validation
    webvision            of all sizes  65,944     50       2,500, published for validation
    clothing1m           of all sizes  1,000,000  14       10,526; and 14,313 for validation
    ===================  ============  =========  =======  ======================================

    ===================  ========================================================================
    name                 local copy in `data_dir`
    ===================  ========================================================================
    mnist                four .gz files in MNIST/raw/, as torchvision has them
    fashion_mnist        four .gz files in FashionMNIST/raw/, as torchvision has them
    cifar10              cifar-10-batches-bin/ (.bin or .bin.xz), or cifar-10-binary.tar.gz
    cifar100             cifar-100-binary/ (.bin or .bin.xz), or cifar-100-binary.tar.gz
    cifar10n, cifar100n  besides: cifarn/CIFAR-10_human.pt, cifarn/CIFAR-100_human.pt
    svhn                 train_32x32.mat, test_32x32.mat
    digits               none; it comes with scikit-learn
    tiny_imagenet        tiny-imagenet-200/, or tiny-imagenet-200.zip
    webvision            webvision/: info/, google/, val_images_256/
    clothing1m           clothing1m/: images/ and the authors' lists beside it
    ===================  ========================================================================

    The images of tiny_imagenet, webvision and clothing1m stay in files, which are read on access. All other images are
    in memory, as uint8 arrays of shape (n, channels, height, width). For cifar10n and cifar100n, `train.noisy` holds
    labels by human annotators. A published checksum is verified; without one, the images of each class or list are
    counted.

    Args:
        dataset: one of `IMAGE_NAMES`.
        data_dir: the directory of the local copies; None for $MGCE_DATA_DIR, or ./data if that is not set.
        download: whether to download missing files into `data_dir`; you must download webvision and
            clothing1m yourself.

    Raises:
        ValueError: if the name is unknown, or a file is damaged.
        FileNotFoundError: if a file is missing; the message names the file and where to get it.
        OSError: if the download fails.

    Example:
        >>> load_images("mnist", data_dir="nowhere")
        Traceback (most recent call last):
        FileNotFoundError: Expected `data_dir` to hold MNIST/raw/train-images-idx3-ubyte.gz, but there is no ...
    """
    check_choice("dataset", dataset, IMAGE_NAMES)
    return IMAGES[dataset].read(DataSource(data_dir, download))


def citation(dataset: str) -> str:
    """Return the reference to cite for a data set, with the licence that its authors state.

    Args:
        dataset: one of `NAMES` or `IMAGE_NAMES`.

    Raises:
        ValueError: if the name is unknown.

    Example:
        >>> citation("adult")
        'Becker and Kohavi, "Adult", UCI Machine Learning Repository, 1996. CC BY 4.0.'
    """
    citations = {name: entry.citation for entries in (TABLES, IMAGES) for name, entry in entries.items()}
    check_choice("dataset", dataset, tuple(citations))
    return citations[dataset]


def _bundled(name: str, data: DataSource) -> Table:
    return bundled_table(name)


def _digit_images(data: DataSource) -> ImageDataset:
    import sklearn.datasets

    bunch = sklearn.datasets.load_digits()
    images = (bunch.images[:, None] * 255 / 16).round().astype(np.uint8)  # scikit-learn has 0..16, images 0..255
    target = bunch.target.astype(np.int64)
    parts = (Images(images[rows], target[rows]) for rows in (slice(None, N_TRAIN_DIGITS), slice(N_TRAIN_DIGITS, None)))
    return ImageDataset("digits", tuple(map(str, bunch.target_names)), *parts)


def _pixels(read: Callable[[DataSource], ImageDataset], data: DataSource) -> Table:
    import pandas as pd

    dataset = read(data)
    train, test = dataset.train, dataset.test
    assert isinstance(train, Images)
    assert isinstance(test, Images)
    pixels = np.concatenate([part.images.reshape(len(part), -1) for part in (train, test)])
    frame = pd.DataFrame(pixels).add_prefix("pixel")
    return Table(dataset.name, frame, np.concatenate([train.target, test.target]), dataset.classes, len(train))


_SCIKIT_LEARN = "Comes with scikit-learn: UCI Machine Learning Repository. CC BY 4.0."
_COVERTYPE = 'Blackard, "Covertype", UCI Machine Learning Repository, 1998. CC BY 4.0.'
_MNIST = 'LeCun, Cortes and Burges, "The MNIST database of handwritten digits", 1998. No licence stated.'
_FASHION = 'Xiao, Rasul and Vollgraf, "Fashion-MNIST", arXiv:1708.07747, 2017. MIT.'
_CIFAR = 'Krizhevsky, "Learning multiple layers of features from tiny images", 2009. No licence stated.'
_CIFAR_N = 'Wei et al., "Learning with noisy labels revisited", ICLR 2022. CC BY-NC 4.0 (labels).'

TABLES: Mapping[str, Entry[Table]] = {
    **{name: Entry(partial(_bundled, name), _SCIKIT_LEARN) for name in ("digits", "iris", "wine", "breast_cancer")},
    "letter": Entry(uci.load_letter, 'Slate, "Letter recognition", UCI Machine Learning Repository, 1991. CC BY 4.0.'),
    "adult": Entry(uci.load_adult, 'Becker and Kohavi, "Adult", UCI Machine Learning Repository, 1996. CC BY 4.0.'),
    "covertype": Entry(openml.load_covertype, f"{_COVERTYPE} As OpenML's data set 180."),
    "covertype_full": Entry(uci.load_covertype_full, _COVERTYPE),
    "covertype_sample": Entry(uci.load_covertype_sample, f"{_COVERTYPE} A random sample of its rows."),
    "spambase": Entry(
        uci.load_spambase, 'Hopkins et al., "Spambase", UCI Machine Learning Repository, 1999. CC BY 4.0.'
    ),
    "magic": Entry(uci.load_magic, 'Bock, "MAGIC gamma telescope", UCI Machine Learning Repository, 2007. CC BY 4.0.'),
    "pendigits": Entry(
        uci_copies.load_pendigits,
        'Alpaydin and Alimoglu, "Pen-based recognition of handwritten digits", UCI Machine Learning Repository, 1998. '
        "CC BY 4.0.",
    ),
    "segment": Entry(
        uci_copies.load_segment, 'Brodley, "Image segmentation", UCI Machine Learning Repository, 1990. CC BY 4.0.'
    ),
    "nursery": Entry(uci_copies.load_nursery, 'Rajkovic, "Nursery", UCI Machine Learning Repository, 1997. CC BY 4.0.'),
    "mnist": Entry(partial(_pixels, idx.load_mnist), _MNIST),
    "fashion_mnist": Entry(partial(_pixels, idx.load_fashion_mnist), _FASHION),
}
IMAGES: Mapping[str, Entry[ImageDataset]] = {
    "mnist": Entry(idx.load_mnist, _MNIST),
    "fashion_mnist": Entry(idx.load_fashion_mnist, _FASHION),
    "cifar10": Entry(cifar.load_cifar10, _CIFAR),
    "cifar100": Entry(cifar.load_cifar100, _CIFAR),
    "cifar10n": Entry(cifar_n.load_cifar10n, f"{_CIFAR} {_CIFAR_N}"),
    "cifar100n": Entry(cifar_n.load_cifar100n, f"{_CIFAR} {_CIFAR_N}"),
    "svhn": Entry(
        svhn.load_svhn,
        'Netzer et al., "Reading digits in natural images with unsupervised feature learning", 2011. '
        "For non-commercial use.",
    ),
    "digits": Entry(_digit_images, _SCIKIT_LEARN),
    "tiny_imagenet": Entry(
        image_folders.load_tiny_imagenet,
        'Le and Yang, "Tiny ImageNet visual recognition challenge", 2015. Terms of ImageNet.',
    ),
    "webvision": Entry(
        image_folders.load_webvision,
        'Li et al., "WebVision database", arXiv:1708.02862, 2017. For non-commercial research.',
    ),
    "clothing1m": Entry(
        image_folders.load_clothing1m,
        'Xiao et al., "Learning from massive noisy labeled data for image classification", CVPR 2015. '
        "For non-commercial research; ask the authors.",
    ),
}
NAMES = tuple(TABLES)
IMAGE_NAMES = tuple(IMAGES)
