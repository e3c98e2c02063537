import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hard_rows import hard_rows
from mgce.functional import mgce_loss, vocab_parallel_mgce_loss

inf = math.inf


def cases():
    """Yield problems that between them meet every option, and shards of every proportion."""
    generator = torch.Generator().manual_seed(0)
    for beta, reduction, label_smoothing in itertools.product(
        (1.0, 1.4, 5.0, inf), ("none", "mean", "sum"), (0.0, 0.2)
    ):
        for k, split in ((11, 3), (40, 39), (1500, 700)):
            logits = torch.randn(6, k, generator=generator, dtype=torch.float64) * 2
            target = torch.randint(k, (6,), generator=generator)
            target[0], target[1], target[2] = 0, k - 1, -100  # in one shard, in the other, in none
            if label_smoothing == 0:
                logits[3, target[3] - 1] = -inf
                logits[4, :split] = -inf  # all of a shard
                target[4] = k - 1
            keywords = {"beta": beta, "reduction": reduction, "label_smoothing": label_smoothing}
            yield {"logits": logits, "target": target, "split": split, "keywords": keywords}
    for beta, dtype in itertools.product((2.0, 5.0, inf), (torch.float32, torch.float64)):
        logits = hard_rows(100, beta, dtype)
        target = torch.arange(len(logits))
        target[-1] = 0  # the last row masks the odd classes
        yield {"logits": logits, "target": target, "split": 33, "keywords": {"beta": beta, "reduction": "none"}}
    for dtype in (torch.float16, torch.bfloat16):
        logits = torch.randn(6, 30, generator=generator).to(dtype)
        yield {"logits": logits, "target": torch.arange(6), "split": 20, "keywords": {"ignore_index": 2}}


@pytest.mark.slow
def test_equals_the_loss_of_one_process(tmp_path):
    problems = list(cases())
    torch.save(problems, tmp_path / "cases.pt")
    worker = Path(__file__).with_name("vocab_parallel_worker.py")
    processes = [subprocess.Popen([sys.executable, worker, str(rank), tmp_path]) for rank in range(2)]
    try:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    found = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
    for problem, left, right in zip(problems, *found, strict=True):
        logits = problem["logits"].requires_grad_()
        expected = mgce_loss(logits, problem["target"], backend="torch", **problem["keywords"])
        (gradient,) = torch.autograd.grad(expected.sum(), logits)
        torch.testing.assert_close(left["loss"], right["loss"], rtol=0, atol=0)
        eps = torch.finfo(expected.dtype).eps
        torch.testing.assert_close(left["loss"], expected, rtol=64 * eps, atol=64 * eps)
        together = torch.cat([left["grad"], right["grad"]], 1)
        torch.testing.assert_close(together, gradient, rtol=0, atol=256 * eps)


@pytest.fixture
def group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield torch.distributed.group.WORLD
    torch.distributed.destroy_process_group()


def test_a_group_of_one(group):
    logits, target = torch.randn(5, 7, requires_grad=True), torch.tensor([0, 6, -100, 3, 3])
    keywords = {"num_classes": 7, "vocab_start": 0, "group": group, "beta": 2.0}
    loss = vocab_parallel_mgce_loss(logits, target, **keywords)
    torch.testing.assert_close(loss, mgce_loss(logits, target, beta=2.0))
    (gradient,) = torch.autograd.grad(3 * loss, logits, retain_graph=True)
    torch.testing.assert_close(gradient, 3 * torch.autograd.grad(mgce_loss(logits, target, beta=2.0), logits)[0])
    for label_smoothing in (0.0, 0.1):
        nothing = vocab_parallel_mgce_loss(logits, torch.full((5,), -100), label_smoothing=label_smoothing, **keywords)
        assert nothing.isnan() and (torch.autograd.grad(nothing, logits)[0] == 0).all()  # as of cross-entropy
    with torch.no_grad():
        logits[1, 1] = math.nan
    each = vocab_parallel_mgce_loss(logits, target, reduction="none", **keywords)
    assert each.isnan().tolist() == [False, True, False, False, False]
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(vocab_parallel_mgce_loss(logits, target, **keywords), logits, create_graph=True)


@pytest.mark.parametrize(
    "error, match, changes",
    [
        (TypeError, "Expected `beta` to be a float", {"beta": torch.tensor(1.4)}),
        (ValueError, r"Expected `beta` to be a float in \[1, inf\]", {"beta": 0.5}),
        (ValueError, "Expected `reduction` to be one of", {"reduction": "avg"}),
        (RuntimeError, "Expected `label_smoothing`", {"label_smoothing": 2.0}),
        (
            RuntimeError,
            r"Expected `local_logits` to be of shape \(N, k_local\)",
            {"local_logits": torch.randn(2, 3, 4)},
        ),
        (RuntimeError, "Expected `local_logits`.*at least one class", {"local_logits": torch.randn(2, 0)}),
        (RuntimeError, "Expected `local_logits` to be a floating-point", {"local_logits": torch.ones(2, 3).long()}),
        (ValueError, "Expected `num_classes` to be an integer of at least 1", {"num_classes": 0}),
        (ValueError, "Expected `vocab_start` to be an integer of at least 0", {"vocab_start": -1}),
        (ValueError, "Expected `vocab_start` to be at most 5, to leave room", {"vocab_start": 6}),
        (TypeError, "Expected `target` to be a torch.Tensor", {"target": [0, 1]}),
        (RuntimeError, "Expected `target` to be class indices of dtype int64", {"target": torch.rand(2)}),
        (ValueError, r"Expected `target` to be of shape \(2,\)", {"target": torch.tensor([0])}),
        (IndexError, r"class indices in \[0, 8\).*but got 8", {"target": torch.tensor([0, 8])}),
    ],
)
def test_errors(error, match, changes):
    arguments = {
        "local_logits": torch.randn(2, 3),
        "target": torch.tensor([0, 7]),
        "num_classes": 8,
        "vocab_start": 0,
    }
    with pytest.raises(error, match=match):
        vocab_parallel_mgce_loss(**(arguments | changes))
