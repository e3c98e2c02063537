"""Networks for images trained side by side, each step of each one CUDA graph.

A step of a small network on images of 32 x 32 is hundreds of kernels of a few microseconds; the host takes longer to
launch them than the GPU to run them. Here a step is recorded once and replayed; a replay takes the host microseconds,
and the replays of several networks run at the same time. Images, order, crops, noise and initial weights are those of
`mgce_lab.images.lightning.train_images`, and so are the weights but for rounding (`tests/test_gpu_benchmarks.py`).

    python -m mgce_lab.studies.gpu.replay --out FOLDER --group "fashion_mnist,imagenet,32-true,150,0,0.4:ce+mgce;0:ce"
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mgce._machine import describe
from mgce._seeds import derived_seed
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.data.sources import DataSource
from mgce_lab.engine.place import Place
from mgce_lab.engine.specification import document
from mgce_lab.engine.store import Run, Runs
from mgce_lab.images.image_classifier import best_epoch, make_network
from mgce_lab.images.image_data import Preprocessing, noisy_split, standardizing, training_batches
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.images.lightning import ImageFit
from mgce_lab.paper.image_settings import PAPER
from mgce_lab.paper.images import ImageRun
from mgce_lab.seeds import derived_generator
from mgce_lab.training.member_losses import MemberLoss

# Calls of a kind before one is recorded: in the first the optimizer makes its memory, and cuDNN chooses its algorithms.
EAGER = 2
LEAST = 20.0  # seconds: with less, a group of networks is not begun
EVALUATED_AT_ONCE = 1000  # images


class Network:
    """A network in training on one device.

    Args:
        settings: how to train; without `jitter` and `rotation`, whose random numbers are not prepared here.
        loss: of the network.
        dataset: images with the labels before noise is made.
        noise_rate: share of the training and validation labels that are made wrong.
        seed: of everything random.
        device: a GPU, where steps are recorded and replayed; or the CPU, where each is computed anew.
        precision: "32-true" or "bf16-mixed", as `mgce-lab reproduce` has it.
    """

    def __init__(
        self,
        settings: ImageSettings,
        loss: MemberLoss,
        dataset: ImageDataset,
        *,
        noise_rate: float,
        seed: int,
        device: torch.device,
        precision: str,
    ) -> None:
        if settings.jitter or settings.rotation:
            raise ValueError("Expected images that keep their colours and angle, but got `jitter` or `rotation`.")
        parts = noisy_split(dataset, noise_rate=noise_rate, validation_size=settings.validation_size, seed=seed)
        mean, std = standardizing(parts.train, settings, seed, 0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "weights"))
            network = make_network(settings, len(dataset.classes), len(mean))
        self.settings, self.seed, self.device, self.mixed = settings, seed, device, precision == "bf16-mixed"
        self.preprocessing = Preprocessing(mean, settings, std).to(device)
        self.network = nn.utils.convert_conv2d_weight_memory_format(network.to(device), torch.channels_last)
        self.criterion = loss.module().to(device)
        self.parameters = list(self.network.parameters())
        self.optimizer = torch.optim.SGD(
            self.parameters,
            settings.lr,
            settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=settings.nesterov,
        )
        self.train, self.test = self._moved(parts.train), self._moved(parts.test)
        self.validation = self._moved(parts.validation)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        # What a recorded step reads and writes stays where it is: the plan of an epoch, how far it has come, and sums.
        full, self.rest = divmod(len(self.train[0]), settings.batch_size)
        self.plan = torch.zeros(full, 4, settings.batch_size, dtype=torch.int64, device=device)
        self.last = torch.zeros(1, 4, self.rest, dtype=torch.int64, device=device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.zero = torch.zeros_like(self.number)
        self.total = torch.zeros((), device=device)
        self.best = torch.full((), -1.0, device=device)
        self.logits = torch.zeros(len(self.test[0]), len(dataset.classes), device=device)
        self.found = {"test_accuracy": torch.zeros((), device=device)}
        self.found |= {"validation_accuracy": torch.zeros((), device=device)}
        self.history: list[Tensor] = []
        self.calls: dict[str, Callable[[], None]] = {}
        self.eager: dict[str, int] = {}  # calls of each kind that were not replayed
        self.lr = settings.lr

    def _moved(self, part: Any) -> tuple[Tensor, Tensor]:
        assert isinstance(part, Images)
        return torch.from_numpy(part.images).to(self.device), torch.from_numpy(part.target).to(self.device)

    def entered(self) -> AbstractContextManager[Any]:
        """Run the `with` block on the CUDA stream of this network."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def begin(self, epoch: int, plan: tuple[Tensor, Tensor]) -> None:
        """Take the order and the crops of an epoch, and its learning rate."""
        with self.entered():
            self.plan.copy_(plan[0])
            self.last.copy_(plan[1])
            self.number.zero_()
            self.total.zero_()
        if (lr := self.settings.lr_at(epoch)) != self.lr:
            self.lr, self.calls = lr, {}  # a recorded step has its learning rate in it
            for group in self.optimizer.param_groups:
                group["lr"] = lr

    def step(self) -> None:
        """Train on the next batch of the epoch."""
        self._call("step", lambda: self._step(self.plan, self.number))

    def end(self) -> None:
        """Train on the batch that is not full, and measure; nothing waits for the device."""
        if self.rest:
            self._call("rest", lambda: self._step(self.last, self.zero))
        self._call("measure", self._measure)
        with self.entered():
            rows = len(self.train[0])
            penalty = self.settings.l1 * sum(parameter.detach().abs().sum() for parameter in self.penalised)
            numbers = [self.total / rows + penalty, self.found["test_accuracy"], self.found["validation_accuracy"]]
            self.history.append(torch.stack([torch.as_tensor(number) for number in numbers]))

    @property
    def penalised(self) -> list[Tensor]:
        """The weights whose L1 norm is penalised."""
        return [self.network.fc.weight] if self.settings.l1_on == "last" else list(self.parameters)

    def curves(self) -> dict[str, list[float]]:
        """Return the curves of all epochs."""
        names = ("objective", "test_accuracy", "validation_accuracy")
        columns = torch.stack(self.history).double().cpu().T.tolist()
        return dict(zip(names, columns, strict=True))

    def _call(self, name: str, call: Callable[[], None]) -> None:
        """Compute, or replay what was recorded; the first calls of each kind are computed."""
        with self.entered():
            if self.stream is None or self.eager.setdefault(name, 0) < EAGER:
                self.eager[name] = self.eager.get(name, 0) + 1
                call()
                return
            if name not in self.calls:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=self.stream):
                    call()
                self.calls[name] = graph.replay
            self.calls[name]()

    def _step(self, plan: Tensor, number: Tensor) -> None:
        row, *places = plan.index_select(0, number)[0]
        self.network.train()
        images, target = self.train[0][row], self.train[1][row]
        with torch.autocast(self.device.type, torch.bfloat16, self.mixed, cache_enabled=False):
            logits = self.network(self.preprocessing.placed(images, torch.stack(places)))
        loss = self.criterion(logits.float(), target)
        self.total += loss.detach() * len(row)
        for parameter, gradient in zip(self.parameters, torch.autograd.grad(loss, self.parameters), strict=True):
            parameter.grad = gradient
        with torch.no_grad():
            gradients = [parameter.grad for parameter in self.penalised]
            torch._foreach_add_(gradients, torch._foreach_sign(self.penalised), alpha=self.settings.l1)
        if self.settings.max_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.settings.max_norm)
        self.optimizer.step()
        number += 1

    @torch.no_grad()
    def _measure(self) -> None:
        self.network.eval()
        logits = self._logits(self.test[0])
        self.found["test_accuracy"].copy_(_accuracy(logits, self.test[1]))
        accuracy = _accuracy(self._logits(self.validation[0]), self.validation[1])
        self.found["validation_accuracy"].copy_(accuracy)
        self.logits.copy_(torch.where(accuracy > self.best, logits, self.logits))
        self.best.copy_(torch.maximum(self.best, accuracy))
        self.zero.zero_()

    def _logits(self, images: Tensor) -> Tensor:
        return torch.cat([self.network(self.preprocessing(part)).float() for part in images.split(EVALUATED_AT_ONCE)])


def _accuracy(logits: Tensor, target: Tensor) -> Tensor:
    return (logits.argmax(1) == target).float().mean()


def epoch_plan(network: Network, epoch: int) -> tuple[Tensor, Tensor]:
    """Return for each step of an epoch the rows, tops, lefts and flips, (steps, 4, batch_size), and those of the rest.

    They are the random numbers of `ImageClassifier.training_step`, drawn ahead.
    """
    rows, seed, batch_size = len(network.train[0]), network.seed, network.settings.batch_size
    batches = training_batches(rows, batch_size, seed, 0, 1)
    batches.sampler.set_epoch(epoch)
    steps = []
    for number, batch in enumerate(batches):
        generator = derived_generator(seed, "changes", epoch, number, 0)
        steps.append(torch.cat([torch.tensor(batch)[None], network.preprocessing.places(len(batch), generator)]))
    rest = steps.pop()[None] if network.rest else network.last.cpu()
    return torch.stack(steps), rest


def train(networks: Sequence[Network], epochs: int, seconds: float, on_epoch: Callable[[int], None]) -> int:
    """Train networks on images of one size side by side, and tell how many epochs were done.

    Args:
        networks: on one device, of one seed and as many rows.
        epochs: at most so many.
        seconds: no epoch is begun that would end later, by the longest of those before.
        on_epoch: called with the number of epochs done.
    """
    if networks[0].stream is not None:
        torch.cuda.synchronize()  # the networks were made on another stream than their own
    start, longest = time.monotonic(), 0.0
    with ThreadPoolExecutor(1) as ahead:
        plan = ahead.submit(epoch_plan, networks[0], 0)
        for epoch in range(epochs):
            before = time.monotonic()
            if before - start + longest > seconds:
                return epoch
            for network in networks:
                network.begin(epoch, plan.result())
            plan = ahead.submit(epoch_plan, networks[0], epoch + 1)
            for _, network in itertools.product(range(len(networks[0].plan)), networks):
                network.step()
            for network in networks:
                network.end()
            if networks[0].stream is not None:
                torch.cuda.synchronize()
            if epoch > EAGER:  # the first ones record
                longest = max(longest, time.monotonic() - before)
            on_epoch(epoch + 1)
    return epochs


def run_group(
    runs: Sequence[ImageRun], place: Place, precision: str, seconds: float, on_epoch: Callable[[int], None]
) -> list[Run]:
    """Train the networks of runs that differ in loss and noise; their records are of as many epochs as were done.

    The learning rate of the runs is one for all epochs: training for fewer epochs is then the beginning of training for
    more.
    """
    start = time.monotonic()
    networks, tasks = [], [run.task(place) for run in runs]
    for run, (dataset, loss) in zip(runs, tasks, strict=True):
        if run.milestones or run.schedule != "steps":
            raise ValueError("Expected one learning rate for all epochs, but got milestones or a schedule.")
        settings = ImageSettings(**{field.name: getattr(run, field.name) for field in fields(ImageSettings)})
        networks.append(
            Network(
                settings,
                loss,
                dataset,
                noise_rate=run.noise_rate,
                seed=run.seed,
                device=torch.device(place.device),
                precision=precision,
            )
        )
    done = train(networks, runs[0].epochs, seconds - (time.monotonic() - start), on_epoch)
    seconds = round((time.monotonic() - start) / len(runs), 1)
    finished = []
    for run, network, (dataset, loss) in zip(runs, networks, tasks, strict=True):
        curves = network.curves()
        fit = ImageFit(best_epoch(curves), curves, Path())
        records = run.records(loss, fit, dataset, network.logits.cpu(), precision)
        machine = {**describe(), "device": place.device, "seconds": seconds, "data": dataset.checksum()}
        finished.append(
            Run(document(replace(run, epochs=done)), records, {**machine, "trained": f"{len(runs)} at once"})
        )
    return finished


def runs_of(text: str) -> tuple[list[ImageRun], str]:
    """Read a group, `DATASET,STEM,PRECISION,EPOCHS,SEED,RATE:METHOD+METHOD@BETA;RATE:...`."""
    dataset, stem, precision, epochs, seed, members = text.split(",")
    settings = {field.name: getattr(PAPER[dataset], field.name) for field in fields(ImageSettings)}
    settings |= {"stem": stem, "epochs": int(epochs), "dataset": dataset, "seed": int(seed)}
    runs = []
    for part in members.split(";"):
        rate, methods = part.split(":")
        for method in methods.split("+"):
            name, _, beta = method.partition("@")
            betas = {"ce": math.inf, "mgce": 1.4, "gce": 1.4}
            given = {"method": name, "beta": float(beta) if beta else betas[name], "noise_rate": float(rate)}
            runs.append(ImageRun(**{**settings, **given}))
    return runs, precision


def main() -> None:
    """Train groups of networks one after the other, and write the records of each as it ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=400.0, help="time for all groups")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--group", action="append", required=True, help=runs_of.__doc__)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    named = os.environ.get("MGCE_DATA_DIR")
    place = Place(DataSource(Path(named) if named else None), options.device)
    end, store = time.monotonic() + options.seconds, Runs(options.out)
    for group in options.group:
        runs, precision = runs_of(group)
        begun = time.monotonic()
        if end - begun < LEAST:
            print(f"{group}: no time", flush=True)
            continue

        def on_epoch(done: int, begun: float = begun) -> None:
            if done <= 3 or done % 10 == 0:
                print(f"epoch {done} after {time.monotonic() - begun:.1f} s", flush=True)

        for run in run_group(runs, place, precision, end - time.monotonic(), on_epoch):
            store.write(run)
            record = run.records[0]
            shown = ("method", "noise_rate", "best_epoch", "validation_accuracy", "accuracy", "ece_h", "ece_p")
            print(
                json.dumps({**{n: record[n] for n in shown}, "last": record["test_accuracy_by_epoch"][-1]}), flush=True
            )
        store.pack()
        print(f"{group}: {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
