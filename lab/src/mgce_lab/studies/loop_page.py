"""The page of training loops: tables of what each recipe reaches, of the choice among them, and of wrong labels."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t

from mgce.loop.recipes import PATIENCE, RECIPES, RecipeChoice, Trial, chosen, is_over
from mgce_lab.engine.markdown import table
from mgce_lab.studies import noise_kind_page

Record = dict[str, Any]
WORST = 3  # columns that are named
DEFAULT = "learned correction"


def unpacked(text: str, n: int) -> NDArray[np.bool_]:
    """Return n truth values from their text."""
    return np.unpackbits(np.frombuffer(base64.b85decode(text), np.uint8))[:n].astype(bool)


def choice(records: Sequence[Record]) -> RecipeChoice:
    """Return what `choose_recipe` chooses, from records of one column and seed."""
    by_name = {record["recipe"]: record for record in records}
    longest = max(epochs_of(by_name[name], 1) for name in RECIPES)
    return chosen({name: trial(by_name[name], longest) for name in RECIPES})


def epochs_of(record: Record, least: int) -> int:
    """Return after how many epochs `choose_recipe` stops a training that gets at least `least` epochs."""
    kept = record["kept_epochs"]
    return next((epoch for epoch, one in enumerate(kept, 1) if is_over(epoch, one, PATIENCE, least)), len(kept))


def trial(record: Record, least: int) -> Trial:
    """Return what `choose_recipe` sees of a training that gets at least `least` epochs."""
    epochs = epochs_of(record, least)
    text = [text for epoch, text in record["validation"] if epoch <= epochs][-1]
    return Trial(torch.from_numpy(unpacked(text, record["n_validation"])), epochs)


class Results:
    """Records by column, recipe and seed."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = {(one["column"], one["recipe"], one["seed"]): one for one in records}
        self.columns, self.recipes, self.seeds = (list(dict.fromkeys(key[i] for key in self.records)) for i in range(3))

    def cell(self, column: str, recipe: str) -> list[Record]:
        """Return the records of all seeds."""
        return [self.records[column, recipe, seed] for seed in self.seeds if (column, recipe, seed) in self.records]

    def mean(self, column: str, recipe: str, kind: str) -> float:
        """Return the mean accuracy over seeds, in percent."""
        return float(np.mean([record[kind] for record in self.cell(column, recipe)]))

    def choices(self, column: str) -> list[RecipeChoice]:
        """Return the choice of each seed."""
        return [choice([self.records[column, recipe, seed] for recipe in RECIPES]) for seed in self.seeds]

    def chosen(self, column: str) -> float:
        """Return the mean accuracy over seeds of what `choose_recipe` chooses, in percent."""
        each = zip(self.choices(column), self.seeds, strict=True)
        return float(np.mean([self.records[column, one.name, seed]["kept"] for one, seed in each]))

    def cost(self) -> float:
        """Return how many whole trainings `choose_recipe` costs on average."""
        trials = [trial for column in self.columns for one in self.choices(column) for trial in one.trials.values()]
        epochs = len(next(iter(self.records.values()))["kept_epochs"])
        return sum(trial.epochs for trial in trials) / epochs / len(self.columns) / len(self.seeds)


def page(records: Sequence[Record], development: Sequence[Record], unseen: Sequence[Record]) -> str:
    """Return docs/lab/training-loops.md."""
    results = Results(records)
    means = {
        recipe: float(np.mean([results.mean(column, recipe, "kept") for column in results.columns]))
        for recipe in results.recipes
    }
    return "\n".join(
        [
            *_start(results),
            *_kept(results, means),
            *_compared(results, place_of_default(Results(development))),
            *_unseen(Results(unseen)),
            *noise_kind_page.section(),
            "",
        ]
    )


CONFUSED = ("asymmetric", "pair 40 %")  # ends of the names of columns where one class is given for another
SHORT = ("cross-entropy", "MGCE 1.05", "GCE", DEFAULT, "SCE", "ELR", "soft bootstrap")  # told nothing


def summary(records: Sequence[Record]) -> str:
    """Return a short table of means over the columns, for docs/choosing.md."""
    results = Results(records)

    def mean(recipe: str, kind: str) -> str:
        return f"{np.mean([results.mean(column, recipe, kind) for column in results.columns]):.1f}"

    rows = [[recipe, *(mean(recipe, kind) for kind in ("last", "checkpoint", "kept"))] for recipe in SHORT]
    chooser = np.mean([results.chosen(column) for column in results.columns])
    rows.append(["`choose_recipe`", "", "", f"{chooser:.1f}"])
    return table(["loss", "last epoch", "best epoch", "kept, mostly the average of the weights"], rows)


def confused(records: Sequence[Record], development: Sequence[Record]) -> str:
    """Return a table of the columns with confused classes, for docs/choosing.md."""
    of = {column: part for part in (Results(records), Results(development)) for column in part.columns}
    names = [name for name in of if name.endswith(CONFUSED)]
    rows = [[recipe, *(f"{of[name].mean(name, recipe, 'kept'):.1f}" for name in names)] for recipe in SHORT]
    return table(["loss", *names], rows)


def _start(results: Results) -> list[str]:
    return [
        "# Training loops on wrong labels",
        "",
        "This page supports [Which loss?](../choosing.md): what a loss, an epoch and an average of weights are worth.",
        "`python -m mgce_lab.studies.loop --data-dir DATA` trains the networks of which `results/loop` has no record.",
        "",
        "A column is a data set with right labels, or with one kind of wrong labels.",
        "A small network is trained for twenty epochs by Adam.",
        "A fifth of the rows, with noisy labels, chooses epoch and weights: see [`ModelKeeper`](../own-data.md).",
        f"Accuracies are percentages of right test labels, means over {len(results.seeds)} seeds.",
        f"The default recipe, {DEFAULT}, was changed when results on the first seven columns were known.",
        "Its settings were chosen on other data (`results/loop/development.jsonl`). There are [further",
        "columns](#columns-that-nothing-was-chosen-on) on which nothing was chosen.",
        "",
    ]


LEFT_OUT = ("SCE preset", "trimmed, told", "self-adaptive")  # beside a better variant of themselves, never last


def _kept(results: Results, means: dict[str, float]) -> list[str]:
    order = sorted(set(results.recipes).difference(LEFT_OUT), key=lambda recipe: -means[recipe])
    kept = [
        [recipe, *(f"{results.mean(column, recipe, 'kept'):.1f}" for column in results.columns), f"{means[recipe]:.1f}"]
        for recipe in order
    ]
    others = {
        "`choose_recipe`": [results.chosen(column) for column in results.columns],
        "cross-entropy, best epoch": [results.mean(column, CE, "checkpoint") for column in results.columns],
    }
    kept += [[name, *(f"{value:.1f}" for value in [*values, np.mean(values)])] for name, values in others.items()]
    return [
        "## What the keeper keeps",
        "",
        "In the row with “told”, trimming used the true share of wrong labels.",
        "“Estimated” shares come from `find_suspects`, which trains three more networks.",
        "",
        table(["recipe", *results.columns, "mean"], kept),
        "",
    ]


def place_of_default(development: Results) -> str:
    """Say how many recipes that know nothing of the noise are ahead of the default, on the development columns."""
    means = {
        recipe: float(np.mean([development.mean(column, recipe, "kept") for column in development.columns]))
        for recipe in development.recipes
        if "told" not in recipe
    }
    ahead = sum(mean > means[DEFAULT] for mean in means.values())
    return "the first" if not ahead else f"number {ahead + 1} of {len(means)}"


def _compared(results: Results, place: str) -> list[str]:
    return [
        "## One recipe for all, or a choice",
        "",
        f"`choose_recipe` trains with: {', '.join(f'`{name}`' for name in RECIPES)}.",
        f"`choose_recipe` pauses a training when the kept weights have not changed for {PATIENCE} epochs.",
        "Then `choose_recipe` takes the recipe whose network predicts most validation labels.",
        f"The choice takes as long as {results.cost():.1f} whole trainings on average.",
        f"To train only once, take {DEFAULT}, which is {place} on the development columns.",
        "",
    ]


CE, GCE = "cross-entropy", "GCE"
RIGHT, SYMMETRIC, PAIR = "right labels", "symmetric 40 %", "pair 40 %"
NOISES = {RIGHT: "right labels", SYMMETRIC: "symmetric noise", PAIR: "pair noise"}


def gap(results: Results, ending: str, other: str) -> tuple[float, float, float, int]:
    """Return the mean difference of the default to another recipe in points, its interval, and the number of columns.

    The columns are those whose name ends so. The interval of 95 % is Student's over columns, each a mean over seeds.
    """
    names = [column for column in results.columns if column.endswith(ending)]
    gaps = np.array([results.mean(one, DEFAULT, "kept") - results.mean(one, other, "kept") for one in names])
    half = float(t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / len(gaps) ** 0.5)
    return float(gaps.mean()), float(gaps.mean()) - half, float(gaps.mean()) + half, len(gaps)


def lead(unseen: Sequence[Record]) -> str:
    """Return a sentence for README: the default minus GCE by kind of noise."""
    results = Results(unseen)
    pair, symmetric, right = (f"{gap(results, end, GCE)[0]:+.1f}" for end in (PAIR, SYMMETRIC, RIGHT))
    noisy = f"{pair} points with pair noise, {symmetric} with symmetric noise"
    return f"the learned correction differs from GCE by {noisy} and {right} with right labels"


def _unseen(results: Results) -> list[str]:
    if not results.columns:
        return []
    recipes = results.recipes
    rows, ahead = [], dict[str, float]()
    for column in results.columns:
        ahead[column] = results.mean(column, DEFAULT, "kept") - results.mean(column, CE, "checkpoint")
    for ending, name in {**NOISES, "": "all columns"}.items():
        names = [column for column in results.columns if column.endswith(ending)]
        found = [float(np.mean([results.mean(one, recipe, "kept") for one in names])) for recipe in recipes]
        checkpoint = float(np.mean([results.mean(one, CE, "checkpoint") for one in names]))
        behind = f"{found[recipes.index(DEFAULT)] - checkpoint:+.1f}"
        rows.append([name, *(f"{value:.1f}" for value in found), behind])
    gaps = []
    for other in recipes:
        if other != DEFAULT:
            said = ["{:+.1f} ({:+.1f} to {:+.1f})".format(*gap(results, end, other)[:3]) for end in (*NOISES, "")]
            gaps.append([other, *said])
    for column in sorted(ahead, key=ahead.__getitem__)[:WORST]:
        shown = [f"{results.mean(column, recipe, 'kept'):.1f}" for recipe in recipes]
        rows.append([f"among the worst: {column}", *shown, f"{ahead[column]:+.1f}"])
    return [
        "## Columns that nothing was chosen on",
        "",
        f"These networks were trained after the last change of the default (seeds: {len(results.seeds)}), by",
        "`--unseen --keel-dir FOLDER`. Pair noise gives 40 % of each class the label of the next class.",
        f"The table has means over {len(ahead)} columns, and the columns with the lowest numbers on the right.",
        "",
        table(["mean over", *recipes, f"{DEFAULT} minus cross-entropy at its best epoch"], rows),
        "",
        f"{DEFAULT.capitalize()} minus each other recipe, in points, with intervals over columns:",
        "",
        table(["minus", *NOISES.values(), "all columns"], gaps),
        "",
    ]
