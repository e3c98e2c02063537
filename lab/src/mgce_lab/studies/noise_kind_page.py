"""The section of docs/lab/training-loops.md on the kind of noise, from its records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mgce.labels.share import CLASS_DEPENDENT
from mgce_lab.engine.markdown import table

DATASETS = {"fashion_mnist": "FashionMNIST", "mnist": "MNIST", "cifar10n": "CIFAR-10"}
REAL = ("none", "symmetric", "asymmetric", "pair")  # of `mgce_lab.studies.loop`, with the rate 0.4
RECORDS = Path("results/loop/noise-kind.json")
Record = dict[str, Any]


def records() -> dict[str, list[Record]]:
    """Return the records of both parts: `simulated` and `trained`."""
    read: dict[str, list[Record]] = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    return read


def section() -> list[str]:
    """Return the lines of docs/lab/training-loops.md on the kind of noise."""
    found = records()
    by_noise = {(one["noise"], one["network"]): one["kinds"] for one in found["simulated"]}
    draws, rows = (found["simulated"][0][name] for name in ("draws", "rows"))
    noises, networks = (list(dict.fromkeys(key[place] for key in by_noise)) for place in (0, 1))
    lines = [
        [noise, *(f"{100 * by_noise[noise, one].get(CLASS_DEPENDENT, 0) / draws:.0f}" for one in networks)]
        for noise in noises
    ]
    named = {(one["dataset"], one["noise"]) for one in found["trained"] if one["kind"] == CLASS_DEPENDENT}
    real = {noise: [name for dataset, name in DATASETS.items() if (dataset, noise) in named] for noise in REAL}
    said = ", and for ".join(f"{noise} noise on {', '.join(on)}" for noise, on in real.items() if on)
    return [
        "## Which kind of noise",
        "",
        f"How often `noise_kind` returns “class-dependent” for {rows} simulated validation rows, in percent:",
        "`python -m mgce_lab.studies.noise_kind` simulates them. Asymmetric noise is in half of the classes.",
        "",
        table(["wrong labels", *networks], lines),
        "",
        "The test has a nominal level of 5 %. The test misses weak noise, and misses noise if the network errs often.",
        "",
        f"After one training with GCE, and with as many rows, `noise_kind` returned “class-dependent” for {said}.",
        "For right labels, symmetric noise and the other data sets, `noise_kind` could not tell the kind of noise.",
        "Every pair of classes that `noise_kind` named was truly confused.",
        "The test allows for errors of the network; how much was chosen on FashionMNIST and CIFAR-10.",
    ]
