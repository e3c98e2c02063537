"""How many labels to look up until few are wrong, on CIFAR-10N with the worst labels: `mgce_lab.studies.cleaning`.

`python -m mgce_lab.studies.cleaning EMBEDDINGS CIFARN` fits :class:`mgce.MGCEEmbeddingClassifier`, as `mgce fit` does,
to the frozen features at hand, in files `train-FROM-TO-128.npz`. Each row is judged by heads that were fitted
without it. Tables of 3,000 rows are drawn from these with replacement. The reader keeps each label that nobody looks
up, and reads in the order in which the package suspects labels. Three ways to certify what is left are measured: the
bound of `mgce clean`; Clopper and Pearson's of random rows of the rest, where an oracle says when to stop and how many
rows suffice on average; and the bound of `mgce review`, with a random row to each suspect.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mgce import MGCEEmbeddingClassifier
from mgce.desk.review.bounds import share_left_sequence
from mgce.desk.review.cleaning import Cleaning, clean_labels
from mgce.labels.correction import correct
from mgce.risk import clopper_pearson_upper
from mgce_lab.studies.cifar10n import features

OUT = Path(__file__).parents[4] / "results" / "certificates" / "cleaning.json"
N, AT_MOST, STEP, DELTA = 3000, 0.05, 50, 0.05
SHARES = np.linspace(0.005, 0.3, 60)  # of the kept rows to look up, of which the best is taken


def main() -> None:
    """Fit, draw tables, and write the means."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.cleaning", description=__doc__)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("cifarn", type=Path)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--probs", type=Path, help="File in which to keep the probabilities, .npy.")
    options = parser.parse_args()
    human = torch.load(options.cifarn / "CIFAR-10_human.pt", weights_only=False)
    given = np.asarray(human["worse_label"]).astype(np.int64)
    right = np.asarray(human["clean_label"]).astype(np.int64)
    x, _ = features(options.embeddings)
    given, right = given[: len(x)], right[: len(x)]
    if options.probs is not None and options.probs.is_file():
        probs = np.load(options.probs)
    else:
        probs = MGCEEmbeddingClassifier(random_state=0).fit(x, given).oof_proba_
        if options.probs is not None:
            np.save(options.probs, probs)
    found = measure(probs.astype(np.float64), given, right, options.draws)
    record = {"rows": len(x), "n": N, "at_most": AT_MOST, "draws": options.draws, **found}
    OUT.write_text(json.dumps(record, indent=1) + "\n")
    print(OUT.read_text())


def measure(probs: Any, given: Any, right: Any, draws: int) -> dict[str, Any]:
    """Return mean numbers of looks, and how often more wrong labels than promised were left."""
    by_class = correct(probs, given).probs
    rows, proposed = np.arange(given.size), by_class.argmax(1)
    cases = {
        "mgce clean": (1 - by_class.max(1), proposed != right, 0.0),
        "mgce clean, a tenth dropped": (1 - by_class.max(1), proposed != right, 0.1),
        "reader, bound of mgce clean": (1 - by_class[rows, given], given != right, 0.0),
    }
    rng = np.random.default_rng(0)
    looks: dict[str, list[float]] = {name: [] for name in cases}
    false = dict.fromkeys(cases, 0)
    oracle, review, least = [], [], []
    for draw in range(draws):
        table = rng.integers(0, given.size, N)
        for name, (doubt, wrong, drop) in cases.items():
            n, left, most = cleaned(doubt[table], wrong[table], drop, draw)
            looks[name].append(n)
            false[name] += left > most
        least.append(fewest(*(of[table] for of in cases["mgce clean"][:2])))
        doubt, wrong, _ = cases["reader, bound of mgce clean"]
        oracle.append(reader(doubt[table], wrong[table]))
        if draw < draws // 50:  # each takes longer than all else
            review.append(paired(doubt[table], wrong[table], rng))
    means = {name: float(np.mean(values)) for name, values in looks.items()}
    means |= {"reader, oracle and Clopper-Pearson": float(np.mean(oracle)), "mgce review": float(np.mean(review))}
    means["fewest"] = float(np.mean(least))
    return {"looks": means, "false": {name: count / draws for name, count in false.items()}}


def fewest(doubt: Any, wrong: Any) -> float:
    """Return how many looks an exact bound needs at least, where rows are kept in the order of doubt.

    Who knows how many of the kept rows are wrong looks up a share p of them. Of A + 1 - U further wrong rows, where U
    are left, at least one has to be seen with probability 1 - delta: otherwise more than A are left unnoticed.
    """
    allowed, kept = int(AT_MOST * N), np.arange(1, N + 1)[:, None]
    left = (1 - SHARES) * wrong[np.argsort(doubt, kind="stable")].cumsum()[:, None]
    noticed = (1 - SHARES) ** np.maximum(0, np.floor(allowed - left) + 1) <= DELTA
    return float(np.where(noticed, N - kept + SHARES * kept, N).min())


def cleaned(doubt: Any, wrong: Any, drop: float, seed: int, sampled: float | None = None) -> tuple[int, int, int]:
    """Return the looks of `mgce clean` on one table, the wrong labels left, and the number promised."""

    def clean(found: dict[int, bool]) -> Cleaning:
        draws = np.random.default_rng((1, seed))
        return clean_labels(doubt, found, AT_MOST, drop=drop, sampled=sampled, generator=draws)

    found = {int(row): bool(wrong[row]) for row in np.flatnonzero(clean({}).sample)}
    then = clean(found)
    assert then.kept is not None
    return len(found) + int(then.to_check.sum()), int(wrong[then.kept].sum()), then.wrong_left


def reader(doubt: Any, wrong: Any) -> int:
    """Return the fewest rows read: suspects first, then a sample of the rest just large enough for the bound."""
    ordered, best = wrong[np.argsort(-doubt)], N
    for read in range(0, N, STEP):
        left = int(ordered[read:].sum())
        share, allowed = left / (N - read), AT_MOST * N / (N - read)
        if share >= allowed:
            continue
        low, high = 1, N - read
        while low < high:
            m = (low + high) // 2
            enough = clopper_pearson_upper(round(m * share), m) <= allowed
            low, high = (low, m) if enough else (m + 1, high)
        best = min(best, read + low)
    return best


def paired(doubt: Any, wrong: Any, rng: np.random.Generator) -> int:
    """Return the looks with a random row to each suspect, until the bound of `mgce review` suffices."""
    suspects, draws = np.argsort(-doubt), rng.permutation(N)
    for pairs in range(STEP, N, STEP):
        mended = np.zeros(N, dtype=np.int64) + N
        mended[suspects[:pairs]] = np.arange(pairs)
        found = wrong[draws[:pairs]] & (mended[draws[:pairs]] > np.arange(pairs))
        if share_left_sequence(found.tolist(), [1 / N] * pairs, N, least=1 / N)[-1] <= AT_MOST:
            return np.union1d(suspects[:pairs], draws[:pairs]).size
    return N


if __name__ == "__main__":
    main()
