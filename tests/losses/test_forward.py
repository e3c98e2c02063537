import copy
import math

import mpmath
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from contracts.loss_contract import K
from contracts.robust_loss_contract import RobustLossContract, softmax
from mgce import ForwardCorrection, GCELoss, LearnedForwardCorrection, MGCELoss, TrimmedLoss
from mgce.functional import forward_corrected_logits, gce_loss, mgce_loss, worst_case_probs
from mgce.losses import NCELoss, SumLoss
from mgce.noise import asymmetric, symmetric
from oracle import probabilities

CE = nn.CrossEntropyLoss
LOGITS, TARGET = torch.randn(9, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), torch.arange(9) % K


class Forward(RobustLossContract):
    drops_masked_classes = False  # a class without probability may still be the label, by noise

    def test_there_is_one_class(self):
        assert ForwardCorrection(CE(), torch.ones(1, 1))(torch.tensor([[3.0]]), torch.tensor([0])) == 0


class TestForwardCrossEntropy(Forward):
    T = symmetric(K, 0.4)
    least, most = -math.log(0.6), -math.log(0.1)

    @classmethod
    def loss(cls, input, target, **keywords):
        return ForwardCorrection(GCELoss(**keywords, beta=math.inf), cls.T.to(input.device))(input, target)

    @classmethod
    def formula(cls, logits, y):
        return -mpmath.log(sum(p * mpmath.mpf(t) for p, t in zip(softmax(logits), cls.T[:, y].tolist(), strict=True)))


class TestForwardMGCE(Forward):
    """MGCE as a loss of probabilities, at q = p T: beta (1 - h_y^(1 / beta)) with h proportional to q^alpha."""

    T, beta = symmetric(K, 0.4), 2.0
    least = 2.0 * (1 - 0.6 / math.sqrt(0.6**2 + 4 * 0.1**2))
    most = 2.0 * (1 - 0.1 / math.sqrt(0.6**2 + 4 * 0.1**2))

    @classmethod
    def loss(cls, input, target, **keywords):
        return ForwardCorrection(MGCELoss(**keywords, beta=cls.beta), cls.T.to(input.device))(input, target)

    @classmethod
    def formula(cls, logits, y):
        _, p = probabilities(logits, cls.beta)
        q = [sum(p[i] * mpmath.mpf(cls.T[i, j].item()) for i in range(K)) for j in range(K)]
        alpha = mpmath.mpf(cls.beta) / (cls.beta - 1)
        h = q[y] ** alpha / sum(u**alpha for u in q)
        return cls.beta * (1 - h ** (1 / mpmath.mpf(cls.beta)))


# Nearer to 1, logits in float64 cannot express all p: one of 0.1 needs v of (0.1)^(1 / (beta - 1)) beside 1.
@pytest.mark.parametrize("beta", [1.4, 2.0, 11.0, 1e6, math.inf])
def test_the_corrected_logits_have_the_probabilities_after_noise(beta):
    T = asymmetric({0: 1, 2: 3}, K, 0.3)
    corrected = forward_corrected_logits(LOGITS, T, beta=beta)
    p = worst_case_probs(LOGITS, beta=beta)
    # p is v^(beta - 1), with v known to a few eps: below beta = 2 that is all that logits say of a small p.
    known = (4 * torch.finfo(torch.float64).eps) ** min(1, beta - 1)
    tolerance = 1e-12 if math.isinf(beta) else max(1e-13 * beta, known)
    torch.testing.assert_close(worst_case_probs(corrected, beta=beta), p @ T.double(), rtol=0, atol=tolerance)
    moved = forward_corrected_logits(LOGITS.T, T, beta=beta, dim=0)
    torch.testing.assert_close(moved.T, corrected)


@pytest.mark.parametrize("beta", [1.05, 1.4, 2.0, 11.0])
def test_without_noise_the_corrected_loss_is_that_of_h(beta):
    criterion = ForwardCorrection(MGCELoss(beta=beta, reduction="none"), torch.eye(K))
    want = mgce_loss(3 * LOGITS, TARGET, beta=beta, reduction="none").clamp(max=beta)
    torch.testing.assert_close(criterion(3 * LOGITS, TARGET), want, rtol=0, atol=1e-12)
    gce = ForwardCorrection(GCELoss(beta=beta), torch.eye(K))
    torch.testing.assert_close(gce(LOGITS, TARGET), gce_loss(LOGITS, TARGET, beta=beta))


@pytest.mark.parametrize("make", [CE, lambda: MGCELoss(beta=2.0)])
def test_the_corrected_loss_is_least_at_the_probabilities_before_noise(make):
    """The theorem of Patrini et al.: with labels as noise makes them of q, link(f) = q."""
    q, T = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64), symmetric(3, 0.4).double()
    criterion = ForwardCorrection(make(), T)
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = criterion(logits, q @ T)
        loss.backward()
        return loss

    optimizer.step(closure)
    torch.testing.assert_close(criterion.link(logits.detach()), q, rtol=0, atol=1e-5)


def test_a_label_that_no_class_leads_to():
    T = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    logits = torch.tensor([[0.3, 0.2]], requires_grad=True)
    each = forward_corrected_logits(logits, T)
    assert each[0, 1] == -math.inf and each[0, 0] == 0
    (gradient,) = torch.autograd.grad(each[0, 0], logits)
    assert gradient.isfinite().all()
    assert ForwardCorrection(MGCELoss(beta=2.0), T)(logits, torch.tensor([1])) == 2.0
    far = torch.tensor([[200.0, 0.0]], requires_grad=True)  # e^-200 underflows; its logarithm must not
    value = ForwardCorrection(CE(), torch.eye(2))(far, torch.tensor([1]))
    assert value == 200 and torch.autograd.grad(value, far)[0].tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize("depth", [1.0, 340.0, 360.0, 600.0, 680.0, 2000.0])
def test_a_label_all_but_impossible_keeps_its_digits(depth):
    """Label 1 comes of class 1 alone: beyond some depth its probability is no number of float64, its logarithm is."""
    transition = asymmetric({0: 2}, 3, 0.4).double()
    logits = torch.tensor([[0.0, -depth, -depth / 2], [0.5, 0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    got = forward_corrected_logits(logits, transition)
    for row, values in zip(got.tolist(), logits.tolist(), strict=True):
        p = softmax(values)
        want = [mpmath.log(mpmath.fsum(p[i] * transition[i, j].item() for i in range(3))) for j in range(3)]
        assert row == pytest.approx(list(map(float, want)), rel=1e-13, abs=1e-15)
    # The way of k^2 numbers a row, which transforms take, has the same values and derivatives.
    other = torch.func.vmap(lambda f: forward_corrected_logits(f, transition))(logits)
    torch.testing.assert_close(other, got)
    firsts = [torch.autograd.grad(value[:, 1].sum(), logits, create_graph=True)[0] for value in (got, other)]
    torch.testing.assert_close(*firsts)
    torch.testing.assert_close(*(torch.autograd.grad(first[:, 0].sum(), logits)[0] for first in firsts))


@pytest.mark.parametrize("losses", [[MGCELoss(), NCELoss()], [NCELoss(), MGCELoss()], [MGCELoss(), MGCELoss(beta=2.0)]])
def test_noise_is_corrected_for_one_link(losses):
    """A sum does not change when its terms change places, and neither does what is refused."""
    none = copy.deepcopy(losses)
    for loss in none:
        loss.reduction = "none"
    for criterion in (SumLoss(losses, [1, 1]), TrimmedLoss(SumLoss(none, [1, 1]), 0.2, K)):
        with pytest.raises(ValueError, match="Expected `loss` to be a sum of losses with one link"):
            ForwardCorrection(criterion, symmetric(K, 0.2))


def test_one_link_may_be_said_in_two_ways():
    losses = [CE(), NCELoss(dim=1), NCELoss()]
    got = ForwardCorrection(SumLoss(losses, [1, 1, 1]), symmetric(K, 0.2))(LOGITS, TARGET)
    want = sum(ForwardCorrection(loss, symmetric(K, 0.2))(LOGITS, TARGET) for loss in losses)
    torch.testing.assert_close(got, want)


def by_the_matrix(logits, target, T, beta):
    """Return the loss of each row, by all entries of p T, in plain operations."""
    q = (logits.softmax(-1) @ T).gather(-1, target[..., None])[..., 0]
    return -q.log() if math.isinf(beta) else beta * (1 - q ** (1 / beta))


@pytest.mark.parametrize("beta", [1.0, 3.0, math.inf])
@pytest.mark.parametrize("least", [0.0, 1e-6])
def test_one_column_of_the_matrix_gives_the_loss_and_gradients_of_the_whole(beta, least):
    T = symmetric(K, 0.3).double() @ asymmetric({0: 1, 2: 3}, K, 0.3).double()
    criterion = ForwardCorrection(GCELoss(beta=beta, reduction="none"), T)
    criterion.least = least  # the least entry of T that is known of: the learnt matrix has one
    criterion.double()
    leaves = [(3 * LOGITS).requires_grad_() for _ in range(2)]
    values = criterion(leaves[0], TARGET), by_the_matrix(leaves[1], TARGET, T, beta)
    torch.testing.assert_close(*values, rtol=1e-13, atol=1e-14)
    firsts = [torch.autograd.grad(v.cos().sum(), x, create_graph=True)[0] for v, x in zip(values, leaves, strict=True)]
    torch.testing.assert_close(*firsts, rtol=1e-12, atol=1e-14)
    seconds = [torch.autograd.grad(g.sin().sum(), x)[0] for g, x in zip(firsts, leaves, strict=True)]
    torch.testing.assert_close(*seconds, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("beta", [1.0, 3.0, math.inf])
@pytest.mark.parametrize("least", [0.99e-4, 1.01e-4, 0.05])
def test_a_known_matrix_keeps_the_digits_of_the_least_loss(beta, least):
    """From entries of 1e-4 on the loss is computed without logarithms, in float32 too."""
    T = torch.full((K, K), least).fill_diagonal_(1 - (K - 1) * least)
    logits = (40 * torch.eye(K)).requires_grad_()
    exact = logits.detach().double().requires_grad_()
    value = ForwardCorrection(GCELoss(beta=beta, reduction="none"), T)(logits, torch.arange(K))
    wanted = by_the_matrix(exact, torch.arange(K), T.double(), beta)
    torch.testing.assert_close(value, wanted.float(), rtol=1e-3, atol=0)
    firsts = [torch.autograd.grad(loss.sum(), leaf)[0] for loss, leaf in ((value, logits), (wanted, exact))]
    torch.testing.assert_close(firsts[0], firsts[1].float(), rtol=1e-3, atol=1e-7)


def plain_sum(weight, **options):
    return SumLoss([GCELoss(weight, beta=math.inf, **options), GCELoss(weight, beta=2.0, **options)], [0.5, 2.0])


@pytest.mark.parametrize("make", [CE, GCELoss, lambda *args, **kwargs: GCELoss(*args, beta=1.0, **kwargs), plain_sum])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_one_column_has_the_options_of_the_loss(make, reduction):
    """With a label smoothing of almost 0 the same loss needs all of p T."""
    weight, T = torch.rand(K, dtype=torch.float64) + 0.5, symmetric(K, 0.3).double()
    target = torch.where(TARGET == 1, -7, TARGET)
    column, whole = (
        ForwardCorrection(make(weight, ignore_index=-7, reduction=reduction, label_smoothing=share), T)
        for share in (0.0, 1e-300)
    )
    torch.testing.assert_close(column(LOGITS, target), whole(LOGITS, target))
    maps = LOGITS[:8].view(2, 4, K).movedim(-1, 1)
    torch.testing.assert_close(column(maps, target[:8].view(2, 4)), whole(maps, target[:8].view(2, 4)))


@pytest.mark.parametrize("make", [CE, GCELoss])
def test_class_indices_cost_no_matrix_product(make):
    """Nor do they cost k^2 numbers a row, which the other way takes where values cannot be read, as in this mode."""
    leaf, flops = LOGITS.float().requires_grad_(), FlopCounterMode(display=False)
    learnt = LearnedForwardCorrection(K, make())
    with flops:
        learnt(leaf, TARGET).backward()
    assert flops.get_total_flops() == 0
    with flops:
        learnt(leaf, LOGITS.float().softmax(1)).backward()
    assert flops.get_total_flops() > 0

    largest = [0]

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            largest[0] = max(largest[0], out.numel() if isinstance(out, torch.Tensor) else 0)
            return out

    with Watch():
        ForwardCorrection(make(), symmetric(K, 0.3))(leaf, TARGET)
    assert largest[0] == leaf.numel()


@pytest.mark.parametrize("wrong", [K, -1, -100])
def test_a_label_that_is_no_class_is_named(wrong):
    criterion = ForwardCorrection(CE(ignore_index=K + 1), symmetric(K, 0.3))
    with pytest.raises(IndexError, match=rf"Expected `target` to be class indices in \[0, {K}\).* got {wrong}\."):
        criterion(LOGITS, torch.where(TARGET == 1, wrong, TARGET))


@pytest.mark.parametrize("criterion", [ForwardCorrection(CE(), symmetric(K, 0.3)), LearnedForwardCorrection(K)])
def test_compiled_it_is_one_graph_with_the_same_gradients(criterion):
    plain, leaves = copy.deepcopy(criterion), [LOGITS.float().requires_grad_() for _ in range(2)]
    compiled = torch.compile(criterion, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        for one, leaf in zip((compiled, plain), leaves, strict=True):
            one(leaf, TARGET).backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad)
    torch.testing.assert_close(criterion.transition, plain.transition)
