import math

import entmax
import pytest
import torch
from torch.nn import functional as F

from contracts.loss_contract import LossContract
from golden import GOLDEN
from grids import grid
from hard_rows import hard_rows
from mgce import functional
from mgce.functional import mgce_loss, normalizer
from plain import loss_and_gradient

inf = math.inf


class TestMGCELoss(LossContract):
    @staticmethod
    def loss(input, target, **keywords):
        return mgce_loss(input, target, beta=1.4, **keywords)


class TestMGCELossAtBetaTwo(LossContract):
    @staticmethod
    def loss(input, target, **keywords):
        return mgce_loss(input, target, beta=2.0, **keywords)


class TestCompositeLossAtInfinity(LossContract):
    compiler = "aot_eager"  # code from PyTorch's compiler is tried at a finite beta

    @staticmethod
    def loss(input, target, **keywords):
        return mgce_loss(input, target, beta=inf, backend="torch", **keywords)


class TestReferenceBackend(LossContract):
    compiler = "eager"

    @staticmethod
    def loss(input, target, **keywords):
        return mgce_loss(input, target, backend="reference", **keywords)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.name)
def test_golden_loss_and_gradient(case):
    logits = torch.tensor(case.logits, dtype=torch.float64, requires_grad=True)
    loss = mgce_loss(logits, torch.tensor(case.target), beta=case.beta)
    assert abs(loss.item() - case.loss) < 1e-13 * max(1, logits.abs().max().item())
    (gradient,) = torch.autograd.grad(loss, logits)
    expected = -F.one_hot(torch.tensor(case.target), len(case.logits)).double()
    expected[: len(case.p)] += torch.tensor(case.p, dtype=torch.float64)
    assert (gradient - expected)[: len(case.p)].abs().max() < 1.1e-12


def test_golden_alpha_loss():
    for case in GOLDEN:
        if case.alpha_loss is not None:
            h = functional.minimax_probs(torch.tensor(case.logits, dtype=torch.float64), beta=case.beta)
            assert functional.alpha_loss(h, torch.tensor(case.target), beta=case.beta) == case.alpha_loss


@pytest.mark.parametrize("beta", [1.4, 2.0, 5.0, 11.0])
def test_it_is_the_fenchel_young_loss_of_the_norm_entropy(beta):
    logits, target = torch.randn(40, 9, dtype=torch.float64) * 2, torch.randint(9, (40,))
    alpha = beta / (beta - 1)
    other = beta * entmax.normmax_bisect_loss(logits / beta, target, alpha=alpha, n_iter=100)
    torch.testing.assert_close(mgce_loss(logits, target, beta=beta, reduction="none"), other, rtol=0, atol=1e-12)


def cross_entropy_samples():
    from torch.testing._internal.common_methods_invocations import op_db  # takes seconds to import

    (info,) = [op for op in op_db if op.name == "nn.functional.cross_entropy"]
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        yield from info.sample_inputs("cpu", dtype, requires_grad=True)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "torch", pytest.param("reference", marks=pytest.mark.nightly)])
def test_every_sample_input_of_pytorch_agrees_at_infinity(backend):
    count = 0
    for sample in cross_entropy_samples():
        logits, (target,) = sample.input, sample.args
        theirs = F.cross_entropy(logits, target, **sample.kwargs)
        ours = mgce_loss(logits, target, **sample.kwargs, beta=inf, backend=backend)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        # The half types are reduced in float32 here, and in the half type there.
        eps = torch.finfo(theirs.dtype).eps
        torch.testing.assert_close(ours, theirs, rtol=8 * eps, atol=8 * eps, equal_nan=True)
        gradient = torch.autograd.grad(theirs.sum(), logits)[0]
        torch.testing.assert_close(
            torch.autograd.grad(ours.sum(), logits)[0], gradient, rtol=8 * eps, atol=8 * eps, equal_nan=True
        )
        count += 1
    assert count >= 84


@pytest.mark.slow
@grid(
    "beta, k, dtype",
    [1.0, 1.02, 1.4, 2.0, 11.0, 1e9, inf],
    [1, 2, 10, 1000, 50_000],
    [torch.float32, torch.float64],
    keep=lambda beta, k, dtype: k < 50_000 or (dtype == torch.float32 and beta in (1.02, 11.0)),
)
def test_hard_rows(beta, k, dtype):
    logits = hard_rows(k, beta, dtype).requires_grad_()
    target = torch.arange(len(logits)) % k
    target[-1] = 0  # the last row masks the odd classes
    each = mgce_loss(logits, target, beta=beta, reduction="none", backend="torch")
    assert (each >= 0).all() and each.isfinite().all()
    (gradient,) = torch.autograd.grad(each.sum(), logits)
    _, expected = loss_and_gradient(logits.detach(), target, beta)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=16 * torch.finfo(dtype).eps)


def test_loss_does_not_cancel_at_large_logits():
    logits = torch.tensor([[1e4, 1e4 - 0.5, 0.0]])
    exact = mgce_loss(logits.double(), torch.tensor([1]), beta=1.4)
    assert abs(mgce_loss(logits, torch.tensor([1]), beta=1.4).double() - exact) < 2e-7
    naive = -logits[0, 1] - normalizer(logits, beta=1.4)
    assert abs(naive.double() - exact) > 1e-5  # what -f_y - phi would give


def test_one_beta_for_each_row():
    logits, target = torch.randn(5, 7), torch.tensor([0, 1, 2, 3, 4])
    betas = torch.tensor([1.0, 1.05, 1.4, 11.0, inf])
    together = mgce_loss(logits, target, beta=betas, reduction="none")
    alone = [mgce_loss(f, y, beta=b.item()) for f, y, b in zip(logits, target, betas, strict=True)]
    torch.testing.assert_close(together, torch.stack(alone), rtol=0, atol=1e-6)
    pixels = torch.randn(2, 7, 3)
    by_column = mgce_loss(pixels, torch.zeros(2, 3, dtype=torch.int64), beta=torch.tensor([1.0, 1.4, inf]))
    assert by_column.isfinite()


def test_beta_can_be_learnt():
    beta = torch.tensor(1.4, requires_grad=True)
    logits, target = torch.tensor([[0.5, 0.0, 0.25, -1.0]]), torch.tensor([2])
    mgce_loss(logits, target, beta=beta).backward()
    assert abs(beta.grad.item() - 0.2011327591) < 1e-6  # minus dphi/dbeta: minimising drives beta to 1


def test_soft_target_may_give_a_masked_class_nothing():
    logits = torch.tensor([[0.5, -inf, 0.25]], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([[0.5, 0.0, 0.5]], dtype=torch.float64)
    loss = mgce_loss(logits, q, beta=1.4)
    dropped = mgce_loss(logits.detach()[:, [0, 2]], q[:, [0, 2]], beta=1.4)
    torch.testing.assert_close(loss, dropped)
    assert torch.autograd.grad(loss, logits)[0].isfinite().all()


def test_autocast_gives_float32_as_cross_entropy():
    logits, target = torch.randn(4, 5, dtype=torch.bfloat16, requires_grad=True), torch.tensor([0, 1, 2, 3])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = mgce_loss(logits, target, weight=torch.rand(5))
        assert loss.dtype == F.cross_entropy(logits, target).dtype == torch.float32
    loss.backward()
    assert logits.grad.dtype == torch.bfloat16


def test_reference_backend_is_float64_inside():
    logits, target = torch.randn(50, 1000), torch.randint(1000, (50,))
    reference = mgce_loss(logits, target, backend="reference", reduction="none")
    truth = mgce_loss(logits.double(), target, reduction="none").float()
    assert reference.dtype == torch.float32
    torch.testing.assert_close(reference, truth, rtol=0, atol=0)


def test_unknown_backend_and_beta_are_refused():
    logits, target = torch.randn(2, 3), torch.tensor([0, 1])
    with pytest.raises(ValueError, match="Expected `backend` to be one of 'auto'"):
        mgce_loss(logits, target, backend="tpu")
    with pytest.raises(ValueError, match=r"Expected `beta` to be a float in \[1, inf\], but got 0\.5\."):
        mgce_loss(logits, target, beta=0.5)
    with pytest.raises(ValueError, match="Expected `beta` to be of a shape that broadcasts to the rows"):
        mgce_loss(logits, target, beta=torch.ones(3))


@pytest.mark.slow
def test_a_training_step_compiles_and_exports():
    torch._dynamo.reset()
    model = torch.nn.Linear(6, 4)
    x, y = torch.randn(8, 6), torch.randint(4, (8,))

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, y):
            return mgce_loss(self.model(x), y, beta=1.4)

    step = Step()
    torch.testing.assert_close(torch.compile(step, fullgraph=True)(x, y), step(x, y))
    torch.testing.assert_close(torch.export.export(step, (x, y)).module()(x, y), step(x, y))


@pytest.mark.parametrize("backend", ["auto", "torch", "reference"])
@pytest.mark.parametrize("fill", [math.nan, -math.inf, math.inf])
def test_an_ignored_row_has_no_gradient_whatever_it_holds(backend, fill):
    """Such as padding: also in a learnt beta, with a graph, and under torch.func, where no kernel runs."""
    logits, target = torch.randn(4, 3), torch.tensor([0, -100, 2, 1])
    logits[1] = fill
    kept = [0, 2, 3]

    def loss(f, y, beta=2.0):
        return mgce_loss(f, y, beta=beta, backend=backend)

    clean = logits[kept].requires_grad_()
    (want,) = torch.autograd.grad(loss(clean, target[kept]), clean)
    expected = torch.zeros(4, 3).index_copy(0, torch.tensor(kept), want)
    leaf = logits.requires_grad_()
    for graph in (False, True):
        (found,) = torch.autograd.grad(loss(leaf, target), leaf, create_graph=graph)
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.func.grad(loss)(logits.detach(), target), expected)
    betas = [torch.tensor(2.0, requires_grad=True) for _ in range(2)]
    if backend != "reference":
        loss(logits.detach(), target, betas[0]).backward()
        loss(logits.detach()[kept], target[kept], betas[1]).backward()
        torch.testing.assert_close(betas[0].grad, betas[1].grad)
