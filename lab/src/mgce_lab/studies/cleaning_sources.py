"""Looks that a cheap source saves `mgce clean`, on made tables: `python -m mgce_lab.studies.cleaning_sources`.

The right class of each row follows the probabilities of a model, and 60 % of the given labels are right. A source, such
as a language model, names the right class of a share of the rows, and any other class of the rest. Its answers only
change which label is proposed, and how doubtful that is. People's looks alone decide what is kept.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from mgce_lab.engine.markdown import table, write_between
from mgce_lab.studies.cleaning import N, cleaned, reader

OUT = Path(__file__).parents[4] / "results" / "certificates" / "cleaning-sources.json"
PAGE = Path(__file__).parents[4] / "docs" / "commands" / "clean.md"
BEGIN, END = "<!-- sources -->\n", "<!-- /sources -->\n"
CLASSES, GIVEN_RIGHT = 10, 0.6
SOURCES = (None, 0.7, 0.85, 0.95)  # the shares of rows on which the source is right
READ = 5  # of so many tables, one is read in the order of suspicion too


def main() -> None:
    """Make tables, clean them, and write the means into the page."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.cleaning_sources", description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    found = measure(parser.parse_args().draws)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    write_between(PAGE, BEGIN, f"{render(found)}\n", END)


def measure(draws: int) -> dict[str, Any]:
    """Return mean numbers of looks by source, and how often more wrong labels than promised were left."""
    looks: dict[str, list[int]] = {str(source): [] for source in SOURCES}
    false, oracle = dict.fromkeys(looks, 0), []
    for draw in range(draws):
        rng = np.random.default_rng((68, draw))
        probs, given, right = made(rng)
        for source in SOURCES:
            by_class = probs if source is None else posterior(probs, named(rng, right, source))
            n, left, most = cleaned(1 - by_class.max(1), by_class.argmax(1) != right, 0.0, draw)
            looks[str(source)].append(n)
            false[str(source)] += left > most
        if draw % READ == 0:
            oracle.append(reader(1 - probs[np.arange(N), given], given != right))
    means = {name: float(np.mean(values)) for name, values in looks.items()}
    return {"draws": draws, "looks": means, "false": false, "oracle": float(np.mean(oracle))}


def made(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return the probabilities of the right class of each row, given its label; the given labels; the right ones."""
    sure = rng.random(N) < 0.55
    probs = np.where(sure[:, None], rng.dirichlet(np.full(CLASSES, 0.01), N), rng.dirichlet(np.full(CLASSES, 0.2), N))
    right = (probs.cumsum(1) > rng.random((N, 1))).argmax(1)
    given = named(rng, right, GIVEN_RIGHT)
    return posterior(probs, given, GIVEN_RIGHT), given, right


def named(rng: np.random.Generator, right: Any, share: float) -> Any:
    """Return the right class in a share of the rows, and any other class in the rest."""
    return np.where(rng.random(N) < share, right, (right + rng.integers(1, CLASSES, N)) % CLASSES)


def posterior(probs: Any, answers: Any, share: float | None = None) -> Any:
    """Return the probabilities of the right class once a source has answered, which is right in a share of the rows."""
    rows = np.arange(len(probs))
    share = float(probs[rows, answers].mean()) if share is None else share
    weights = np.full_like(probs, (1 - share) / (probs.shape[1] - 1))
    weights[rows, answers] = share
    product = probs * weights
    return product / product.sum(1, keepdims=True)


def render(found: dict[str, Any]) -> str:
    """Return the table of docs/commands/clean.md."""
    names = ["no source", *(f"right on {source:.0%} of the rows" for source in SOURCES if source is not None)]
    rows = [["read in order, with an oracle's stop", f"{found['oracle']:,.0f}", "", ""]]
    for name, source in zip(names, map(str, SOURCES), strict=True):
        n, share = found["looks"][source], found["false"][source] / found["draws"]
        rows.append([name, f"{n:,.0f}", f"{1 - n / found['oracle']:.0%}", f"{share:.1%}"])
    return table(["source", "rows looked up", "saved", "false"], rows)


if __name__ == "__main__":
    main()
