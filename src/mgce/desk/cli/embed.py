"""`mgce embed SOURCE --encoder NAME --out FILE`: turn pictures or texts into features by a pretrained encoder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from mgce._messages import check_count, expected
from mgce._validation import check_device
from mgce.desk.cli.embedded import embed_with_progress, files_of, files_of_encoder, loaded_encoder
from mgce.desk.cli.main import STARTED
from mgce.desk.cli.outputs import Quiet, check_outputs
from mgce.desk.cli.shared_options import TABLE, Device, Form, Threads, grouped, refuse, use_threads
from mgce.desk.cli.terminal import Terminal
from mgce.desk.encoders.embedding import Inputs, unread_pictures
from mgce.desk.encoders.libraries import BUILT_IN, BUILT_IN_TEXTS, SENTENCES, TIMM, TRANSFORMERS, check_kind
from mgce.desk.files.table_files import read_frame
from mgce.features.feature_files import NPY, PICTURES, SHOWN, check_suffix, read_features, sidecar


@dataclass(frozen=True)
class Chosen(Form):
    """The options on which pictures or texts of a table are encoded."""

    column: Annotated[str | None, "Column of a table: texts, or files of pictures seen from the table's folder."] = None
    id: Annotated[str | None, "Column that names the rows [of pictures the file, of texts the row's number]."] = None
    shard: Annotated[str | None, "I/N: encode part I of N only, and write it to OUT's name with -I-of-N."] = None


@dataclass(frozen=True)
class Network:
    """The options on the neural network that encodes pictures or texts, and on how it runs."""

    encoder: Annotated[
        str | None,
        f"A local folder, or {TIMM}:NAME, {TRANSFORMERS}:NAME or {SENTENCES}:NAME, where NAME is "
        f"a local folder or a name on a hub, from which the library may download it [{BUILT_IN} for pictures, "
        f"{BUILT_IN_TEXTS} for texts].",
    ] = None
    batch: Annotated[int, "Pictures or texts that go through the network together."] = 32
    half: Annotated[bool, "Write float16, half the size; on a GPU the network computes in float16 too."] = False
    threads: Threads = None
    device: Device = "cpu"


@grouped
def embed(
    *,
    source: Annotated[Path, typer.Argument(help=f"A folder of pictures; or a table of texts or of files. {TABLE}")],
    out: Annotated[Path, "File for the features: .npy, .npz, .parquet or .safetensors."],
    network: Network,
    form: Chosen,
    quiet: Quiet = False,
) -> None:
    """Turn pictures or texts into features by a pretrained encoder.

    The network is used as it is: nothing is trained. The file names the encoder, the checksum of its weights, its
    preprocessing and the rows; `mgce fit --embeddings` takes it. A command that was stopped goes on where it was, and
    writes the same bytes. Features that are there already, of the same inputs, are kept.
    """
    check_count("batch", network.batch, minimum=1)
    use_threads(network.threads)
    check_device(network.device)
    check_suffix("out", out)
    number, parts = _shard(form.shard)
    if form.shard is not None:
        out = out.with_name(f"{out.stem}-{number}-of-{parts}{out.suffix}")
    written = {"out": [out, *[sidecar(out)] * (out.suffix.lower() == NPY)]}
    check_outputs(written, [*files_of(source), *files_of_encoder(network.encoder)])
    inputs = _inputs(source, form)
    check_outputs(written, [item for item in inputs.items if isinstance(item, Path)])  # those that a table names too
    inputs = inputs.part(number, parts)
    encoder = network.encoder or (BUILT_IN if inputs.kind == PICTURES else BUILT_IN_TEXTS)
    check_kind(encoder, inputs.kind)
    if not len(inputs):
        raise ValueError(expected("shard", "of no more parts than there are rows", form.shard))
    console = Terminal(quiet=quiet)
    loaded = loaded_encoder(encoder, inputs.kind, device=network.device, half=network.half)
    made = embed_with_progress(console, loaded, inputs, out, batch=network.batch, half=network.half)
    lost, notes = unread_pictures(inputs, read_features(out).names)
    console.print_notes([*inputs.notes, *notes])
    took = f"Took {monotonic() - STARTED:.0f} s." if made else "They were there already."
    console.print(
        f"{len(inputs) - len(lost):,} {inputs.kind} by {loaded.card.name}, weights {loaded.card.checksum[:SHOWN]}: "
        f"{loaded.card.width:,} features each are in {out}. {took}"
    )


def _inputs(source: Path, form: Chosen) -> Inputs:
    """Return what is to be encoded: the pictures of a folder, or a column of a table."""
    if source.is_dir():
        refuse("left out for a folder of pictures", column=form.column, id=form.id)
        return Inputs.of_folder(source)
    if form.column is None:
        raise ValueError(expected("column", "a column of the table, with texts or files of pictures", form.column))
    named = [form.column] if form.id is None else [form.column, form.id]
    frame = read_frame(source, "source", text=named, form=form)
    return Inputs.of_column(frame, form.column, source.parent, form.id)


def _shard(text: str | None) -> tuple[int, int]:
    """Return the number of a part and the number of parts, as in the text 2/8; (1, 1) for None."""
    if text is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(expected("shard", "a part and the number of parts, such as 1/8 to 8/8", text))
    return int(found[1]), int(found[2])
