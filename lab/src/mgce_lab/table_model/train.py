"""Train the transformer on simulated tables: `python -m mgce_lab.table_model.train --out FOLDER`.

On a GPU the data are drawn there too, and each shape of step is one CUDA graph. `--seconds` plans by the clock,
`--steps` by number: then a run that was stopped and resumed ends in the same bits as one that was not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mgce.functional import mgce_loss
from mgce_lab.table_model.model import NAME_SIZE, Sizes, TableModel, describe, grouped
from mgce_lab.table_model.prior import NOISES, Shape, Tables, draw_tables

MUON = ("qkv", "out", "up", "down", "row_in", "vote_in", "head")  # the last parts of names; Adam takes the others
MUON_RATE, ADAM_RATE = 0.02, 0.003
LEAST = 1e-4  # probabilities in log-losses: MGCE's p can be zero
WARM_UP, DECAY_FROM = 0.02, 0.5  # shares of the plan
VALIDATION = 20_000_000  # seed of tables that are never trained on


class Part(NamedTuple):
    """A part of the training: the share of it at which the part ends, and its shapes, with tables a step."""

    until: float
    shapes: tuple[tuple[Shape, int], ...]


PLANS = {
    "tiny": (Part(1.0, ((Shape(48, 16, 4), 4), (Shape(64, 16, 6), 4))),),
    "pilot": (Part(1.0, ((Shape(96, 32, 4), 8), (Shape(64, 32, 6), 8))),),
    "tune": (Part(1.0, ((Shape(256, 64, 10), 8), (Shape(320, 64, 16), 6), (Shape(192, 64, 6), 12))),),
    "device": (
        Part(0.3, ((Shape(192, 64, 6), 128), (Shape(256, 64, 10), 96), (Shape(96, 64, 16), 128))),
        Part(0.75, ((Shape(512, 128, 20), 32), (Shape(320, 64, 12), 64), (Shape(256, 64, 32), 48))),
        Part(1.0, ((Shape(1000, 256, 20), 16), (Shape(512, 128, 20), 32), (Shape(320, 64, 40), 32))),
    ),
    # From weights that have seen small tables: mostly tables as people have them, some of them wide.
    "further": (
        Part(0.15, ((Shape(256, 64, 10), 96), (Shape(320, 64, 12), 64), (Shape(192, 64, 20), 96))),
        Part(
            1.0,
            (
                (Shape(1000, 256, 20), 16),
                (Shape(512, 128, 20), 32),
                (Shape(320, 64, 40), 32),
                (Shape(320, 64, 12), 64),
                (Shape(900, 128, 10), 24),
                (Shape(320, 64, 96), 12),
            ),
        ),
    ),
}
PLANS["cpu"] = tuple(Part(p.until, tuple((s, max(4, n // 8)) for s, n in p.shapes)) for p in PLANS["device"])
MEASURED = {
    "tiny": ((Shape(48, 16, 4), 16),),
    "pilot": ((Shape(96, 32, 6), 48),),
    "tune": ((Shape(256, 64, 10), 64),),
    "device": ((Shape(256, 64, 10), 96), (Shape(512, 128, 20), 64)),
}
CHUNK = 4  # steps for which tables are drawn at once


class Batch(NamedTuple):
    """The inputs of the model, and the targets for its outputs."""

    cells: Tensor
    names: Tensor
    given: Tensor
    right: Tensor
    n_classes: Tensor


def batch_of(tables: Tables, generator: torch.Generator, dtype: torch.dtype) -> Batch:
    """Return simulated tables as the model takes them."""
    cells = grouped(describe(tables.x, tables.is_categorical, tables.given.shape[1])).to(dtype)
    names = torch.randn(*cells.shape[:2], NAME_SIZE, generator=generator, device=cells.device).to(dtype)
    return Batch(cells, names, tables.given, tables.right, tables.n_classes)


def losses(model: TableModel, batch: Batch) -> Tensor:
    """Return the losses of context rows and of new rows on right labels."""
    context, new = model(batch.cells, batch.given, batch.n_classes, batch.names)
    n = batch.given.shape[1]
    parts = ((context, batch.right[:, :n]), (new, batch.right[:, n:]))
    loss = F.cross_entropy if model.sizes.beta == math.inf else partial(mgce_loss, beta=model.sizes.beta)
    return torch.stack([loss(logits.flatten(0, 1), right.flatten()) for logits, right in parts])


class Optimiser:
    """Muon for matrices that act between layers, Adam for the rest, without a step that waits for the device."""

    def __init__(self, model: TableModel) -> None:
        named = list(model.named_parameters())
        self.muon = [p for name, p in named if name.split(".")[-1] in MUON]
        self.adam = [p for name, p in named if name.split(".")[-1] not in MUON]
        device = named[0][1].device
        self.rate = torch.zeros((), device=device)
        self.count = torch.zeros((), device=device)
        self.momentum = [torch.zeros_like(p) for p in self.muon]
        self.mean = [torch.zeros_like(p) for p in self.adam]
        self.square = [torch.zeros_like(p) for p in self.adam]

    def tensors(self) -> list[Tensor]:
        """Return the state that is needed to resume training."""
        return [self.count, *self.momentum, *self.mean, *self.square]

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters by their gradients; a gradient that is no number counts as zero."""
        self.count += 1
        for p, momentum in zip(self.muon, self.momentum, strict=True):
            gradient = p.grad.nan_to_num(0, 0, 0)
            momentum.mul_(0.95).add_(gradient)
            update = _orthogonal(gradient + 0.95 * momentum)
            update *= max(1, p.shape[-2] / p.shape[-1]) ** 0.5
            p.sub_(MUON_RATE * self.rate * (update + 0.02 * p))
        for p, mean, square in zip(self.adam, self.mean, self.square, strict=True):
            gradient = p.grad.nan_to_num(0, 0, 0)
            mean.lerp_(gradient, 0.1)
            square.lerp_(gradient.square(), 0.02)
            size = (square / (1 - torch.exp(self.count * math.log(0.98)))).sqrt() + 1e-8
            p.sub_(ADAM_RATE * self.rate * (mean / (1 - torch.exp(self.count * math.log(0.9))) / size))


def _orthogonal(matrices: Tensor) -> Tensor:
    """Return nearly orthogonal matrices by five steps of Newton and Schulz (Muon's numbers)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.to(torch.bfloat16 if matrices.is_cuda else torch.float32)
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x if wide else x.mT).to(matrices.dtype)


class Step:
    """A step of one shape: a CUDA graph where there is a GPU, else plain calls."""

    def __init__(self, model: TableModel, optimiser: Optimiser, like: Batch, use_graph: bool) -> None:
        self.model, self.optimiser = model, optimiser
        self.inputs = Batch(*(tensor.clone() for tensor in like))
        self.loss = torch.zeros(2, device=like.cells.device)
        self.graph = self._captured() if use_graph else None

    def _gradients(self) -> None:
        for p in self.model.parameters():
            p.grad = None
        loss = losses(self.model, self.inputs)
        loss.sum().backward()
        self.loss.copy_(loss.detach())

    def _captured(self) -> Any:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # outside a graph, as kernels load and choose themselves; nothing moves
            kept = [tensor.clone() for tensor in (self.optimiser.rate, *self.optimiser.tensors())]
            self.optimiser.rate.zero_()
            for _ in range(2):
                self._gradients()
                self.optimiser.step()
            for mine, before in zip((self.optimiser.rate, *self.optimiser.tensors()), kept, strict=True):
                mine.copy_(before)
        torch.cuda.current_stream().wait_stream(stream)
        for p in self.model.parameters():
            p.grad = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._gradients()
            self.optimiser.step()
        return graph

    def __call__(self, batch: Batch) -> Tensor:
        """Take one step and return the losses, in a tensor that the next step of this shape overwrites."""
        for mine, given in zip(self.inputs, batch, strict=True):
            mine.copy_(given)
        if self.graph is None:
            self._gradients()
            self.optimiser.step()
        else:
            self.graph.replay()
        return self.loss


def rate_at(share: float) -> float:
    """Return the learning rate as a share of the largest: up, flat, then down to zero."""
    return min(1.0, share / WARM_UP, max(0.0, 1 - share) / (1 - DECAY_FROM))


class Training:
    """A model on its way: draws, steps, measures and keeps."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = torch.device(options.device)
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        torch.manual_seed(options.seed)
        self.model = TableModel(Sizes(**json.loads(options.sizes))).to(self.device)
        self.optimiser = Optimiser(self.model)
        self.generator = torch.Generator(self.device).manual_seed(options.seed + 1)
        self.steps: dict[Shape, Step] = {}
        self.step, self.seen, self.before, self.stage = 0, 0, 0.0, 0
        self.curve: list[dict[str, Any]] = []
        self.out = Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        if (self.out / "state.pt").exists():
            self._resume(self.out / "state.pt")
        elif options.start:
            self._read_weights(Path(options.start))
        self.started = time.monotonic()

    def elapsed(self) -> float:
        """Return seconds of training, those before a resumption included."""
        return self.before + time.monotonic() - self.started

    def share(self) -> float:
        """Return which share of the plan is done."""
        return self.step / self.options.steps if self.options.steps else self.elapsed() / self.options.seconds

    def run(self) -> None:
        """Train to the end of the plan, keeping all that is needed to go on."""
        kept = measured = time.monotonic()
        plan = PLANS[self.options.plan]
        if self.device.type == "cuda":
            self._choose_attention()
        waiting: list[tuple[Shape, Tensor]] = []
        while (share := self.share()) < 1:
            stage = next(i for i, part in enumerate(plan) if share < part.until)
            if stage > self.stage:
                write_npz(self.model, self.out / f"stage-{stage}.npz")
                self.stage = stage
            part = plan[stage]
            shape, tables = part.shapes[self.step // CHUNK % len(part.shapes)]
            waiting.append((shape, self._chunk(shape, tables, self.options.rate * rate_at(share))))
            if len(waiting) > 1:  # the device may lag by one chunk, not by more
                self._note(*waiting.pop(0))
            now = time.monotonic()
            if now - measured > self.options.measure_every:
                self.measure()
                measured = time.monotonic()
            if now - kept > self.options.keep_every:
                self.keep()
                kept = time.monotonic()
        self.measure()
        self.keep()

    def _chunk(self, shape: Shape, tables: int, rate: float) -> Tensor:
        drawn = draw_tables(CHUNK * tables, shape, self.generator)
        batch = batch_of(drawn, self.generator, self.dtype)
        self.optimiser.rate.fill_(rate)
        total = torch.zeros(2, device=self.device)
        for i in range(CHUNK):
            part = Batch(*(tensor[i * tables : (i + 1) * tables] for tensor in batch))
            if shape not in self.steps:
                self.steps[shape] = self._new_step(part)
            total += self.steps[shape](part)
        self.step += CHUNK
        self.seen += CHUNK * tables
        return total / CHUNK

    def _new_step(self, part: Batch) -> Step:
        if self.device.type == "cuda" and not self.options.eager:
            try:
                return Step(self.model, self.optimiser, part, use_graph=True)
            except RuntimeError as error:
                self.say(f"no graph: {error}")
                self.options.eager = True
        return Step(self.model, self.optimiser, part, use_graph=False)

    def _note(self, shape: Shape, loss: Tensor) -> None:
        context, new = loss.tolist()
        self.curve.append(
            {"step": self.step, "tables": self.seen, "s": round(self.elapsed(), 1), "shape": list(shape)}
            | {"context": round(context, 4), "new": round(new, 4)}
        )

    def _choose_attention(self) -> None:
        """Take the faster way for the tokens of a row, measured here."""
        torch.backends.cuda.enable_cudnn_sdp(False)  # plans anew for each shape
        drawn = draw_tables(64, Shape(256, 64, 12), self.generator)
        batch = batch_of(drawn, self.generator, self.dtype)
        seconds = {}
        for by_matmul in (True, False, True, False):
            self.model.column_by_matmul = by_matmul
            torch.cuda.synchronize()
            start = time.monotonic()
            for _ in range(3):
                losses(self.model, batch).sum().backward()
            torch.cuda.synchronize()
            seconds[by_matmul] = time.monotonic() - start  # the second time counts
        self.model.column_by_matmul = seconds[True] <= seconds[False]
        self.say(f"seconds for three steps, by matrix products: {seconds[True]:.4f}, by SDPA: {seconds[False]:.4f}")

    @torch.no_grad()
    def measure(self) -> None:
        """Measure on simulated tables that were never trained on."""
        for shape, n in MEASURED.get(self.options.plan, MEASURED["device"]):
            generator = torch.Generator(self.device).manual_seed(VALIDATION)
            tables = draw_tables(n, shape, generator)
            batch = batch_of(tables, generator, self.dtype)
            context, new = self.model(batch.cells, batch.given, batch.n_classes, batch.names)
            record = {"step": self.step, "tables": self.seen, "s": round(self.elapsed(), 1), "valid": list(shape)}
            record |= scores(self.model.probabilities(context), self.model.probabilities(new), tables)
            self.curve.append(record)
            self.say(json.dumps(record))

    def keep(self) -> None:
        """Write weights, state and curve, each whole or not at all."""
        state = {
            "weights": self.model.state_dict(),
            "optimiser": self.optimiser.tensors(),
            "generator": self.generator.get_state(),
            "device": self.device.type,
            "counts": (self.step, self.seen, self.elapsed()),
        }
        write_whole(self.out / "state.pt", lambda path: torch.save(state, path))
        write_weights(self.model, self.out / "weights.npz")
        lines = "".join(json.dumps(record) + "\n" for record in self.curve)
        write_whole(self.out / "curve.jsonl", lambda path: path.write_text(lines))

    def _resume(self, path: Path) -> None:
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["weights"])
        for mine, kept in zip(self.optimiser.tensors(), state["optimiser"], strict=True):
            mine.copy_(kept)
        self.step, self.seen, self.before = state["counts"]
        if state["device"] == self.device.type:
            self.generator.set_state(state["generator"].cpu())
        else:  # generators of two devices draw different numbers
            self.generator.manual_seed(self.options.seed + 1 + self.step)
        if (self.out / "curve.jsonl").exists():
            self.curve = [json.loads(line) for line in (self.out / "curve.jsonl").read_text().splitlines()]

    def _read_weights(self, path: Path) -> None:
        self.model.load_state_dict(read_weights(path).state_dict())

    def say(self, line: str) -> None:
        """Print a line and keep it in the log."""
        print(line, flush=True)
        with (self.out / "log.txt").open("a") as file:
            file.write(line + "\n")


def scores(p: Tensor, new: Tensor, tables: Tables) -> dict[str, float]:
    """Return log-losses, accuracies, and the average precision of finding wrong labels, as means over tables.

    Args:
        p: Probabilities of the context rows.
        new: Probabilities of the new rows.
        tables: The tables.
    """
    n = tables.given.shape[1]
    right = tables.right
    p_wrong = 1 - p.gather(2, tables.given[..., None])[..., 0]
    is_wrong = tables.given != right[:, :n]
    noisy = is_wrong.float().mean(1) > 0.02
    result = {
        "new": F.nll_loss(new.clamp(LEAST).log().flatten(0, 1), right[:, n:].flatten()).item(),
        "context": F.nll_loss(p.clamp(LEAST).log().flatten(0, 1), right[:, :n].flatten()).item(),
        "accuracy": (new.argmax(-1) == right[:, n:]).float().mean().item(),
        "corrected": (p.argmax(-1) == right[:, :n]).float().mean().item(),
        "given": (~is_wrong).float().mean().item(),
        "ap": average_precision(p_wrong, is_wrong)[noisy].mean().item(),
    }
    for i, noise in enumerate(NOISES):
        if (of := tables.noise == i).any():
            result[f"accuracy, {noise}"] = (new[of].argmax(-1) == right[of, n:]).float().mean().item()
    return {name: round(value, 4) for name, value in result.items()}


def average_precision(score: Tensor, is_wrong: Tensor) -> Tensor:
    """Return the average precision of each row of scores."""
    order = score.argsort(-1, descending=True)
    hit = is_wrong.gather(-1, order).double()
    precision = hit.cumsum(-1) / torch.arange(1, hit.shape[-1] + 1, device=hit.device)
    return (precision * hit).sum(-1) / hit.sum(-1).clamp(min=1)


def write_whole(path: Path, write: Any) -> None:
    """Write a file under another name, then give it its own."""
    part = path.with_name("part-" + path.name)
    write(part)
    part.replace(path)


def write_npz(model: TableModel, path: Path) -> None:
    """Write weights in half precision."""
    arrays = {name: value.half().cpu().numpy() for name, value in model.state_dict().items()}
    sizes = np.frombuffer(json.dumps(asdict(model.sizes)).encode(), np.uint8)

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, sizes=sizes, **arrays)

    write_whole(path, write)


def write_weights(model: TableModel, path: Path) -> None:
    """Write weights in half precision, and their checksum beside them."""
    write_npz(model, path)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    write_whole(path.with_suffix(".sha256"), lambda part: part.write_text(f"{checksum}  {path.name}\n"))


def read_weights(path: Path) -> TableModel:
    """Return the model of a file that `write_weights` wrote; a file with another checksum is refused."""
    checksum = path.with_suffix(".sha256").read_text().split()[0]
    if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
        raise ValueError(f"Expected `{path}` to have the checksum beside it, but it has another.")
    with np.load(path, allow_pickle=False) as arrays:
        model = TableModel(Sizes(**json.loads(arrays["sizes"].tobytes())))
        names = [name for name in arrays.files if name != "sizes"]
        model.load_state_dict({name: torch.from_numpy(arrays[name].astype(np.float32)) for name in names})
    return model.eval()


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.table_model.train", description=__doc__)
    parser.add_argument("--out", required=True, help="folder for weights, state and curve; a state there is resumed")
    parser.add_argument("--plan", choices=sorted(PLANS), default="device")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--steps", type=int, help="plan by number of steps, not by seconds")
    parser.add_argument("--start", help="weights to start from, as npz")
    parser.add_argument("--rate", type=float, default=1.0, help="largest learning rate, as a share of the usual one")
    parser.add_argument("--sizes", default="{}", help="sizes of the model, as JSON")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure-every", type=float, default=20)
    parser.add_argument("--keep-every", type=float, default=30)
    parser.add_argument("--eager", action="store_true", help="no CUDA graphs")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    Training(parsed()).run()
