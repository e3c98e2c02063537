"""`mgce-lab train SOURCE`: train a small network on images whose labels may be partly wrong, and list the suspects."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from mgce._files import write_files
from mgce._messages import expected
from mgce.desk.cli.embedded import LABEL, files_of
from mgce.desk.cli.outputs import Json, Quiet, check_outputs, terminal, write_json
from mgce.desk.cli.shared_options import Device, Threads, use_threads
from mgce.desk.cli.terminal import nothing_written_if_interrupted, steps_shown
from mgce.desk.review.draws import draw
from mgce.desk.review.suspect_file import check_overwritten
from mgce.desk.tables.listing import Listing, suspects_csv
from mgce.desk.tables.rows import row_keys
from mgce_lab.cli.labelled_images import IMAGES, LABELS, SIZE, LabelledImages, check_size, read_arrays, read_folder
from mgce_lab.images.image_fit import COLOURS, ImageFit, ImagePlan, fit_images

DEFAULT = ImagePlan()


def train(
    source: Annotated[
        Path,
        typer.Argument(
            help=f"A folder of pictures; or an .npz file with images {IMAGES}, (n, height, width) or (n, height, "
            f"width, channels), and labels {LABELS}."
        ),
    ],
    target_file: Annotated[
        Path | None,
        typer.Option(help="Table of the labels of a folder of pictures, with their paths [the folders are classes]."),
    ] = None,
    target: Annotated[str | None, typer.Option(help=f"Column of --target-file with the labels [{LABEL}].")] = None,
    size: Annotated[
        int | None, typer.Option(help=f"Pixels of a side, to which images are scaled [{SIZE}, or those of an array].")
    ] = None,
    validation_size: Annotated[
        float, typer.Option(help="Share of the rows whose labels choose the loss and the epoch.")
    ] = DEFAULT.validation_size,
    epochs: Annotated[int, typer.Option(help="Passes over the training rows, at most.")] = DEFAULT.epochs,
    folds: Annotated[
        int, typer.Option(help="Networks that judge the labels of rows they were not trained on; 0 for no suspects.")
    ] = DEFAULT.folds,
    as_they_are: Annotated[
        bool, typer.Option("--as-they-are", help="Neither shift nor mirror colour images at random.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of all random draws: rows held out, folds, networks.")] = DEFAULT.seed,
    threads: Threads = None,
    device: Device = DEFAULT.device,
    json_file: Json = None,
    quiet: Quiet = False,
    out: Annotated[Path | None, typer.Option(help="File for the network [SOURCE's name with .pt].")] = None,
) -> None:
    """Train a small network on images whose labels may be partly wrong, and list the suspect labels.

    A share of the rows is held out with its labels as given. The network is trained with six losses. The one that
    predicts most of the held-out labels is chosen, with its best epoch, or the average of the weights. Nothing needs to
    be known of the noise. Writes the network, a picture of its training, and NAME.suspects.csv: all rows, the most
    suspect label first, for mgce review.
    """
    plan = ImagePlan(validation_size, folds, epochs, not as_they_are, seed, device)
    _check(source, target_file, target, size)
    use_threads(threads)
    outputs = _Outputs(out or Path(f"{source.resolve().stem}.pt"), folds > 0)
    outputs.check(json_file, [*files_of(source), target_file])
    console = terminal(json_file, quiet)
    start = monotonic()
    with nothing_written_if_interrupted(console), steps_shown(console, "Reading") as told:
        if source.is_dir():
            images = read_folder(
                source, target_file, target, size, outputs.model, lambda done: told("Reading", done, None)
            )
        else:
            images = read_arrays(source, size)
        result = fit_images(images.pixels, images.labels, plan, told)
        files = outputs.contents(result, images, plan)
    write_files(outputs.model.parent, files)
    sentences = _sentences(source, images, result, plan)
    write_json(json_file, _document(source, images, result, sentences, [*files]))
    first, *others = sentences
    console.print(first)
    console.print_whole(result.choice.table())
    for sentence in others:
        console.print(sentence)
    console.print(f"Took {monotonic() - start:.0f} s. {outputs}")
    if result.judged is not None:
        console.print(f"Do this next:\n  {shlex.join(['mgce', 'review', str(outputs.suspects)])}", soft_wrap=True)


def _check(source: Path, target_file: Path | None, target: str | None, size: int | None) -> None:
    """Raise an error before reading if an option is not as its help describes it."""
    check_size(size)
    for option, value in (("target_file", target_file), ("target", target)):
        if value is not None and (target_file is None or not source.is_dir()):
            what = "given with a folder of pictures" + (" and --target-file" if option == "target" else "")
            raise ValueError(expected(option, what, str(value)))


@dataclass(frozen=True)
class _Outputs:
    """Paths of the files that the command writes, side by side."""

    model: Path
    judges: bool  # whether there is a file of suspects

    @property
    def picture(self) -> Path:
        """The path of the picture of the training."""
        return self.model.with_suffix(".svg")

    @property
    def suspects(self) -> Path:
        """The path of the CSV file that lists all rows, the most suspect label first."""
        return self.model.with_suffix(".suspects.csv")

    def check(self, json_file: Path | None, read: Iterable[Path | None]) -> None:
        """Raise an error before training if a file cannot be written, or would overwrite another file or an input."""
        check_outputs({"out": self.model}, read)  # first, since no file has a name beside a folder such as `.`
        written = [self.model, self.picture, *[self.suspects] * self.judges]
        check_outputs({"out": written, "json": json_file}, read)
        if self.judges:
            check_overwritten("out", self.suspects)

    def contents(self, result: ImageFit, images: LabelledImages, plan: ImagePlan) -> dict[str, bytes]:
        """Return the content of each file, by its name."""
        files = {self.model.name: result.model.to_bytes(), self.picture.name: result.picture.encode()}
        if result.judged is None:
            return files
        every = row_keys(images.frame, images.target, images.id)
        keys = [every[row] for row in result.used.tolist()]
        frame = images.frame.iloc[result.used].reset_index(drop=True)
        cells = frame.drop(columns=[images.id, images.target])
        listing = Listing(cells, keys, None, draw(keys, result.held_out, plan.seed), {}, images.target)
        content = suspects_csv(result.judged, frame[images.id], listing)
        return {**files, self.suspects.name: content}

    def __str__(self) -> str:
        suspects = f", and all rows, those with the most suspect label first, in {self.suspects}"
        between = "," if self.judges else " and"
        return (
            f"The network is in {self.model}{between} a picture of its training in {self.picture}"
            f"{suspects if self.judges else ''}."
        )


def _sentences(source: Path, images: LabelledImages, result: ImageFit, plan: ImagePlan) -> list[str]:
    """Return what was read, and after the table of recipes what was chosen and what is suspect."""
    n, channels, size, _ = images.pixels.shape
    read = f"Read {source.name}: {n:,} images of {len(result.classes):,} classes, {size} x {size} pixels, "
    read += {1: "grey", COLOURS: "in colour"}.get(channels, f"{channels} channels")
    read += ", shifted and mirrored at random" if plan.changed and channels == COLOURS else ""
    read += f". The labels of {result.n_validation:,} of them choose the loss and the epoch."
    notes = [f"Note: {sentence}" for sentence in [*images.notes, *result.notes]]
    if result.judged is None:
        return [read, result.choice.sentence(), *notes]
    judged = result.judged
    n_suspects = int((judged.suggested != judged.target).sum())
    suspect = (
        f"Of {len(judged.target):,} rows, {n_suspects:,} are suspect: a network that was not trained on the row "
        "predicts another class than its label."
    )
    return [read, result.choice.sentence(), *notes, suspect]


def _document(
    source: Path, images: LabelledImages, result: ImageFit, sentences: list[str], files: list[str]
) -> dict[str, Any]:
    """Return the results for a file of JSON."""
    choice = result.choice
    recipes = {}
    for name, trial in choice.trials.items():
        difference, lower, upper = choice.difference(name) if name != choice.name else (0.0, 0.0, 0.0)
        against = {"difference": difference, "lower": lower, "upper": upper}
        recipes[name] = {"predicted": trial.accuracy, "epochs": trial.epochs, **against}
    return {
        "source": source.name,
        "files": files,
        "rows": len(images.pixels),
        "validation_rows": result.n_validation,
        "classes": result.classes.tolist(),
        "chosen": choice.name,
        "delta": choice.delta,
        "recipes": recipes,
        "sentences": sentences,
    }
