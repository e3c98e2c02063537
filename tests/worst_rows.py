r"""Search for the rows that need the most steps of Newton's method: what the budgets of `mgce.numerics` stand on.

    python tests/worst_rows.py [K ...]

prints the steps that the worst row found needs, for each number of classes, beta and dtype, and writes the worst of
each cell of the table of budgets to `worst_rows.json`, which `tests/numerics/test_budget.py` replays. It takes an hour.

A row is written as clusters of classes that share a logit, so that 100,000 classes cost no more than a dozen. A cluster
has a `count`, which need not be a whole number (so what is found is at least as bad as any row), and
`v = 1 + (x + t*)/beta` at the root t*, which is known beforehand: `sum count v_+^beta = 1`. The iterates are followed
as their distance from it, in exact arithmetic for all that matters here; rounding in the dtype itself is what the
replayed rows, and one spare step, are for.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np

from mgce.numerics import root

FILE = Path(__file__).with_suffix(".json")
EPS = {"float32": 2.0**-23, "float64": 2.0**-52}
CLASSES = root.CLASSES  # what a row needs, one with more classes can need too: the others may be masked
BETAS = (1, 1.01, 1.03, 1.06, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2, 2.5, 3, 4, 5, 7, 11, 20, 100, 1e4, 1e9)
# Of the 8 eps that an error may reach, half is left to the rounding of the sums.
TOLERANCE = 4
DIGITS = 18  # |v| between 1e-18 and 1 on the scale of the search
CLUSTERS = (8, 60)
POPULATION, GENERATIONS = 200, 100


def newton_errors(count, v, beta, steps):
    """Return t_j - t* of the first iterates, in units of max(1, |t*|): shape (steps + 1, rows)."""
    top = v.max(1)
    room = 1 - top  # t <= 0
    count = np.where(v > top[:, None] - 1, count, 0)  # x > -beta: a class below has no part
    total = count.sum(1)
    distance = np.minimum(room, total ** (-1 / beta) - (count * v).sum(1) / total)
    distances = [distance]
    inside, base = v > 0, np.where(v > 0, v, 1)
    for step in range(steps):
        moved = v + distance[:, None]
        on = moved > 0
        u = np.where(on, moved, 1)
        # u^beta - v^beta, without cancellation
        change = base**beta * np.expm1(beta * np.log1p(np.where(on, distance[:, None] / base, 0)))
        change = np.where(inside, np.where(on, change, -(base**beta)), np.where(on, u**beta, 0))
        log_total = np.log1p((count * change).sum(1))
        slope = (count * np.where(on, u ** (beta - 1), 0)).sum(1) * np.exp((1 / beta - 1) * log_total)
        after = np.minimum(distance - np.expm1(log_total / beta) / slope, room)
        distance = after if step == 0 else np.minimum(distance, after)
        distances.append(distance)
    return beta * np.array(distances) / np.maximum(1, beta * room)


def steps_needed(count, v, beta, tolerance, steps):
    """Return the number of steps to come within `tolerance`, with a fraction for how near the step before came."""
    errors = np.maximum(newton_errors(count, v, beta, steps), 1e-30)
    far = errors > tolerance
    last = np.where(far.any(0), steps - np.argmax(far[::-1], 0), -1)  # the last iterate that is too far
    row, at = np.arange(len(v)), np.clip(last, 0, steps - 1)
    before, after = errors[at, row], errors[at + 1, row]
    fraction = np.log(before / tolerance) / np.maximum(np.log(before / after), 1e-9)
    needed = np.where(last < 0, 0, last + np.clip(fraction, 0, 1))
    return np.where(np.isfinite(needed), needed, -1)


def decode(genes, k, beta):
    """Return the clusters of each row of genes: the logarithms of their shares, and of |v| with its sign."""
    clusters = genes.shape[1] // 2
    share = np.exp(genes[:, :clusters] * math.log(k))
    count = 1 + (k - clusters) * share / share.sum(1, keepdims=True)
    code = genes[:, clusters:].copy()
    code[:, 0] = np.abs(code[:, 0])  # some class is in the support
    v = np.sign(code) * 10.0 ** (DIGITS * (np.abs(code) - 1))
    top = v.max(1, keepdims=True)
    norm = top * (count * (np.maximum(v, 0) / top) ** beta).sum(1, keepdims=True) ** (1 / beta)
    return count, v / norm


def encode(count, v, k, clusters):
    """Return genes for clusters (m,), the classes and clusters that are left over being far outside the support."""
    left = max(clusters - len(count), 0)
    count, v = np.append(count, [1.0] * left)[:clusters], np.append(v, [-3.0] * left)[:clusters]
    if left:
        count[-1] += max(k - count.sum(), 0)
    share = np.maximum(count - 1, 1e-9)
    code = np.sign(v) * (1 + np.log10(np.maximum(np.abs(v), 10.0**-DIGITS)) / DIGITS)
    return np.concatenate([np.clip(1 + np.log(share / share.max()) / math.log(k), -1, 1), np.clip(code, -1.15, 1)])


def landing(count, v, beta, start):
    """Return where a step from the distance `start` lands, for one row of clusters, (m,) each."""
    u, base = np.maximum(v + start, 0), np.where(v > 0, v, 1)
    grown = np.where(v > 0, base**beta * np.expm1(beta * np.log1p(start / base)), u**beta)
    log_total = np.log1p((count * grown).sum())
    slope = (count * np.where(u > 0, np.where(u > 0, u, 1) ** (beta - 1), 0)).sum()
    return start - np.expm1(log_total / beta) / slope * np.exp((1 - 1 / beta) * log_total)


@functools.cache
def chain(beta, tolerance, ratio, place, top):
    """Build clusters backwards from the root, each such that one step goes from `ratio` times a distance to it.

    Each lies on the edge of the support as it is after the step, or the share `place` of the step above that: it slows
    the step, and is then lost. For beta near 1 nothing slower is known.
    """
    most = 2.0**31
    count, v, distance = np.array([float(top)]), np.array([top ** (-1 / beta)]), 1.02 * tolerance / beta
    while count.sum() < most and distance * ratio < 1 - v[0]:
        start = ratio * distance
        clusters = np.append(v, -(distance + place * (start - distance)))
        low, high = 1.0, most
        if landing(np.append(count, high), clusters, beta, start) < distance:
            break
        for _ in range(40):
            middle = math.sqrt(low * high)
            slow = landing(np.append(count, middle), clusters, beta, start) > distance
            low, high = (low, middle) if slow else (middle, high)
        count, v, distance = np.append(count, high), clusters, start
    return count, v


def chains(k, beta, tolerance, clusters):
    """Return the genes of chains of every shape, each cut where it has k classes."""
    if beta >= 3 or k <= 4:  # no chain has a second link
        return np.zeros((0, 2 * clusters))
    genes = []
    for shape in itertools.product(np.geomspace(1.3, 6, 14), (0, 0.6, 0.9, 0.995), (1, 2, 3)):
        count, v = chain(beta, tolerance, *shape)
        links = min(clusters, int(np.searchsorted(count.cumsum(), k)))
        if links > 1:
            genes.append(encode(count[:links], v[:links], k, clusters))
    return np.array(genes).reshape(-1, 2 * clusters)


def search(k, beta, eps, clusters, found, generator):
    """Evolve rows; give the largest number of steps and the best genes, best first."""
    tolerance, steps = TOLERANCE * eps, math.ceil(math.log2(k) / beta - math.log2(eps) / 2) + 2
    spread = generator.choice([0.02, 0.1, 0.3, 0.6], (POPULATION, 1))
    sign = np.where(generator.random((POPULATION, clusters)) < 0.2, -1, 1)
    code = sign * (1 - spread * np.abs(generator.standard_normal((POPULATION, clusters))))
    genes = np.concatenate([generator.random((POPULATION, clusters)), np.clip(code, -1.15, 1)], 1)
    seeds = np.concatenate([found, chains(k, beta, tolerance, clusters)])
    seeds = seeds[np.argsort(-steps_needed(*decode(seeds, k, beta), beta, tolerance, steps))] if len(seeds) else seeds
    genes[: min(len(seeds), 60)] = seeds[:60]
    score = steps_needed(*decode(genes, k, beta), beta, tolerance, steps)
    low = np.concatenate([np.full(clusters, -1.0), np.full(clusters, -1.15)])
    for _ in range(GENERATIONS):
        best = genes[np.argsort(-score)[generator.integers(0, POPULATION // 10, POPULATION)]]
        one, other = genes[generator.integers(0, POPULATION, (2, POPULATION))]
        rate = generator.uniform(0, 0.9, (POPULATION, 1)) * (generator.random((POPULATION, 1)) < 0.7)
        trial = genes + rate * ((best - genes) * (generator.random((POPULATION, 1)) < 0.6) + one - other)
        noise = generator.standard_normal(trial.shape) * 10.0 ** generator.uniform(-6, -1, (POPULATION, 1))
        trial += noise * (generator.random(trial.shape) < 0.1)
        keep = generator.random(trial.shape) < generator.choice([0.3, 0.7, 0.95], (POPULATION, 1))
        trial = np.clip(np.where(keep, trial, genes), low, 1)
        new = steps_needed(*decode(trial, k, beta), beta, tolerance, steps)
        genes[new >= score], score = trial[new >= score], np.maximum(score, new)
    order = np.argsort(-score)
    return float(score[order[0]]), genes[order[:20]]


def in_cell(beta):
    """Return the row of the table of budgets that beta belongs to."""
    return max(i for i, smallest in enumerate(root.BETAS) if beta >= smallest)


def main(classes):
    """Search for each number of classes, going through beta upwards and downwards with what was found before."""
    record = json.loads(FILE.read_text()) if FILE.exists() else []
    for k in classes:
        best = {}
        for dtype, eps in EPS.items():
            for clusters in sorted({min(c, k) for c in CLUSTERS}):
                found = np.zeros((0, 2 * clusters))
                for turn, beta in enumerate((*BETAS, *BETAS[::-1])):
                    generator = np.random.default_rng([k, turn, clusters])
                    steps, found = search(k, beta, eps, clusters, found, generator)
                    if steps > best.get((dtype, beta), (-1,))[0]:
                        best[dtype, beta] = steps, *(a[0] for a in decode(found[:1], k, beta))
        record = [entry for entry in record if entry["k"] != k]
        for dtype, cell in itertools.product(EPS, range(len(root.BETAS))):
            worst = max((b for b in BETAS if in_cell(b) == cell), key=lambda b: best[dtype, b][0])
            steps, count, v = best[dtype, worst]
            part = v > v.max() - 1  # the others have none
            x, whole = worst * (v - v.max())[part], np.maximum(1, count[part]).astype(int)
            keys = "k", "dtype", "beta", "steps", "logits", "counts"
            values = k, dtype, worst, round(steps, 2), x.tolist(), whole.tolist()
            record.append(dict(zip(keys, values, strict=True)))
        FILE.write_text(json.dumps(record, indent=None) + "\n")
        for beta in BETAS:
            print(f"{k:10} {beta:8g}", *(f"{best[dtype, beta][0]:6.2f}" for dtype in EPS), flush=True)


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main(tuple(map(int, sys.argv[1:])) or CLASSES)
