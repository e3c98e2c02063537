"""The search for wrong numbers: which rows are tried, what was worst, and whether it is within the limits."""

from __future__ import annotations

import json
import math
import random
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from soak import truth
from soak.backends import BACKENDS, Outputs
from soak.families import FAMILIES, rows
from soak.measure import Errors, errors, valid_rows

BETAS = (1.0, 1 + 1e-12, 1.02, 1.05, 1.18, 1.4, 1.5, 2.0, 2.7, 3.0, 4.0, 5.0, 11.0, 20.0, 100.0, 1e4, 1e6, 1e9, math.inf)
DTYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
DTYPE_WEIGHTS = (4, 4, 1, 1)


@dataclass(frozen=True)
class SizeClass:
    """Numbers of classes that are tried together: those listed half of the time, else any up to the largest."""

    classes: tuple[int, ...]
    share: float  # of the rows
    batch: int  # rows


# Shares that give each size about the same number of logits. The listed sizes are those at which the code changes its
# ways: vectors of 8 and 16 lanes, blocks of 64 and 128, the Newton budget at 1024, packing from 4097, chunks beyond.
SIZES = (
    SizeClass((1, 2, 3, 7, 16, 17), 0.89, 255),
    SizeClass((63, 64, 65, 127, 128, 129), 0.1, 63),
    SizeClass((1000, 1024, 1025), 0.0085, 12),
    SizeClass((4097,), 0.0014, 6),
    SizeClass((32768, 50000, 100000, 128000), 0.0001, 3),
)

# In units of eps, and why:
LIMITS = {
    # What is promised of the root, and with it of the loss, which adds the rounding of f_y - max f and of the sum.
    "t": 8.0,
    "loss": 16.0,
    # |dh_y| <= w_y |dt|, and w_y max(1, |t|) <= 1: 8 from t, and as much again for the powers, their sum and quotient.
    "h": 16.0,
    # Margins moved by twice what t may be off: the other half is for x = f - max f, x + t and the powers.
    "p": 16.0,
    "gradient": 16.0,
    # A rounded quotient for each class gives 1/2, the sum that they are divided by log2(k)/2 <= 9 if it is pairwise.
    "h sum": 16.0,
    "p sum": 16.0,
    "gradient sum": 16.0,
    # If p is exact for margins moved by df, its gap is at most (p - true p).df <= 2 max |df|.
    "p gap": 32.0,
    "gradient gap": 32.0,
    "negative": 0.0,
    "nan": 0.0,
    # Each loss may be 16 off, so that the middle may seem to be 32 above the mean of the ends; likewise two betas.
    "convexity": 32.0,
    "monotone t": 16.0,
    "monotone loss": 32.0,
}


@dataclass(frozen=True)
class Case:
    """A batch of rows that can be drawn again: `family:dtype:n:k:beta:seed`."""

    family: str
    dtype: str
    n: int
    k: int
    beta: float
    seed: int

    def __str__(self) -> str:
        return ":".join(str(value) for value in asdict(self).values())

    @classmethod
    def parse(cls, text: str) -> Case:
        """Read what `str` wrote."""
        family, dtype, n, k, beta, seed = text.split(":")
        return cls(family, dtype, int(n), int(k), float(beta), int(seed))


def plan(total: int, seed: int) -> Iterator[Case]:
    """Draw the cases of a run of about `total` rows: always the same ones for the same arguments."""
    draw = random.Random(seed)
    for size in SIZES:
        left = max(size.batch, round(size.share * total))
        while left > 0:
            listed = draw.random() < 0.5
            low, high = size.classes[0], size.classes[-1]
            k = draw.choice(size.classes) if listed else round(math.exp(draw.uniform(math.log(low), math.log(high))))
            dtype = draw.choices(list(DTYPES), DTYPE_WEIGHTS)[0]
            yield Case(draw.choice(list(FAMILIES)), dtype, size.batch, k, draw.choice(BETAS), draw.getrandbits(32))
            left -= size.batch


def run(cases: Iterable[Case], backends: Iterable[str]) -> dict[str, Any]:
    """Try cases on backends; give how many rows each was given, and the worst case of each quantity."""
    result: dict[str, Any] = {"counts": {}, "worst": {}}
    for case in cases:
        # A slow backend has its share of the cases, which does not depend on the others.
        chosen = [name for name in backends if zlib.crc32(f"{name}:{case}".encode()) < BACKENDS[name].share * 2**32]
        for name, (found, tried) in measure(case, chosen).items():
            where = f"{name}/{case.dtype}/{case.family}"
            result["counts"][where] = result["counts"].get(where, 0) + tried
            for quantity, error in found.items():
                row = int(error.argmax())
                record = {"error": float(error[row]), "case": str(case), "row": row}
                _keep(result["worst"], f"{where}/{quantity}", record)
    return result


def measure(case: Case, backends: Iterable[str]) -> dict[str, tuple[Errors, int]]:
    """Give for each backend the error of each quantity for each row of a case, and how many rows it computed."""
    f, labels = rows(case.family, case.n, case.k, case.beta, DTYPES[case.dtype], case.seed)
    valid = valid_rows(f)
    finite = f[torch.from_numpy(valid)].double().numpy()
    ladder = BETAS if case.family == "betas" else (case.beta,)
    truths = [truth.solve(finite, beta) for beta in ladder]
    measured: dict[str, tuple[Errors, int]] = {}
    for name in backends:
        found: Errors = {}
        tried, previous = 0, None
        for beta, true in zip(ladder, truths, strict=True):
            if not BACKENDS[name].takes(f, beta):
                continue
            outputs = BACKENDS[name].outputs(f, labels, beta)
            now = errors(outputs, true, valid, labels)
            if case.family == "segments":
                now["convexity"] = _convexity(outputs["loss"])
            if previous is not None:
                now["monotone loss"], now["monotone t"] = _monotone(previous, outputs)
            previous = outputs
            tried += len(f)
            for quantity, error in now.items():
                found[quantity] = np.maximum(found.get(quantity, 0), error)
        if found:
            measured[name] = found, tried
    return measured


def _monotone(smaller: Outputs, larger: Outputs) -> tuple[np.ndarray, np.ndarray]:
    """Give by how much the loss at the smaller beta is above that at the larger, and t at the larger above."""
    loss, t = larger["loss"].double().numpy(), larger["t"].double().numpy()
    by_loss = _excess(smaller["loss"].double().numpy(), loss, np.maximum(1, loss))
    by_t = _excess(t, smaller["t"].double().numpy(), np.maximum(1, -t))
    unit = torch.finfo(larger["loss"].dtype).eps
    return by_loss / unit, by_t / torch.finfo(larger["t"].dtype).eps


def _excess(larger: np.ndarray, smaller: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Give by how much the first is above the second, which is to be the larger; equal infinities are equal."""
    with np.errstate(invalid="ignore"):
        return np.where(larger == smaller, 0, np.maximum(larger - smaller, 0) / scale)


def _convexity(losses: Tensor) -> np.ndarray:
    """Give by how much the loss in the middle of each segment is above the mean of its ends."""
    loss = losses.double().numpy()
    whole = loss[: len(loss) // 3 * 3].reshape(-1, 3)
    mean = (whole[:, 0] + whole[:, 2]) / 2
    above = np.zeros(len(loss))
    above[1 : len(whole) * 3 : 3] = _excess(whole[:, 1], mean, np.maximum(1, whole.max(-1)))
    return above / torch.finfo(losses.dtype).eps


def merge(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Give the result of all parts of a run."""
    counts: dict[str, int] = {}
    worst: dict[str, dict[str, Any]] = {}
    for part in results:
        for where, rows_tried in part["counts"].items():
            counts[where] = counts.get(where, 0) + rows_tried
        for where, record in part["worst"].items():
            _keep(worst, where, record)
    return {"counts": counts, "worst": worst}


def failures(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give what is beyond its limit, by backend/dtype/family/quantity."""
    return {
        where: record
        for where, record in sorted(result["worst"].items())
        if not record["error"] <= LIMITS[where.rsplit("/", 1)[1]]
    }


def _keep(worst: dict[str, dict[str, Any]], where: str, record: dict[str, Any]) -> None:
    if where not in worst or not record["error"] <= worst[where]["error"]:
        worst[where] = record


def run_part(folder: Path, total: int, seed: int, backends: tuple[str, ...], part: int, parts: int) -> dict[str, Any]:
    """Run one part of a run, or read it where an earlier run that was stopped has left it."""
    name = f"{total}-{seed}-{'-'.join(backends)}-{part}-of-{parts}.json"
    path = folder / name
    if path.exists():
        return dict(json.loads(path.read_text()))
    torch.set_num_threads(1)
    result = run(list(plan(total, seed))[part::parts], backends)
    folder.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".partial").write_text(json.dumps(result))
    path.with_suffix(".partial").replace(path)
    return result
