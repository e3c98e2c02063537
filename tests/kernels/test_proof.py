"""A GPU kernel that is made wrong, raises, hangs or crashes is noticed, remembered, and not used.

Where there is no GPU a function on the CPU stands for the kernel, and CPU tensors for those of a device.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import mgce
from mgce.functional import linear_mgce_loss, mgce_loss
from mgce.kernels import cpu, cuda, cuda_plan, dispatch, proof
from mgce.kernels.comparison import calls, compare, hard_rows
from mgce.kernels.options import LossArguments
from mgce.numerics import root

CPU = torch.device("cpu")
WAYS = cuda_plan.WAYS
LOGITS = torch.linspace(-2, 2, 40).view(4, 10)
TARGET = torch.tensor([0, 3, 6, 9])


def right(
    logits: Tensor,
    arguments: LossArguments,
    *,
    want_grad=True,
    inplace=False,
    grad_dtype=None,
    divisor=None,
    roots=None,
):
    """Compute what the kernel should, by that of the CPU."""
    target, weight, *others = arguments
    target = target.float() if target.is_floating_point() else target
    loss, grad = cpu.loss_and_grad(logits.float(), LossArguments(target, weight, *others))
    if not want_grad:
        return loss, None
    grad = grad if divisor is None else grad / divisor
    return loss, logits.copy_(grad) if inplace else grad.to(grad_dtype or logits.dtype)


def at_the_first_guess(logits: Tensor, arguments: LossArguments, **keywords):
    """Take p of labels at the bound that Newton's method begins with, over the sum of powers at the root."""
    loss, grad = right(logits, arguments, **keywords)
    if grad is None or arguments.target.is_floating_point():
        return loss, grad
    beta, f = arguments.beta, logits.double()
    x = f - f.amax(-1, keepdim=True)
    near = x > -beta
    size = near.sum(-1)
    guess = (beta * torch.expm1(-size.log() / beta) - x.where(near, 0).sum(-1) / size).clamp(max=0)
    at_root, at_guess = (root.powers(x, t, beta)[0] for t in (root.newton(x, beta), guess))
    kept = (arguments.target != -100).unsqueeze(-1)
    return loss, grad + ((at_guess - at_root) / at_root.sum(-1, keepdim=True) * kept / kept.sum()).to(grad)


def raising(*_, **__):
    raise RuntimeError("PassManager::run failed\nand much more")


@pytest.fixture(autouse=True)
def a_new_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(proof, "_verdicts", {})
    monkeypatch.setattr(cuda, "scale_", lambda grad, factor: grad.mul_(factor))
    dispatch.warn_once.cache_clear()
    yield
    dispatch.warn_once.cache_clear()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Take the CPU for a GPU with a right kernel; give the logits that the kernel ran on, but for those of a proof."""
    ran: list[Tensor] = []

    def run(logits: Tensor, arguments: LossArguments, **keywords):
        ran.append(logits)
        return cuda.loss_and_grad(logits, arguments, **keywords)

    monkeypatch.setattr(cuda, "loss_and_grad", right)
    monkeypatch.setattr(cuda, "obstacle", lambda: None)
    monkeypatch.setattr(dispatch, "loss_and_grad", run)
    monkeypatch.setattr(dispatch, "kernel_of", lambda tensor: "cuda")
    monkeypatch.setattr(dispatch, "is_commonest", lambda *_: False)
    monkeypatch.setattr(dispatch, "_obstacle_of_tensor", lambda *_: None)
    return ran


def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "_command", lambda: pytest.fail("a child process was started"))


def child(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Have a program take the place of the child process."""
    monkeypatch.setattr(proof, "_command", lambda: [sys.executable, "-c", program])


def child_with(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    """Have a function of this file be the kernel in the child process."""
    lines = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_proof"
    answer = "test_proof.proof.answer(*sys.argv[1:])"
    child(monkeypatch, f"{lines}; test_proof.cuda.loss_and_grad = test_proof.{kernel}; {answer}")


def remembered() -> proof.Verdict | None:
    return proof.recall(CPU, torch.float32, "tiles")


def refused(reason: str, ran: list[Tensor]) -> None:
    """Require one warning with the reason, and from then on the results of plain operations."""
    results = []
    with pytest.warns(RuntimeWarning, match=reason) as seen:
        for backend in ("auto", "auto", "torch"):
            leaf = LOGITS.clone().requires_grad_()
            loss = mgce_loss(leaf, TARGET, backend=backend)
            loss.backward()
            results.append((loss.detach(), leaf.grad))
    assert len(seen) == 1 and not ran
    assert all(torch.equal(one, other) for result in results for one, other in zip(result, results[-1], strict=True))
    with pytest.raises(RuntimeError, match=f"backend 'cuda' can run, but .*{reason}.*; use backend='auto'"):
        mgce_loss(LOGITS, TARGET, backend="cuda")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", cuda.DTYPES)
def test_a_right_kernel_agrees(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, way: str) -> None:
    monkeypatch.setattr(cuda, "loss_and_grad", right)
    assert compare(CPU, dtype, way) is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", cuda.DTYPES)
def test_a_gradient_at_the_first_guess_is_noticed(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, way: str
) -> None:
    monkeypatch.setattr(cuda, "loss_and_grad", at_the_first_guess)
    assert str(compare(CPU, dtype, way)).startswith("it gave a gradient that is off by 0.")


FAULTS = {
    "label": lambda a: a._replace(target=a.target.clamp(max=0) if a.target.ndim == 1 else a.target),
    "ignored": lambda a: a._replace(target=a.target.clamp(min=0) if a.target.ndim == 1 else a.target),
    "beta": lambda a: a._replace(beta=a.beta * (1 + 2e-5)),
    "weight": lambda a: a._replace(weight=None),
    "smoothing": lambda a: a._replace(options=a.options._replace(label_smoothing=0.0)),
    "reduction": lambda a: a._replace(options=a.options._replace(reduction="sum")),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_an_argument_that_is_taken_wrongly_is_noticed(monkeypatch: pytest.MonkeyPatch, fault) -> None:
    monkeypatch.setattr(cuda, "loss_and_grad", lambda f, arguments, **keywords: right(f, fault(arguments), **keywords))
    for way in WAYS:
        assert str(compare(CPU, torch.float32, way)).startswith("it gave a ")


@pytest.mark.parametrize("dtype", cuda.DTYPES)
def test_one_wrong_number_is_noticed(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    def wrong(logits: Tensor, arguments: LossArguments, **keywords):
        loss, grad = right(logits, arguments, **keywords)
        if grad is not None:
            grad[-1, 7] = torch.nan if arguments.target.ndim == 2 else grad[-1, 7] + 2**-6
        return loss, grad

    monkeypatch.setattr(cuda, "loss_and_grad", wrong)
    assert str(compare(CPU, dtype, "tiles")).startswith("it gave a gradient that is off by 0.01")
    monkeypatch.setattr("mgce.kernels.comparison.calls", lambda way: calls(way)[1:])
    assert str(compare(CPU, dtype, "tiles")).startswith("it gave a gradient that is off by inf (300 classes")
    monkeypatch.setattr(cuda, "loss_and_grad", right)
    monkeypatch.setattr(cuda, "scale_", lambda grad, factor: grad)
    assert str(compare(CPU, dtype, "tiles")).startswith("it multiplied a gradient, and is off by ")


def test_the_first_guess_is_far_from_most_roots() -> None:
    """So that what is taken at the one and not at the other is wrong by much."""
    for way in WAYS:
        first = calls(way)[0]
        x = hard_rows(first.k, first.beta)
        x = x - x.amax(-1, keepdim=True)
        near = x > -first.beta
        size = near.sum(-1)
        guess = first.beta * torch.expm1(-size.log() / first.beta) - x.where(near, 0).sum(-1) / size
        assert ((guess - root.newton(x, first.beta)) > 0.05).sum() >= 5


def test_calls_go_the_way_that_they_are_for() -> None:
    for way in WAYS:
        assert {cuda_plan.way_of(call.k, call.beta) for call in calls(way)} == {way}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        pytest.param("at_the_first_guess", "it gave a gradient that is off by 0", marks=pytest.mark.nightly),
        (
            None,
            rf"it raised .*\({cuda_plan.LONGEST_TILE - 3} classes, beta 1.4\)",
        ),  # the one of Triton, given tensors of the CPU
    ],
)
def test_a_kernel_that_fails_in_the_child_is_remembered_and_not_used(
    monkeypatch: pytest.MonkeyPatch, device: list[Tensor], kernel: str | None, reason: str
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    if kernel is not None:
        child_with(monkeypatch, kernel)
    refused(reason, device)
    proof._verdicts.clear()  # a new process
    dispatch.warn_once.cache_clear()
    no_child(monkeypatch)
    refused(reason, device)


@pytest.mark.slow
def test_a_right_kernel_is_proved_once_for_a_machine(monkeypatch: pytest.MonkeyPatch, device: list[Tensor]) -> None:
    child_with(monkeypatch, "right")
    loss = mgce_loss(LOGITS, TARGET)
    assert len(device) == 1
    torch.testing.assert_close(loss, mgce_loss(LOGITS, TARGET, backend="torch"))
    kept = remembered()
    assert kept is not None and kept.obstacle is None and kept.compilation_s > 0 < kept.comparison_s
    no_child(monkeypatch)
    mgce_loss(LOGITS, TARGET, backend="cuda")
    proof._verdicts.clear()  # a new process, in which the kernel is compared once more
    mgce_loss(LOGITS, TARGET)
    assert len(device) == 3
    proof._verdicts.clear()
    monkeypatch.setattr(cuda, "loss_and_grad", at_the_first_guess)
    device.clear()
    refused("it gave a gradient that is off by 0", device)
    assert remembered() == kept
    for module, name, other in ((torch, "__version__", "99.0"), (platform, "node", lambda: "another")):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, other)
            proof._versions.cache_clear()
            assert remembered() is None
        proof._versions.cache_clear()
        assert remembered() == kept


def test_a_compilation_that_hangs_is_ended_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch, device: list[Tensor], tmp_path: Path
) -> None:
    started = tmp_path / "started"
    begin = f"compiler = subprocess.Popen(['sleep', '600']); open({str(started)!r}, 'w').write(str(compiler.pid))"
    child(monkeypatch, f"import subprocess; {begin}; compiler.wait()")
    monkeypatch.setattr(proof, "TIME_LIMIT", 2.0)
    refused("it was not compiled within 2 s", device)
    assert not is_running(int(started.read_text()))
    kept = remembered()
    assert kept is not None and kept.obstacle == "it was not compiled within 2 s"


def is_running(pid: int) -> bool:
    """Tell whether a process is there, and not only its number, which nobody has collected yet."""
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] not in "ZX"


def test_a_crash_is_remembered_but_not_that_nothing_could_be_tried(
    monkeypatch: pytest.MonkeyPatch, device: list[Tensor]
) -> None:
    child(monkeypatch, "raise MemoryError('no room on the device')")
    refused("ended with code 1: MemoryError: no room on the device", device)
    assert remembered() is None
    monkeypatch.setattr(proof, "_command", lambda: ["no such program"])
    assert "no process can be started" in str(proof._prove_again(CPU, torch.float32, "tiles"))
    assert remembered() is None
    child(monkeypatch, "import os; print('loading'); os.abort()")
    assert "ended with code -6" in str(proof._prove_again(CPU, torch.float32, "tiles"))
    kept = remembered()
    assert kept is not None and "code -6" in str(kept.obstacle)


def test_a_device_that_is_full_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")

    for kernel, lasting in ((full, False), (raising, True), (right, True)):
        monkeypatch.setattr(cuda, "loss_and_grad", kernel)
        proof.answer("cpu", "float32", "tiles", str(tmp_path / "verdict.json"))
        verdict = proof.Verdict(**json.loads((tmp_path / "verdict.json").read_text()))
        assert verdict.lasting == lasting and (verdict.obstacle is None) == (kernel is right)


def test_where_nothing_can_be_kept_the_next_process_tries_again(
    monkeypatch: pytest.MonkeyPatch, device: list[Tensor], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    child(monkeypatch, "import os; os.abort()")
    refused("ended with code -6", device)
    assert remembered() is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", raising)
    assert "code -6" in str(proof._prove_again(CPU, torch.float32, "tiles"))


def trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the verdict of an earlier process that the kernel is right."""
    monkeypatch.setattr(proof, "recall", lambda *_: proof.Verdict(None))
    no_child(monkeypatch)


def test_a_capture_takes_plain_operations_until_the_kernel_is_proved(
    monkeypatch: pytest.MonkeyPatch, device: list[Tensor]
) -> None:
    trust(monkeypatch)
    with monkeypatch.context() as capture:
        capture.setattr(proof, "_is_captured", lambda device: True)
        refused("not proved yet, which a captured graph cannot wait for; call mgce.prove_kernel before", device)
        assert not proof._verdicts
    mgce_loss(LOGITS, TARGET)
    assert len(device) == 1
    monkeypatch.setattr(proof, "_is_captured", lambda device: True)
    mgce_loss(LOGITS, TARGET)
    assert len(device) == 2


@pytest.mark.parametrize("kernel", [right, raising])
def test_a_compiled_call_is_proved_when_it_runs(monkeypatch: pytest.MonkeyPatch, device: list[Tensor], kernel) -> None:
    trust(monkeypatch)
    monkeypatch.setattr(cuda, "loss_and_grad", kernel)
    torch._dynamo.reset()
    compiled = torch.compile(mgce_loss, backend="eager", fullgraph=True)
    want = mgce_loss(LOGITS, TARGET, backend="torch")
    if kernel is right:
        torch.testing.assert_close(compiled(LOGITS, TARGET), want)
    else:
        with pytest.warns(RuntimeWarning, match="PassManager::run failed"):
            torch.testing.assert_close(compiled(LOGITS, TARGET), want)
    assert len(device) == (kernel is right)


def test_a_proof_is_no_part_of_what_is_recorded(monkeypatch: pytest.MonkeyPatch, device: list[Tensor]) -> None:
    trust(monkeypatch)
    graph = make_fx(lambda f: mgce_loss(f, TARGET))(LOGITS)
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert names[0] == "mgce.loss_and_grad.default" and not [name for name in names if "sin" in name]


def test_a_head_is_proved_for_its_classes(monkeypatch: pytest.MonkeyPatch, device: list[Tensor]) -> None:
    trust(monkeypatch)
    asked = []
    monkeypatch.setattr(proof, "obstacle", lambda logits, beta, classes: asked.append(classes))
    linear_mgce_loss(torch.eye(3), torch.ones(9000, 3), torch.tensor([0, 1, 2]))
    mgce_loss(LOGITS[0], TARGET[0])
    mgce_loss(LOGITS.T[None], TARGET[None])
    assert asked == [9000, 10, 10]


def test_all_is_proved_on_demand_and_failures_are_tried_again(
    monkeypatch: pytest.MonkeyPatch, device: list[Tensor]
) -> None:
    child(monkeypatch, "import os; os.abort()")
    assert "code -6" in str(proof._prove_again(CPU, torch.float32, "tiles"))
    monkeypatch.setattr(proof, "_try_in_child", lambda *_: proof.Verdict(None))
    assert proof._prove_again(CPU, torch.float32, "tiles") is None
    mgce_loss(LOGITS, TARGET)
    assert len(device) == 1
    kept = remembered()
    assert kept is not None and kept.obstacle is None


def test_what_cannot_be_proved_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "obstacle", lambda: "PyTorch finds no CUDA device")
    missing = "PyTorch finds no CUDA device"
    assert mgce.prove_kernel("cuda:1", [torch.float32]) == {
        f"float32 {way}": missing for way in ("tiles", "lists", "chunks")
    }
    with pytest.raises(ValueError, match=r"Expected `dtypes` to be .*, but got torch\.float64"):
        mgce.prove_kernel(dtypes=[torch.float64])


def test_mgce_env_says_what_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "obstacle", lambda: "PyTorch finds no CUDA device")
    assert proof.report() == {}
    monkeypatch.setattr(cuda, "obstacle", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "H200")
    cuda0 = torch.device("cuda:0")
    proof._remember(proof.Verdict(None, 21.34, 0.0091), cuda0, torch.float32, "tiles")
    proof._remember(proof.Verdict("it raised"), cuda0, torch.float32, "chunks")
    assert proof.report() == {
        "cuda:0 float32": (
            "tiles: proved (compiled in 21.3 s, compared in 9 ms); lists: not tried yet; chunks: refused, it raised"
        ),
        "cuda:0 bfloat16": "tiles: not tried yet; lists: not tried yet; chunks: not tried yet",
        "cuda:0 float16": "tiles: not tried yet; lists: not tried yet; chunks: not tried yet",
    }


@pytest.mark.parametrize("value", ["off", "never"])
def test_the_environment_switches_kernels_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MGCE_KERNEL", value)
    cpu.obstacle.cache_clear()
    try:
        if value == "off":  # and no warning, which is an error here
            assert dispatch.choose("auto", LOGITS, TARGET, None, 1.4) == "torch"
            with pytest.raises(RuntimeError, match="but the environment has MGCE_KERNEL=off"):
                mgce_loss(LOGITS, TARGET, backend="cpu")
        else:
            with pytest.raises(ValueError, match="Expected `MGCE_KERNEL` to be 'on' or 'off' in the environment"):
                mgce_loss(LOGITS, TARGET)
    finally:
        cpu.obstacle.cache_clear()
