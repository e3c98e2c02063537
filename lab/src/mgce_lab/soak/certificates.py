"""How often certificates and prediction sets miss: `mgce_lab.soak.certificates` draws, and writes a page of the lab.

Each cell is one kind of certificate at one k, n and delta. A draw makes a sample of a finite world whose truth is known
by enumeration, and asks the public function. Cells grow in blocks of draws, each with its own seed, and are stored in
`results/certificates/cells.json` after every block: the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mgce.noise import pair_flip
from mgce.risk import (
    betting_upper_sequence,
    certify,
    certify_each,
    clopper_pearson_upper,
    drift_upper_sequence,
    hoeffding_bentkus_upper,
    hoeffding_upper,
    maurer_pontil_upper,
    share_looks,
)
from mgce.sets import calibrate
from mgce_lab.soak import certificates_page
from mgce_lab.soak.certificates_page import STRENGTHS, at
from mgce_lab.soak.worlds import ATOMS, InstanceNoise, World, flip

RECORD = Path(__file__).parents[4] / "results" / "certificates" / "cells.json"
CLASSES, SIZES, DELTAS = (2, 10, 100), (50, 200, 2000), (0.01, 0.05, 0.2)
BLOCK = 100  # draws between two looks at the disk
BETA = 1.4
ALPHA = 0.1  # of sets whose guarantee has a confidence of its own
CLUSTER = 10
INSTANCE_RATE = 0.15  # of noise that depends on the row
Draw = dict[str, float]


def _by_mean(z: Any, delta: float, ends: tuple[float, float] = (0.0, 1.0)) -> Draw:
    """Return the bounds of others on the mean of draws from a range."""
    return {
        "Hoeffding": hoeffding_upper(z, delta, limits=ends),
        "Hoeffding-Bentkus": hoeffding_bentkus_upper(z, delta, limits=ends),
        "Maurer-Pontil": maurer_pontil_upper(z, delta, limits=ends),
    }


def argmax(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """Clopper-Pearson on errors."""
    atoms, y = w.sample(rng, n)
    wrong = (w.probs[atoms].argmax(1) != y).astype(float)
    bound = certify(y, w.probs[atoms], delta=delta, bounds=["argmax"]).argmax_error or 0.0
    others = _by_mean(wrong, delta)
    return {"bound": bound, "truth": w.error, **others}


def randomized(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """Betting on 1 - h."""
    atoms, y = w.sample(rng, n)
    z = 1 - w.own[atoms]
    bound = certify(y, w.probs[atoms], delta=delta, bounds=["randomized"]).randomized_error or 0.0
    drawn = int((rng.random(n) < z).sum())
    others = {**_by_mean(z, delta), "Clopper-Pearson": clopper_pearson_upper(drawn, n, delta)}
    return {"bound": bound, "truth": float(1 - w.own.mean()), **others}


def alpha(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """Betting on the alpha-loss."""
    atoms, y = w.sample(rng, n)
    z = BETA * (1 - w.own ** (1 / BETA))
    bound = certify(y, w.probs[atoms], delta=delta, bounds=["alpha"], beta=BETA).alpha_risk or 0.0
    return {"bound": bound, "truth": float(z.mean()), **_by_mean(z[atoms], delta, (0.0, BETA))}


def all_three(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """A miss is one of any of the three."""
    atoms, y = w.sample(rng, n)
    c = certify(y, w.probs[atoms], delta=delta, beta=BETA)
    truths = w.error, 1 - w.own.mean(), (BETA * (1 - w.own ** (1 / BETA))).mean()
    bounds = c.assumed.argmax_error, c.assumed.randomized_error, c.assumed.alpha_risk
    miss = any(b is not None and b < t for b, t in zip(bounds, truths, strict=True))
    return {"bound": c.assumed.argmax_error or 0.0, "truth": w.error, "miss": miss}


def one_hot(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """The classifier gives its class the probability 1."""
    atoms, y = w.sample(rng, n)
    hard = np.eye(w.probs.shape[1])[w.probs.argmax(1)]
    return {"bound": certify(y, hard[atoms], delta=delta).randomized_error or 0.0, "truth": w.error}


def _noisy(stated: float) -> Callable[[np.random.Generator, World, int, float], Draw]:
    def draw(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
        atoms, y = w.sample(rng, n)
        noisy = flip(rng, y, w.probs.shape[1], 0.2)
        c = certify(noisy, w.probs[atoms], delta=delta, noise_rate=stated, beta=BETA)
        truths = w.error, 1 - w.own.mean(), (BETA * (1 - w.own ** (1 / BETA))).mean()
        bounds = c.assumed.argmax_error, c.assumed.randomized_error, c.assumed.alpha_risk
        # A refuted certificate speaks of the labels as given; it is wrong to refute what is true.
        miss = c.refuted is not None or any(b is not None and b < t for b, t in zip(bounds, truths, strict=True))
        return {"bound": c.assumed.argmax_error or 0.0, "truth": w.error, "miss": miss}

    return draw


def any_noise(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """A tenth of the labels is changed to what the classifier says, where it is wrong."""
    atoms, y = w.sample(rng, n)
    guess = w.probs[atoms].argmax(1)
    hidden = np.where((guess != y) & (rng.random(n) < 0.1 / w.error), guess, y)  # a tenth of the labels hides errors
    bound = certify(
        hidden, w.probs[atoms], delta=delta, noise_type="any", noise_rate=0.1, bounds=["argmax"]
    ).argmax_error
    return {"bound": bound or 0.0, "truth": w.error}


def _pair(rng: np.random.Generator, y: Any, k: int, rate: float = 0.3) -> Any:
    return np.where(rng.random(y.size) < rate, (y + 1) % k, y)


def transition(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """Pair noise, and its matrix."""
    atoms, y = w.sample(rng, n)
    k = w.probs.shape[1]
    c = certify(_pair(rng, y, k), w.probs[atoms], delta=delta, transition=pair_flip(k, 0.3), bounds=["argmax"])
    wrong_model = certify(_pair(rng, y, k), w.probs[atoms], delta=delta, noise_rate=0.3, bounds=["argmax"])
    others = {"symmetric, wrongly": wrong_model.assumed.argmax_error or 0.0}
    return {"bound": c.assumed.argmax_error or 0.0, "truth": w.error, "miss": _missed(c, w.error), **others}


def _missed(c: Any, truth: float) -> bool:
    return c.refuted is not None or c.assumed.argmax_error < truth


def clusters(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """The rows of a cluster are the same row."""
    size = n // CLUSTER
    atoms = rng.integers(0, ATOMS, size).repeat(CLUSTER)  # the rows of a cluster are one atom, as frames of a film
    y, names = w.label[atoms], np.arange(size).repeat(CLUSTER)
    c = certify(y, w.probs[atoms], delta=delta, groups=names, bounds=["argmax"])
    alone = certify(y, w.probs[atoms], delta=delta, bounds=["argmax"])
    return {
        "bound": c.assumed.argmax_error or 0.0,
        "truth": w.error,
        "rows as independent, wrongly": alone.assumed.argmax_error or 0.0,
    }


def parts(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """A miss is one in any of three parts."""
    atoms, y = w.sample(rng, n)
    column = np.arange(ATOMS) % 3
    found = certify_each(y, w.probs[atoms], column[atoms], delta=delta, bounds=["argmax"])
    wrong = w.probs.argmax(1) != w.label
    truths = {part: float(wrong[column == part].mean()) for part in found}
    miss = any((c.assumed.argmax_error or 0.0) < truths[part] for part, c in found.items())
    return {
        "bound": float(np.mean([c.assumed.argmax_error for c in found.values()])),
        "truth": w.error,
        "miss": miss,
    }


def anytime(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """A miss is one at any row."""
    atoms, y = w.sample(rng, n)
    wrong = (w.probs[atoms].argmax(1) != y).astype(float)
    bounds = betting_upper_sequence(wrong, delta)
    looks = range(9, n, max(1, n // 20))
    fixed = min(clopper_pearson_upper(int(wrong[: t + 1].sum()), t + 1, delta) for t in looks)
    others = {"Clopper-Pearson at the best look, wrongly": fixed}
    return {"bound": float(bounds[-1]), "truth": w.error, "miss": bool((bounds < w.error).any()), **others}


def drift(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """The error grows from none to twice that of the world."""
    means = np.linspace(0, 2 * w.error, n)
    wrong = (rng.random(n) < means).astype(float)
    running = means.cumsum() / np.arange(1, n + 1)
    bounds = drift_upper_sequence(wrong, delta)
    return {"bound": float(bounds[-1]), "truth": float(running[-1]), "miss": bool((bounds < running).any())}


def _sets(score: str, per_class: bool) -> Callable[[np.random.Generator, World, int, float], Draw]:
    def draw(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
        atoms, y = w.sample(rng, n)
        sets = calibrate(y, w.probs[atoms], alpha=delta, score=score, per_class=per_class).predict(w.probs)
        held = sets[np.arange(ATOMS), w.label]
        miss = 1 - (np.mean([held[w.label == j].mean() for j in np.unique(w.label)]) if per_class else held.mean())
        return {"bound": float(sets.sum(1).mean()), "truth": 0.0, "miss": float(miss)}

    return draw


def sets_transition(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """A miss is a coverage below 1 - alpha."""
    atoms, y = w.sample(rng, n)
    k = w.probs.shape[1]
    noisy = _pair(rng, y, k)
    sets = calibrate(noisy, w.probs[atoms], alpha=ALPHA, transition=pair_flip(k, 0.3), delta=delta).predict(w.probs)
    plain = calibrate(noisy, w.probs[atoms], alpha=ALPHA).predict(w.probs)
    clean = calibrate(y, w.probs[atoms], alpha=ALPHA).predict(w.probs)
    miss = sets[np.arange(ATOMS), w.label].mean() < 1 - ALPHA
    others = {
        "plain conformal, noisy labels": plain.sum(1).mean(),
        "plain conformal, right labels": clean.sum(1).mean(),
    }
    return {"bound": float(sets.sum(1).mean()), "truth": 0.0, "miss": bool(miss), **others}


def sets_any(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """Half of what may be missed is spent on labels that hide errors."""
    atoms, y = w.sample(rng, n)
    guess = w.probs[atoms].argmax(1)
    share = delta / 2
    hidden = np.where((guess != y) & (rng.random(n) < share / w.error), guess, y)
    sets = calibrate(hidden, w.probs[atoms], alpha=delta, noise_type="any", noise_rate=share).predict(w.probs)
    return {"bound": float(sets.sum(1).mean()), "truth": 0.0, "miss": float(1 - sets[np.arange(ATOMS), w.label].mean())}


def instance_checked(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """A fifth of the rows is looked up, 20 at least."""
    noise, m = InstanceNoise.of(w, INSTANCE_RATE), max(20, n // 5)
    atoms, y = w.sample(rng, n)
    given, looked_up = noise.labels(rng, atoms), (np.arange(m), y[:m])
    bound = certify(given, w.probs[atoms], delta=delta, checked=looked_up, bounds=["argmax"]).argmax_error or 0.0
    wrong = int((w.probs[atoms[:m]].argmax(1) != y[:m]).sum())
    return {"bound": bound, "truth": w.error, "Clopper-Pearson": clopper_pearson_upper(wrong, m, delta)}


# By number of classes, for looks that are shared out: the share of rows of which the model is not sure, and the error
# rates of sure and of other rows: all errors in the smaller cell; errors where the model is sure; one cell is empty.
CELLS = {2: (0.1, 0.0, 0.8), 10: (0.35, 0.3, 0.0), 100: (0.0, 0.15, 0.0)}


def shared(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """A fifth of the rows is looked up, 20 at least, as `share_looks` says; the given labels hide all errors."""
    unsure, *rates = CELLS[w.probs.shape[1]]
    doubtful, given, m = rng.random(n) < unsure, np.zeros(n, np.int64), max(20, n // 5)
    wrong, top = rng.random(n) < np.where(doubtful, rates[1], rates[0]), np.where(doubtful, 0.6, 0.95)
    probs = np.stack([top, 1 - top], axis=1)
    looks = share_looks(given, probs, generator=rng)
    rows = looks.rows[:m]
    found = rows, wrong[rows].astype(np.int64)
    c = certify(given, probs, delta=delta, checked=found, checked_with=looks.chance, bounds=["argmax"])
    truth = float(np.dot(rates, [1 - unsure, unsure]))
    alone = clopper_pearson_upper(int((rng.random(m) < truth).sum()), m, delta)
    return {"bound": c.argmax_error or 0.0, "truth": truth, "Clopper-Pearson": alone}


def instance_any(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
    """The true share of wrong labels is stated."""
    atoms, _ = w.sample(rng, n)
    given = InstanceNoise.of(w, INSTANCE_RATE).labels(rng, atoms)
    stated: dict[str, Any] = {"noise_type": "any", "noise_rate": INSTANCE_RATE}
    bound = certify(given, w.probs[atoms], delta=delta, bounds=["argmax"], **stated).argmax_error
    return {"bound": bound or 0.0, "truth": w.error}


def _instance_stated(transition: bool) -> Callable[[np.random.Generator, World, int, float], Draw]:
    """State the true rate or T: a miss is one where the class alone determines the noise, as the certificate assumes.

    The other strengths break the condition. Which of their printed numbers are false is counted beside.
    """

    def draw(rng: np.random.Generator, w: World, n: int, delta: float) -> Draw:
        found: Draw = {"truth": w.error}
        for strength in STRENGTHS:
            noise = InstanceNoise.of(w, INSTANCE_RATE, strength, 1.0 if transition else strength)
            atoms, _ = w.sample(rng, n)
            stated: dict[str, Any] = {"transition": noise.transition} if transition else {"noise_rate": INSTANCE_RATE}
            c = certify(noise.labels(rng, atoms), w.probs[atoms], delta=delta, bounds=["argmax"], **stated)
            found["bound"] = c.assumed.argmax_error or 0.0
            if strength == 0:
                found["miss"] = _missed(c, w.error)
            found[f"refuted {at(strength)}"] = c.refuted is not None
            found[f"condition false {at(strength)}"] = c.refuted is None and found["bound"] < w.error
        found["bound on disagreements false"] = c.refuted is not None and found["bound"] < noise.disagreement
        return found

    return draw


KINDS: dict[str, tuple[str, Callable[[np.random.Generator, World, int, float], Draw]]] = {
    "argmax": ("most probable class", argmax),
    "randomized": ("class drawn from h", randomized),
    "alpha": ("alpha-risk, beta 1.4", alpha),
    "three": ("most probable class, class drawn from h and alpha-risk at once", all_three),
    "one-hot": ("h of zeros and ones", one_hot),
    "symmetric": ("noise_rate=0.2, true rate 0.2", _noisy(0.2)),
    "symmetric-lower": ("noise_rate=0.1, true rate 0.2", _noisy(0.1)),
    "any": ("noise_type=any, noise_rate=0.1, a tenth of the labels hides errors", any_noise),
    "transition": ("transition=T, pair noise 0.3", transition),
    "clusters": ("groups of 10 rows", clusters),
    "parts": ("certify_each, three parts", parts),
    "anytime": ("betting_upper_sequence, after every row", anytime),
    "drift": ("drift_upper_sequence, after every row", drift),
    "instance-checked": ("checked, a fifth of the rows, noise by row", instance_checked),
    "shared": ("checked, looks shared out, errors where least expected", shared),
    "instance-any": ("noise_type=any, noise_rate=0.15, noise by row", instance_any),
    "instance-rate": ("noise_rate=0.15, true rate 0.15", _instance_stated(False)),
    "instance-transition": ("transition=T, pair noise 0.15", _instance_stated(True)),
    "sets": ("sets, right labels, least ambiguous, alpha = delta", _sets("least_ambiguous", False)),
    "sets-adaptive": ("sets, right labels, adaptive, alpha = delta", _sets("adaptive", False)),
    "sets-class": ("sets, per_class, alpha = delta", _sets("least_ambiguous", True)),
    "sets-any": ("sets, noise_type=any, noise_rate = alpha/2, alpha = delta", sets_any),
    "sets-transition": ("sets, transition=T, pair noise 0.3, alpha 0.1", sets_transition),
}


def main() -> None:
    """Draw until every cell has the draws that are asked for, then write the page."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.soak.certificates", description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--page", action="store_true", help="only write the page and its pictures anew")
    options = parser.parse_args()
    if not options.page:
        record = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
        for aim in range(BLOCK, options.draws + 1, BLOCK):
            for sizes in (SIZES[:2], SIZES[2:]):  # the cheap cells of all kinds first
                for kind in options.kinds.split(","):
                    run(kind, aim, sizes, record)

    certificates_page.write(json.loads(RECORD.read_text()), {kind: title for kind, (title, _) in KINDS.items()})


def run(kind: str, aim: int, sizes: tuple[int, ...], record: dict[str, Any]) -> None:
    """Bring the cells of a kind at some sizes to `aim` draws."""
    for k in CLASSES:
        world = World.of(k)
        for n in sizes:
            for delta in DELTAS:
                cell = record.setdefault(f"{kind}/{k}/{n}/{delta}", {"draws": 0, "misses": 0.0, "sums": {}})
                while cell["draws"] < aim:
                    extend(cell, kind, world, (k, n, delta))
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        part = RECORD.with_suffix(".part")
        part.write_text(json.dumps(record, indent=0) + "\n")
        part.replace(RECORD)
    print(kind, *sizes, aim, flush=True)


def extend(cell: dict[str, Any], kind: str, world: World, where: tuple[int, int, float]) -> None:
    """Add a block of draws to a cell; its seed follows from the cell's name and the draws before."""
    k, n, delta = where
    seed = zlib.crc32(f"{kind}/{k}/{n}/{delta}/{cell['draws']}".encode())
    rng = np.random.default_rng(seed)
    for _ in range(BLOCK):
        draw = KINDS[kind][1](rng, world, n, delta)
        cell["misses"] += float(draw.pop("miss", draw["bound"] < draw["truth"]))
        for name, value in draw.items():
            cell["sums"][name] = cell["sums"].get(name, 0.0) + float(value)
    cell["draws"] += BLOCK


if __name__ == "__main__":
    main()
