import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
from torchmetrics import MeanMetric

pytest.importorskip("lightning")
pytest.importorskip("tensorboard")

from images.tiny_images import SETTINGS, tiny_images
from lightning.pytorch import Trainer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mgce import MGCELoss, functional, robust_loss
from mgce.desk.files.images import ImageFiles
from mgce.metrics.evaluation import evaluate
from mgce.noise import symmetric
from mgce_lab.data import load_images
from mgce_lab.data.image_sets import Images
from mgce_lab.images.image_classifier import ImageClassifier, WeightedMean
from mgce_lab.images.image_data import pixel_mean, training_batches
from mgce_lab.images.lightning import Machine, train_images
from mgce_lab.images.resnet import ResNet
from mgce_lab.paper.image_settings import PAPER
from mgce_lab.seeds import derived_generator
from mgce_lab.training.member_losses import MemberLoss

# PyTorch warns of what Lightning calls.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
DATASET = tiny_images()


def train(out, settings=SETTINGS, dataset=DATASET, *, precision="32-true", fast=False, **options):
    machine = Machine("cpu", precision=precision, compiled=fast, channels_last=fast)
    return train_images(settings, dataset, out, machine=machine, **options)


def load(path):
    return torch.load(path, weights_only=True)


@contextmanager
def steps(seen):
    """Collect what a function gives of the optimizer after each step, when its gradients are those it stepped along."""

    def look(optimizer, args, kwargs):
        (group,) = optimizer.param_groups
        seen.append(
            (torch.linalg.vector_norm(torch.cat([p.grad.double().flatten() for p in group["params"]])), group["lr"])
        )

    handle = register_optimizer_step_post_hook(look)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def float64_by_default():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "loss",
    [
        *(MemberLoss("mgce", 1.4), MemberLoss("gce", 1.4)),
        *(pytest.param(MemberLoss("mgce", beta), marks=pytest.mark.nightly) for beta in (1.0, float("inf"))),
    ],
)
def test_learns_images_that_can_be_told_apart(tmp_path, loss):
    fit = train(tmp_path, loss=loss)
    assert fit.curves["test_accuracy"][-1] > 0.9  # 1/3 by chance
    assert fit.curves["objective"][-1] < fit.curves["objective"][0]
    assert {len(curve) for curve in fit.curves.values()} == {SETTINGS.epochs}


def test_steps_are_those_of_plain_sgd(tmp_path):
    settings = replace(SETTINGS, validation_size=0.0, epochs=3, milestones=(2,), l1=0.01, max_norm=0.5)
    # In double precision: a rounding error that turns the sign of a weight near 0 turns its L1 gradient too.
    train(tmp_path, settings, precision="64-true")
    part = DATASET.train
    model = ImageClassifier(settings, MemberLoss("mgce", 1.4), num_classes=3, mean=pixel_mean(part, 0, 0)).double()
    rows, weights = training_batches(len(part), 16, 0, 0, 1), list(model.network.parameters())
    velocities = [torch.zeros_like(weight) for weight in weights]
    for epoch, lr in enumerate((0.05, 0.05, 0.005)):
        rows.sampler.set_epoch(epoch)
        for step, batch in enumerate(rows):
            images = torch.from_numpy(part.images[batch])
            with float64_by_default():  # as Lightning takes its steps; the draws depend on it
                changed = model.preprocessing.augmented(images, derived_generator(0, "changes", epoch, step, 0))
            target = torch.from_numpy(part.target[batch])
            loss = functional.mgce_loss(model.network(changed).float(), target, beta=1.4)
            grads = torch.autograd.grad(loss + 0.01 * sum(weight.abs().sum() for weight in weights), weights)
            norm = sum((grad**2).sum() for grad in grads).sqrt()
            for weight, velocity, grad in zip(weights, velocities, grads, strict=True):
                velocity.mul_(0.9).add_(grad * min(1, 0.5 / norm))
                weight.data -= lr * velocity
    found = load(tmp_path / "last.ckpt")["state_dict"]
    for name, value in model.network.state_dict().items():
        torch.testing.assert_close(found[f"network.{name}"], value, rtol=1e-5, atol=1e-6)


def test_weight_decay_nesterov_and_the_loss_of_a_stage_are_those_of_plain_sgd(tmp_path):
    settings = replace(
        SETTINGS, validation_size=0.0, epochs=2, l1=0.0, weight_decay=0.1, nesterov=True, milestones=(), max_norm=1e9
    )
    stages = {0: MemberLoss("mgce", 5.0), 1: MemberLoss("nce+rce", options={"weights": (1.0, 0.1)})}
    train(tmp_path, settings, precision="64-true", loss=stages)
    part = DATASET.train
    model = ImageClassifier(settings, stages, num_classes=3, mean=pixel_mean(part, 0, 0)).double()
    optimizer = torch.optim.SGD(model.network.parameters(), 0.05, 0.9, weight_decay=0.1, nesterov=True)
    rows = training_batches(len(part), 16, 0, 0, 1)
    for epoch, loss in enumerate((MGCELoss(beta=5.0), robust_loss("nce+rce", weights=(1.0, 0.1)))):
        rows.sampler.set_epoch(epoch)
        for step, batch in enumerate(rows):
            with float64_by_default():
                generator = derived_generator(0, "changes", epoch, step, 0)
                changed = model.preprocessing.augmented(torch.from_numpy(part.images[batch]), generator)
            optimizer.zero_grad()
            loss(model.network(changed).float(), torch.from_numpy(part.target[batch])).backward()
            optimizer.step()
    found = load(tmp_path / "last.ckpt")["state_dict"]
    for name, value in model.network.state_dict().items():
        torch.testing.assert_close(found[f"network.{name}"], value, rtol=1e-5, atol=1e-6)


def test_validation_labels_are_noisy_and_test_labels_are_clean(tmp_path):
    settings = replace(SETTINGS, validation_size=0.4, epochs=6, lr=0.02, milestones=(4,))
    # After so few epochs a third of all seeds has not learnt every class; seed 1 has.
    metrics = train(tmp_path, settings, tiny_images(480), noise_rate=0.4, seed=1).metrics
    assert metrics["test_accuracy"] > 0.9
    assert abs(metrics["validation_accuracy"] - 0.6) < 0.11  # 192 labels: three standard deviations


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss",
    [
        *(pytest.param(MemberLoss(name, 1.4), marks=pytest.mark.nightly) for name in ("mgce", "gce")),
        MemberLoss("mgce+forward", 1.4, {"transition": symmetric(3, 0.2).tolist()}),
    ],
)
def test_weights_kept_are_those_of_the_epoch_reported(tmp_path, loss):
    dataset, settings = tiny_images(480), replace(SETTINGS, epochs=6, milestones=(3,))
    fit = train(tmp_path, settings, dataset, loss=loss, noise_rate=0.2)
    assert fit.best_epoch == int(np.argmax(fit.curves["validation_accuracy"])) < 5
    kept = load(fit.checkpoint)
    assert kept["epoch"] == fit.best_epoch
    model = ImageClassifier(SETTINGS, loss, num_classes=3, mean=torch.zeros(3, 8, 8)).eval()
    model.load_state_dict({name: value for name, value in kept["state_dict"].items()})
    with torch.no_grad():
        logits = model(torch.from_numpy(dataset.test.images))
    measures = evaluate(logits, torch.from_numpy(dataset.test.target), loss.beta, link=loss.link())
    for name in ("ece_h", "sce_h", "ece_p", "sce_p"):
        assert fit.metrics[name] == pytest.approx(measures[name], abs=1e-6)
    assert fit.metrics["test_accuracy"] == pytest.approx(measures["accuracy"])


def test_last_epoch_is_kept_without_validation(tmp_path):
    fit = train(tmp_path, replace(SETTINGS, validation_size=0.0, epochs=2))
    assert "validation_accuracy" not in fit.curves
    assert fit.best_epoch == load(fit.checkpoint)["epoch"] == 1


@pytest.mark.parametrize("l1", [0.0, 100.0])
def test_gradient_is_clipped_with_its_penalty(tmp_path, l1):
    found, free = [], []
    with steps(found):
        train(tmp_path / "clipped", replace(SETTINGS, epochs=1, max_norm=0.05, l1=l1))
    with steps(free):
        train(tmp_path / "free", replace(SETTINGS, epochs=1, max_norm=1e9, l1=l1))
    assert len(found) == len(free) == 7  # 108 images in batches of 16
    assert min(norm for norm, _ in free) > 0.05
    assert max(norm for norm, _ in found) <= 0.05 * (1 + 1e-5)
    assert min(norm for norm, _ in found) >= 0.05 * (1 - 1e-4)


def test_learning_rate_follows_its_milestones(tmp_path):
    found = []
    with steps(found):
        train(tmp_path, replace(SETTINGS, epochs=3, milestones=(1, 2)))
    assert [lr for _, lr in found[::7]] == pytest.approx([0.05, 0.005, 0.0005])


@pytest.mark.parametrize("l1_on", ["last", "all"])
def test_objective_is_the_mean_loss_and_the_penalty(tmp_path, l1_on):
    losses, sizes = [], []

    def look(module, args, output):
        if isinstance(module, MGCELoss):
            reference = functional.mgce_loss(args[0].double(), args[1], beta=1.4, backend="reference")
            losses.append(reference.item())
            sizes.append(len(args[1]))

    handle = register_module_forward_hook(look)
    try:
        fit = train(tmp_path, replace(SETTINGS, epochs=1, l1=0.01, l1_on=l1_on))
    finally:
        handle.remove()
    weights = {k: v for k, v in load(tmp_path / "last.ckpt")["state_dict"].items() if k.startswith("network.")}
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    penalised = {
        "all": [value for name, value in weights.items() if not name.endswith(statistics)],
        "last": [weights["network.fc.weight"]],
    }
    norm = sum(value.abs().sum().item() for value in penalised[l1_on])
    assert sum(sizes) == 108
    assert fit.curves["objective"][0] == pytest.approx(np.average(losses, weights=sizes) + 0.01 * norm, rel=1e-5)


class StopError(Exception):
    pass


def stop_after(epochs):
    def on_epoch(done):
        if done == epochs:
            raise StopError

    return on_epoch


def logged(out):
    """Return the newest logs of a run, as bytes and as numbers."""
    csv = max((out / "csv").iterdir()) / "metrics.csv"
    events = EventAccumulator(str(max((out / "tensorboard").iterdir()))).Reload()
    scalars = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    return csv.read_bytes(), scalars


def test_a_log_that_cannot_be_written_is_one_error(tmp_path, monkeypatch):
    def full(self, data):
        raise OSError(28, "No space left on device")

    shown = []
    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter.write", full)
    monkeypatch.setattr(threading, "excepthook", before := shown.append)
    with pytest.raises(OSError, match="No space left"):
        train(tmp_path, replace(SETTINGS, epochs=2))
    assert shown == [] and threading.excepthook == before


def test_logs_hold_the_curves(tmp_path):
    fit = train(tmp_path, replace(SETTINGS, epochs=2))
    table, scalars = logged(tmp_path)
    header, *rows = [line.split(",") for line in table.decode().splitlines()]
    for name, curve in fit.curves.items():
        assert [float(row[header.index(name)]) for row in rows] == curve
        assert scalars[name] == [(step, pytest.approx(value)) for step, value in enumerate(curve)]


TRIMMED = MemberLoss("mgce+trim", 1.4, {"trim": 0.3, "num_classes": 3})
CORRECTED = MemberLoss("ce+forward", options={"transition": symmetric(3, 0.2)})  # a tensor


@pytest.mark.slow
@pytest.mark.parametrize(
    "epochs, more",
    [
        pytest.param(1, {}, marks=pytest.mark.nightly),
        (2, {}),
        pytest.param(3, {}, marks=pytest.mark.nightly),
        pytest.param(2, {"loss": TRIMMED}, marks=pytest.mark.nightly),
        (1, {"loss": CORRECTED}),
        (3, {"loss": {0: MemberLoss("ce"), 1: TRIMMED}}),
    ],
)
def test_resumed_training_is_that_without_a_stop(tmp_path, epochs, more):
    options = {"noise_rate": 0.2, "seed": 3, **more}
    settings = replace(SETTINGS, jitter=0.2)
    whole = train(tmp_path / "whole", settings, **options)
    with pytest.raises(StopError):
        train(tmp_path / "parts", settings, on_epoch=stop_after(epochs), **options)
    done = []
    torch.manual_seed(99)
    resumed = train(tmp_path / "parts", settings, resume=True, on_epoch=done.append, **options)
    assert done == list(range(epochs + 1, 5))
    assert (resumed.curves, resumed.best_epoch) == (whole.curves, whole.best_epoch)
    for name in ("best.ckpt", "last.ckpt"):
        want, found = load(tmp_path / "whole" / name), load(tmp_path / "parts" / name)
        assert found["epoch"] == want["epoch"]
        assert all(torch.equal(found["state_dict"][key], value) for key, value in want["state_dict"].items())
    for key, state in want["optimizer_states"][0]["state"].items():
        momentum = found["optimizer_states"][0]["state"][key]["momentum_buffer"]
        assert torch.equal(momentum, state["momentum_buffer"])
    assert logged(tmp_path / "parts") == logged(tmp_path / "whole")


def test_kill_while_writing_leaves_the_checkpoints_before(tmp_path, monkeypatch):
    want = train(tmp_path / "whole", replace(SETTINGS, epochs=3))
    save = Trainer.save_checkpoint

    def damage(trainer, path, *args, **options):
        if trainer.current_epoch == 2:
            Path(path).write_bytes(b"half of")
            raise StopError
        save(trainer, path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save_checkpoint", damage)
        with pytest.raises(StopError):
            train(tmp_path / "parts", replace(SETTINGS, epochs=3))
    resumed = train(tmp_path / "parts", replace(SETTINGS, epochs=3), resume=True)
    assert (resumed.curves, resumed.best_epoch) == (want.curves, want.best_epoch)


def test_interrupt_reaches_the_caller(tmp_path):
    def interrupt(done):
        raise KeyboardInterrupt

    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, on_epoch=interrupt)
    finally:
        signal.signal(signal.SIGINT, handler)  # Lightning ignores it from then on
    assert load(tmp_path / "last.ckpt")["epoch"] == 0


def test_finished_training_is_resumed_to_the_same_end(tmp_path):
    first = train(tmp_path, replace(SETTINGS, epochs=1))
    assert train(tmp_path, replace(SETTINGS, epochs=1), resume=True) == first


def test_checkpoint_of_other_settings_is_refused(tmp_path):
    train(tmp_path, replace(SETTINGS, epochs=1))
    with pytest.raises(ValueError, match="Expected `lr` to be 0.05 as in the checkpoint, or no `resume`, but got 0.1."):
        train(tmp_path, replace(SETTINGS, epochs=1, lr=0.1), resume=True)
    with pytest.raises(ValueError, match="Expected `seed` to be 0 as in the checkpoint"):
        train(tmp_path, replace(SETTINGS, epochs=1), seed=1, resume=True)
    with pytest.raises(ValueError, match="Expected `precision` to be '32-true' as in the checkpoint"):
        train(tmp_path, replace(SETTINGS, epochs=1), precision="bf16-mixed", resume=True)


def test_global_random_state_is_neither_read_nor_changed(tmp_path):
    settings = replace(SETTINGS, epochs=1)
    state = torch.get_rng_state()
    first = train(tmp_path / "first", settings)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert train(tmp_path / "second", settings).curves == first.curves
    assert train(tmp_path / "third", settings, seed=1).curves != first.curves


def test_mixed_precision(tmp_path):
    dtypes = set()

    def look(module, args, output):
        if isinstance(module, torch.nn.Conv2d):
            dtypes.add((module.training, output.dtype))
        if isinstance(module, ResNet):
            assert output.dtype == torch.float32

    handle = register_module_forward_hook(look)
    try:
        fit = train(tmp_path, precision="bf16-mixed")
    finally:
        handle.remove()
    assert dtypes == {(True, torch.bfloat16), (False, torch.float32)}
    assert fit.curves["test_accuracy"][-1] > 0.9
    assert load(fit.checkpoint)["state_dict"]["network.conv1.weight"].dtype == torch.float32


def test_a_network_to_compile_has_its_channels_last_and_is_the_same(tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module: compiled.append(module))  # it takes a minute
    # In double precision: the order of a sum changes little, and oneDNN is not used. With AVX2 it writes past an array
    # in the gradient of a 1 x 1 convolution of stride 2 of fewer than 8 channels, side by side (its issue 6035).
    settings = replace(SETTINGS, epochs=2)
    plain, fit = (
        train(tmp_path / name, settings, precision="64-true", fast=name == "fast") for name in ("plain", "fast")
    )
    (network,) = compiled
    assert network.conv1.weight.is_contiguous(memory_format=torch.channels_last)
    for name, curve in plain.curves.items():
        np.testing.assert_allclose(fit.curves[name], curve, rtol=1e-5, atol=1e-6, err_msg=name)
    weights, others = (load(result.checkpoint)["state_dict"] for result in (fit, plain))
    assert weights.keys() == others.keys()
    for name, value in others.items():
        torch.testing.assert_close(weights[name], value, rtol=1e-5, atol=1e-6)


def test_the_objective_is_the_mean_over_rows():
    mean, plain = WeightedMean(), MeanMetric()
    for value, weight in ((0.1, 16), (0.7, 16), (0.3, 5)):
        mean.update(torch.tensor(value), weight)
        plain.update(torch.tensor(value), weight)
    assert mean.compute() == plain.compute()
    mean.update(torch.tensor(torch.nan), 1)
    assert mean.compute().isnan()


def test_images_in_files(tmp_path):
    image = pytest.importorskip("PIL.Image")

    def written(part, name, scale):
        """Write images larger than they are; give those, and in memory the images that Pillow makes of them again."""
        paths = tuple(tmp_path / f"{name}{number}.png" for number in range(len(part)))
        again = np.empty_like(part.images)
        for number, (path, array) in enumerate(zip(paths, part.images, strict=True)):
            large = image.fromarray(array.transpose(1, 2, 0)).resize((8 * scale, 8 * scale), resample=0)
            large.save(path)
            again[number] = np.asarray(large.resize((8, 8), resample=image.Resampling.BILINEAR)).transpose(2, 0, 1)
        return ImageFiles(paths, part.target), replace(part, images=again)

    parts = written(DATASET.train, "train", 2), written(DATASET.test, "test", 3)
    files, memory = (replace(DATASET, train=training, test=test) for training, test in zip(*parts, strict=True))
    settings = replace(SETTINGS, size=8, epochs=2)
    from_files = train(tmp_path / "files", settings, files)
    from_memory = train(tmp_path / "memory", replace(settings, size=None), memory)
    assert from_files.curves == from_memory.curves


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="Expected `noise_rate` to be a float in"):
        train(tmp_path, noise_rate=1.5)
    with pytest.raises(ValueError, match="Expected `seed` to be an integer of at least 0"):
        train(tmp_path, seed=-1)


@pytest.mark.nightly
def test_two_processes_end_with_the_same_weights(tmp_path):
    worker = Path(__file__).with_name("ddp_worker.py")
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([*launch, worker, tmp_path], check=True, env=environment, timeout=300)
    first, second = (load(tmp_path / f"rank{rank}.pt") for rank in range(2))
    assert first["curves"] == second["curves"]
    assert first["curves"]["test_accuracy"][-1] > 0.9
    assert first["steps"] == second["steps"] == [8] * 6 + [6]  # of 108 images, 54 on each device
    assert set(first["weights"]) == set(second["weights"])
    assert all(torch.equal(second["weights"][name], value) for name, value in first["weights"].items())
    kept = load(tmp_path / "last.ckpt")["state_dict"]
    assert all(torch.equal(kept[f"network.{name}"], value) for name, value in first["weights"].items())


@pytest.mark.nightly
def test_fashion_mnist(tmp_path):
    data_dir = Path(os.environ.get("MGCE_DATA_DIR", Path(__file__).parents[3] / ".." / "shared" / "data"))
    if not (data_dir / "FashionMNIST").is_dir():
        pytest.skip("no Fashion-MNIST in MGCE_DATA_DIR")
    full = load_images("fashion_mnist", data_dir=data_dir)
    some = [Images(part.images[:n], part.target[:n]) for part, n in ((full.train, 600), (full.test, 300))]
    settings = replace(PAPER["fashion_mnist"], width=8, epochs=8, batch_size=32)
    fit = train(tmp_path, settings, replace(full, train=some[0], test=some[1]), noise_rate=0.2)
    assert fit.curves["test_accuracy"][-1] > 0.5  # 0.1 by chance
    assert load(tmp_path / "last.ckpt")["specification"]["epochs"] == asdict(settings)["epochs"]
