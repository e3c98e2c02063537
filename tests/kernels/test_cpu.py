"""The fused CPU kernel against float64 truth, the eager path's own error as its yardstick, and an outside oracle."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from entmax import normmax_bisect
from torch import Tensor

from grids import grid
from mgce.functional import mgce_loss
from mgce.kernels import cpu
from mgce.kernels.options import LossArguments, LossOptions
from plain import loss_and_gradient, normalized_logits

BETAS = (1.0, 1.02, 1.05, 1.18, 1.4, 1.5, 2.0, 2.7, 3.0, 5.0, 11.0, 100.0, 1e4, 1e9)
DTYPES = (torch.float32, torch.float64)
CLASSES = (1, 2, 3, 16, 17, 127, 1000, 4097)


def loss_and_grad(logits, target, weight=None, *options, beta, reduction="mean", label_smoothing=0.0, **keywords):
    chosen = LossOptions(*options) if options else LossOptions(reduction=reduction, label_smoothing=label_smoothing)
    return cpu.loss_and_grad(logits, LossArguments(target, weight, chosen, beta), **keywords)


def rows_of(k: int) -> dict[str, Tensor]:
    """Margins of every kind, float32 values in float64."""
    generator = torch.Generator().manual_seed(k)
    random = {f"normal {s}": torch.randn(18, k, generator=generator) * s for s in (0.01, 1.0, 10.0)}
    ramp = -torch.arange(k, dtype=torch.float32)
    one_hot = torch.zeros(k)
    one_hot[k // 2] = 1e4
    masked = torch.randn(5, k, generator=generator)
    masked[:, 1::2] = -torch.inf
    built = {
        "constant": torch.tensor([0.0, 0.1, -3.3, 1e4])[:, None].expand(4, k).clone(),
        "one-hot": torch.stack([one_hot, -one_hot]),
        "ties": torch.stack([ramp.clamp(min=-1), (ramp / 2).floor(), (ramp == 0).float() * 1.25]),
        "ladders": torch.stack([ramp / 8, -(ramp**2) / 100, 500 + ramp / 3]),
        "masked": masked,
    }
    return {name: x.double() for name, x in {**random, **built}.items()}


def error(got: Tensor, want: Tensor) -> float:
    difference = torch.where(got == want, 0, got - want).abs()  # equal infinities
    return (difference / want.abs().clamp(min=1).where(want.isfinite(), 1)).max().item()


def one_of_few(beta: float, k: int, dtype: torch.dtype) -> bool:
    """Tell whether a case is one of half of those in which each beta meets each number of classes."""
    place = BETAS.index(beta) + CLASSES.index(k)
    return place % 2 == 0 and DTYPES.index(dtype) == place // 2 % 2


@pytest.mark.slow
@grid("beta, k, dtype", BETAS, CLASSES, DTYPES, keep=lambda beta, k, dtype: one_of_few(beta, k, dtype))
def test_no_worse_than_the_eager_path(beta: float, k: int, dtype: torch.dtype) -> None:
    slack = 16 * torch.finfo(dtype).eps
    for name, x in rows_of(k).items():
        y = torch.arange(len(x)) % k
        want = loss_and_gradient(x, y, beta)
        got = loss_and_grad(x.to(dtype), y, reduction="none", beta=beta)
        eager = loss_and_gradient(x.to(dtype), y, beta)
        assert error(got[0], want[0]) <= 2 * error(eager[0], want[0]) + slack, name
        if beta >= 1.18:  # below, p is steeper at the edge of the support than floats can follow
            steep = 2e-5 if dtype == torch.float32 else 1e-11 if beta < 1.4 else 1e-13
            slack_of_p = steep if beta < 2 or dtype == torch.float64 else slack
            assert error(got[1], want[1]) <= 2 * error(eager[1], want[1]) + slack_of_p, name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", [1.02, 1.05, 1.18, 1.4, 2.0, 11.0, 1e4])
def test_probabilities_are_exact_for_margins_that_differ_by_rounding(beta: float, dtype: torch.dtype) -> None:
    for x in rows_of(1000).values():
        y = torch.zeros(len(x), dtype=torch.int64)
        loss, grad = loss_and_grad(x.to(dtype), y, reduction="none", beta=beta)
        p = grad.double() + F.one_hot(y, x.shape[1])
        # By Fenchel and Young, phi + p.f + E(p) is zero at the exact p and second order beside it.
        alpha = beta / (beta - 1)
        entropy = beta * (1 - p.norm(alpha, dim=1))
        kept = torch.where(p > 0, x, 0)
        gap = (p * (x[:, :1].where(p > 0, 0) - kept)).sum(1) + loss.double() - entropy
        unit = 64 * torch.finfo(dtype).eps * x[x.isfinite()].abs().max().clamp(min=10) * beta
        assert ((p.sum(1) - 1).abs() <= 64 * torch.finfo(dtype).eps).all()
        assert (gap.abs() <= unit)[loss.isfinite()].all()


@pytest.mark.parametrize("beta", [1.18, 1.4, 2.0, 5.0, 11.0])
def test_normmax_of_the_entmax_package(beta: float) -> None:
    x = torch.randn(20, 127, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    y = torch.zeros(20, dtype=torch.int64)
    p = normmax_bisect(x / beta, alpha=beta / (beta - 1), dim=-1, n_iter=100)
    _, grad = loss_and_grad(x, y, reduction="none", beta=beta)
    assert error(grad + F.one_hot(y, 127), p) < 1e-11


@pytest.mark.slow
@grid(
    "k, beta, dtype",
    [33, 65, 129, 1000],
    [1.0, 1.4, 2.0, 11.0],
    DTYPES,
    keep=lambda k, beta, dtype: k < 1000 or (beta, dtype) == (1.4, torch.float32),
)
def test_near_ties_at_a_lead_of_beta(k: int, beta: float, dtype: torch.dtype) -> None:
    """One class leads by about beta and the others tie to within rounding: almost all candidates drop out at once."""
    generator = torch.Generator().manual_seed(0)
    for spread in (1e-6, 8 * torch.finfo(dtype).eps, torch.finfo(dtype).eps):
        x = spread * torch.randn(400, k, generator=generator, dtype=torch.float64)
        x[:, 0] += beta
        x = x.to(dtype)
        y = torch.zeros(400, dtype=torch.int64)
        loss, grad = loss_and_grad(x, y, reduction="none", beta=beta)
        want, _ = loss_and_gradient(x.double(), y, beta)
        assert error(loss, want) <= 16 * torch.finfo(dtype).eps
        assert grad.sum(1).abs().max() <= 16 * torch.finfo(dtype).eps
        assert (grad[:, 1:] >= 0).all() and (grad[:, 0] <= 0).all()


def test_a_library_of_other_sources_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    for cached in (cpu.obstacle, cpu.library):
        cached.cache_clear()
    try:
        assert "(it was compiled from other sources: 'object' object has no attribute" in str(cpu.obstacle())
    finally:
        monkeypatch.undo()
        for cached in (cpu.obstacle, cpu.library):
            cached.cache_clear()


def declared(text: str) -> list[tuple[str, type]]:
    """Return the names that C++ declares in a list of arguments or the fields of a structure, with their ctypes."""
    kinds = {"int64_t": ctypes.c_int64, "double": ctypes.c_double}
    found = []
    for one in re.split(r"[;,]", re.sub(r"//.*|\\\\", "", text)):
        *kind, name = re.findall(r"\w+", one) or [""]
        if name:  # a pointer, the address of a function, or a number; further names after a comma are of one type
            last = ctypes.c_void_p if "*" in one or "Team" in kind else kinds[kind[-1]] if kind else found[-1][1]
            found.append((name, last))
    return found


def test_arguments_are_declared_as_the_sources_have_them() -> None:
    fresh = ctypes.CDLL(cpu.library()._name)
    cpu._declare(fresh)
    sources = {path.stem: path.read_text() for path in Path(cpu.__file__).parent.glob("cpu_*.cpp")}
    found = set()
    for source in sources.values():
        exported = r"EXPORT (\S+) mgce_(\w+?)(?:_##name|_float\d\d)?\(([^)]*)\)"
        for result, name, arguments in re.findall(exported, source):
            for dtype in ("",) if name == "free_plan" else ("_float32", "_float64"):
                function = getattr(fresh, f"mgce_{name}{dtype}")
                taken = [ctypes.c_void_p if one is ctypes.c_char_p else one for one in function.argtypes]  # addresses
                assert taken == [kind for _, kind in declared(arguments)], name
                assert function.restype is {"void": None, "void*": ctypes.c_void_p, "int64_t": ctypes.c_int64}[result]
                found.add(function.__name__)
    assert len(found) == 9  # four for each type, and one for both
    for stem, options, pack in (
        ("cpu_kernel", cpu._Options, cpu._ARGUMENTS),
        ("cpu_softmax", cpu._SoftmaxOptions, cpu._SOFTMAX_ARGUMENTS),
    ):
        fields = [re.search(rf"struct {name} {{(.*?)}};", sources[stem], re.S)[1] for name in ("Options", "Arguments")]
        assert list(options._fields_) == declared(fields[0])
        n = len(declared(fields[1]))  # each of 8 bytes
        assert len(pack(*range(n))) == 8 * n


def test_more_threads_than_one_are_woken_above_a_size(restored_threads: None) -> None:
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        for k in (1, 100, cpu.SERIAL_CLASSES - cpu.ROW_CLASSES):
            most = cpu.SERIAL_CLASSES // (k + cpu.ROW_CLASSES)  # rows of one thread
            assert [cpu.threads(n, k) for n in (0, 1, most, most + 1, 10**6)] == [1, 1, 1, threads, threads]


@pytest.mark.nightly
@pytest.mark.parametrize("k", [5, 70_000, *(pytest.param(k, marks=pytest.mark.nightly) for k in (100, 1000))])
@pytest.mark.parametrize("soft", [False, True])
def test_no_memory_is_read_that_was_not_written(k: int, soft: bool) -> None:
    """Whatever byte the allocator fills its memory with, the bits of the results are the same."""
    code = (
        "import hashlib, torch; from mgce.kernels import cpu;"
        "from mgce.kernels.options import LossArguments, LossOptions;"
        "from hard_rows import hard_rows; digest = hashlib.sha256();"
        f"rows = [(hard_rows({k}, b, d), b) for b in (1.0, 1.4, 5.0) for d in (torch.float32, torch.float64)];"
        f"y = torch.arange(100) % {k};"
        f"o = LossOptions(reduction='none', label_smoothing={0.1 * soft});"
        "[digest.update(v.numpy().tobytes()) for x, b in rows"
        "  for v in (*cpu.loss_and_grad(x, LossArguments(y[: len(x)].clone(), None, o, b)),"
        f"    *cpu.root_and_probs(x, beta=b, minimax={soft}))]; print(digest.hexdigest())"
    )
    path = os.pathsep.join([str(Path(cpu.__file__).parents[2]), str(Path(__file__).parents[1])])
    digests = {in_new_process(code, MALLOC_PERTURB_=byte, PYTHONPATH=path) for byte in ("0", "85", "255")}
    assert len(digests) == 1


@pytest.mark.parametrize("beta", [1.0, 1.05, 1.4, 2.0, 3.3, 1e9])
@pytest.mark.parametrize("k", [32768, 50_000])
def test_many_classes(k: int, beta: float) -> None:
    x = torch.randn(3, k, generator=torch.Generator().manual_seed(0)) * torch.tensor([[0.01], [1.0], [10.0]])
    y = torch.tensor([0, k // 2, k - 1])
    want = loss_and_gradient(x.double(), y, beta)
    loss, grad = loss_and_grad(x, y, reduction="none", beta=beta)
    torch.testing.assert_close(loss.double(), want[0], rtol=1e-6, atol=2e-6)
    torch.testing.assert_close(grad.double(), want[1], rtol=0, atol=2e-6 if beta == 1 or beta > 1.18 else 1e-3)


@pytest.mark.parametrize("beta", [1.4, 2.0, 6.5, 7.0, 11.0, 16.5, 20.0])
@pytest.mark.parametrize("k", [20, 1000])
def test_no_weight_is_a_subnormal_number(k: int, beta: float) -> None:
    """The processor takes a hundred times longer for them: they made rows of beta = 11 five times as slow."""
    logits = 3 * torch.randn(64, k, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(64, dtype=torch.int64)
    _, grad = loss_and_grad(logits, labels, reduction="sum", beta=beta)
    sizes = grad[:, 1:].abs()
    assert sizes.max() > 0
    assert not ((sizes > 0) & (sizes < torch.finfo(torch.float32).tiny)).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("probabilities", [False, True])
def test_targets_of_every_kind(
    probabilities: bool, weighted: bool, smoothing: float, reduction: str, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    n, k = 41, 37
    x = torch.randn(n, k, generator=generator, dtype=torch.float64) * 2
    weight = torch.rand(k, generator=generator, dtype=torch.float64) if weighted else None
    target = torch.randint(k, (n,), generator=generator)
    target[::5] = -100
    if probabilities:
        target = torch.rand(n, k, generator=generator, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    want = composite(leaf, target, weight, reduction, smoothing, beta=1.4)
    want.sum().backward()
    target, weight = (v if v is None or not v.is_floating_point() else v.to(dtype) for v in (target, weight))
    loss, grad = loss_and_grad(x.to(dtype), target, weight, -100, reduction, smoothing, beta=1.4)
    tolerance = 100 * torch.finfo(dtype).eps
    torch.testing.assert_close(loss.double(), want.detach(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(grad.double(), leaf.grad, rtol=tolerance, atol=tolerance)


def composite(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float, beta: float
) -> Tensor:
    """Cross-entropy's arithmetic on f + phi, from its documentation."""
    scores, k = normalized_logits(x, beta=beta), x.shape[1]
    weight = torch.ones(k, dtype=x.dtype) if weight is None else weight
    kept = torch.ones(len(x), dtype=torch.bool) if target.is_floating_point() else target != -100
    hard = target if target.is_floating_point() else F.one_hot(target.where(kept, 0), k).to(x.dtype)
    losses = -(((1 - smoothing) * hard + smoothing / k) * weight * scores).sum(1) * kept
    if reduction == "none":
        return losses
    share = (hard * weight).sum(1)[kept].sum() if not target.is_floating_point() else len(x)
    return losses.sum() / (share if reduction == "mean" else 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", [1.0, 1.4, 2.0, 1e9])
def test_rows_without_an_answer_are_nan_and_spoil_no_other(beta: float, dtype: torch.dtype) -> None:
    x = torch.randn(6, 70, dtype=dtype, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, 2, 3, 4, -100])
    clean, _ = loss_and_grad(x, y, reduction="none", beta=beta)
    x[1, 69], x[2, 3], x[3], x[5, 0] = torch.nan, torch.inf, -torch.inf, torch.nan
    loss, grad = loss_and_grad(x, y, reduction="none", beta=beta)
    assert loss[1:4].isnan().all() and grad[1:4].isnan().all()
    assert torch.equal(loss[[0, 4]], clean[[0, 4]]) and grad[[0, 4]].isfinite().all()
    assert loss[5] == 0 and (grad[5] == 0).all()  # ignored


def test_masked_classes_are_as_if_they_were_not_there() -> None:
    x = torch.randn(8, 40, generator=torch.Generator().manual_seed(0))
    y = torch.arange(8)
    wide = torch.full((8, 100), -torch.inf)
    wide[:, :40] = x
    loss, grad = loss_and_grad(x, y, beta=1.4)
    wide_loss, wide_grad = loss_and_grad(wide, y, beta=1.4)
    torch.testing.assert_close(wide_loss, loss)
    torch.testing.assert_close(wide_grad[:, :40], grad)
    assert (wide_grad[:, 40:] == 0).all()
    soft = F.pad(torch.full((8, 40), 1 / 40), (0, 60))
    soft_loss, _ = loss_and_grad(x, soft[:, :40].contiguous(), beta=1.4)
    torch.testing.assert_close(loss_and_grad(wide, soft, beta=1.4)[0], soft_loss)
    impossible, _ = loss_and_grad(wide, y + 50, reduction="none", beta=1.4)
    assert torch.equal(impossible, torch.full((8,), torch.inf))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("k", [4, 300])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_masked_label_costs_infinitely_much(dtype: torch.dtype, k: int, smoothing: float, reduction: str) -> None:
    """As of cross-entropy, also in sums over classes and rows; what it is for is that it can be told from NaN."""
    x = torch.randn(9, k, dtype=dtype, generator=torch.Generator().manual_seed(0))
    y = torch.arange(9) % 4
    x[2, 2], x[5, 1] = -torch.inf, -torch.inf
    for target in (y, F.one_hot(y, k).to(dtype)):
        want = F.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing)
        loss, grad = loss_and_grad(x, target, None, -100, reduction, smoothing, beta=1.4)
        assert torch.equal(loss == torch.inf, want == torch.inf) and not loss.isnan().any()
        exact = mgce_loss(x, target, reduction=reduction, label_smoothing=smoothing, beta=1.4, backend="reference")
        torch.testing.assert_close(loss, exact.to(dtype))
        assert grad is not None and grad.isfinite().all()
    x[3, 0] = torch.nan
    assert loss_and_grad(x, y, None, -100, "sum", smoothing, beta=1.4)[0].isnan()


@pytest.mark.parametrize("label", [-1, 10, 2**40])
def test_labels_out_of_range(label: int) -> None:
    x = torch.zeros(300, 10)
    y = torch.zeros(300, dtype=torch.int64)
    y[299] = label
    with pytest.raises(IndexError, match=f"Expected `target` to be .* but got {label}"):
        loss_and_grad(x, y, beta=1.4)


def test_no_row_counts() -> None:
    loss, grad = loss_and_grad(torch.randn(3, 4), torch.full((3,), -100), beta=1.4)
    assert loss.isnan() and (grad == 0).all()
    assert loss_and_grad(torch.empty(0, 4), torch.empty(0, dtype=torch.int64), beta=1.4)[0].isnan()


@pytest.fixture
def restored_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("run", ["team", "own"])
def test_the_same_bits_for_any_number_of_threads(
    run: str, restored_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if run == "own":
        monkeypatch.setattr(cpu, "team", lambda: 0)
    x = torch.randn(1001, 130, generator=torch.Generator().manual_seed(0)) * 3
    y = torch.arange(1001) % 130
    results = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        results.append(loss_and_grad(x, y, beta=1.4))
    for loss, grad in results[1:]:
        assert torch.equal(loss, results[0][0]) and torch.equal(grad, results[0][1])


def test_callers_in_several_threads(restored_threads: None) -> None:
    torch.set_num_threads(2)
    x = torch.randn(600, 200, generator=torch.Generator().manual_seed(0))
    y = torch.arange(600) % 200
    want = loss_and_grad(x, y, beta=1.4)[1]
    wrong = []

    def call() -> None:
        for _ in range(20):
            if not torch.equal(loss_and_grad(x, y, beta=1.4)[1], want):
                wrong.append(1)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_forward_alone_gives_the_same_loss() -> None:
    x = torch.randn(50, 33, generator=torch.Generator().manual_seed(0))
    y = torch.arange(50) % 33
    loss, none = loss_and_grad(x, y, beta=2.0, want_grad=False)
    assert none is None and torch.equal(loss, loss_and_grad(x, y, beta=2.0)[0])


def in_new_process(code: str, **environment: str) -> str:
    source = Path(cpu.__file__).parents[2]
    variables = {**os.environ, "PYTHONPATH": str(source), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    return done.stdout


VARIANTS = ("default", "avx2") if "x86" in platform.machine() or platform.machine() == "AMD64" else ("default",)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_other_instruction_sets_give_the_same(variant: str) -> None:
    """Of the kernels of MGCE and of softmax; this process has the set of the machine."""
    code = (
        "import torch; from mgce import GCELoss; from mgce.kernels import cpu;"
        "from mgce.kernels.options import LossArguments, LossOptions;"
        "x = torch.linspace(-3, 3, 7000).view(70, 100).sin(); x[::2] /= 100;"  # rows of nearly equal logits too
        "o = LossOptions(label_smoothing=0.1);"
        "f = [cpu.loss_and_grad(x[:, :k].contiguous().to(d), LossArguments(torch.arange(70) % k, None, o, b))"
        "     for b in (1.0, 1.4, 2.0, 3.5, 9.3, 1e4) for k in (3, 33, 100) for d in (torch.float32, torch.float64)];"
        "x = torch.linspace(-30, 3, 7000).view(70, 100).sin() * 9;"
        "s = [(GCELoss(beta=b), x[:, :k].contiguous().to(d).requires_grad_(), torch.arange(70) % k)"
        "     for b in (1.0, 1.4, 9.3, torch.inf) for k in (3, 33, 100) for d in (torch.float32, torch.float64)];"
        "[loss(x, y).backward() for loss, x, y in s];"
        "numbers = [v.item() for l, g in f for v in (l, (g.double() ** 2).sum())];"
        "numbers += [v.item() for loss, x, y in s for v in (loss(x, y), (x.grad.double() ** 2).sum())];"
    )
    here: dict[str, list[float]] = {}
    exec(code, here)
    there = in_new_process(code + "print(cpu.library()._name, *numbers)", ATEN_CPU_CAPABILITY=variant).split()
    assert f"_cpu_{variant}" in there[0] and len(here["numbers"]) == 2 * (36 + 24)
    for a, b in zip(here["numbers"], there[1:], strict=True):
        assert math.isclose(a, float(b), rel_tol=2e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
def test_other_instruction_sets_pass_the_tests_of_the_kernels(variant: str) -> None:
    files = [str(Path(__file__).with_name(name)) for name in ("test_cpu.py", "test_cpu_softmax.py")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, env={**os.environ, "ATEN_CPU_CAPABILITY": variant}, capture_output=True, text=True)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-mavx2", "-mfma")] if "avx2" in VARIANTS else [()])
@pytest.mark.parametrize("compiler", [pytest.param("g++", marks=pytest.mark.nightly), "clang++"])  # g++ installs
def test_the_sources_are_those_of_both_compilers(compiler: str, flags: tuple[str, ...]) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    sources = sorted(Path(cpu.__file__).parent.glob("cpu_*.cpp"))
    command = [compiler, "-std=c++17", "-fsyntax-only", *flags, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_without_the_library_the_package_works_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise OSError("no such file")

    monkeypatch.setattr(cpu, "library", missing)
    cpu.obstacle.cache_clear()
    try:
        logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
        with pytest.warns(RuntimeWarning, match=r"the compiled kernel cannot be loaded \(no such file\); install a"):
            found = mgce_loss(logits, target)
        torch.testing.assert_close(found, mgce_loss(logits, target, backend="torch"))
        with pytest.raises(RuntimeError, match="backend 'cpu' can run, but the compiled kernel cannot be loaded"):
            mgce_loss(logits, target, backend="cpu")
    finally:
        cpu.obstacle.cache_clear()


@pytest.mark.parametrize(("scale", "beta", "few"), [(0.01, 1.02, 6000), (0.003, 1.02, 2000), (0.003, 2.7, 3)])
def test_gradients_of_nearly_equal_logits_have_the_digits_of_the_root(scale: float, beta: float, few: int) -> None:
    """A root near -beta has an ulp of 1e-7, which is 1e-4 of v: as 1 + (x + t)/beta, v would lose more than that."""
    x = torch.randn(64, 1000, generator=torch.Generator().manual_seed(1)) * scale
    y = torch.arange(64)
    _, grad = loss_and_grad(x, y, beta=beta, reduction="sum")
    _, exact = loss_and_grad(x.double(), y, beta=beta, reduction="sum")
    assert (grad - exact).abs().sum(1).max() <= few * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("k", [3, 17, 4097])
def test_the_gradient_may_be_written_over_the_logits(k: int, soft: bool) -> None:
    for name, x in rows_of(k).items():
        y = (x * 0 + 1 / k).nan_to_num(1 / k) if soft else torch.arange(len(x)) % k
        want = loss_and_grad(x, y, label_smoothing=0.1, beta=1.4)
        got = loss_and_grad(x, y, label_smoothing=0.1, beta=1.4, inplace=True)
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True, msg=name)
        assert got[1] is x
