import copy
import math

import mpmath
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from contracts.loss_contract import K
from contracts.robust_loss_contract import RobustLossContract, softmax
from mgce import (
    BiTemperedLoss,
    ForwardCorrection,
    GCELoss,
    LinearMGCELoss,
    LogitClip,
    LogitScale,
    MGCELoss,
    NCELoss,
    RCELoss,
    SumLoss,
    TrimmedLoss,
)
from mgce.functional import (
    clip_logits,
    forward_corrected_logits,
    gce_loss,
    mgce_loss,
    minimax_probs,
    nce_loss,
    rce_loss,
    unhinged_loss,
    worst_case_probs,
)
from mgce.noise import asymmetric, symmetric
from oracle import probabilities

CE = nn.CrossEntropyLoss
LOGITS, TARGET = torch.randn(9, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), torch.arange(9) % K


class TestSumOfNCEAndRCE(RobustLossContract):
    most = 1 + 10 * -math.log(1e-4)
    symmetric = True

    @staticmethod
    def loss(input, target, **keywords):
        return SumLoss([NCELoss(**keywords), RCELoss(**keywords)], [1.0, 10.0])(input, target)

    @staticmethod
    def formula(logits, y):
        p = softmax(logits)
        return mpmath.log(p[y]) / sum(mpmath.log(u) for u in p) - 10 * mpmath.log(1e-4) * (1 - p[y])


class Poly1(RobustLossContract):
    @classmethod
    def loss(cls, input, target, **keywords):
        parts = [GCELoss(**keywords, beta=math.inf), GCELoss(**keywords, beta=1.0)]
        return SumLoss(parts, [1.0, cls.epsilon])(input, target)

    @classmethod
    def formula(cls, logits, y):
        p = softmax(logits)[y]
        return -mpmath.log(p) + cls.epsilon * (1 - p)


class TestPoly1(Poly1):
    epsilon = 1.0
    convex = True


class TestPoly1Negative(Poly1):
    epsilon = -1.0
    convex = True


class TestPoly1Large(Poly1):
    epsilon = 4.0


class TestLogitClip(RobustLossContract):
    most = math.log(1 + 4 * math.exp(math.sqrt(2) / 0.5))

    @staticmethod
    def loss(input, target, **keywords):
        return LogitClip(GCELoss(**keywords, beta=math.inf), delta=0.5)(input, target)

    @staticmethod
    def formula(logits, y):
        f = [mpmath.mpf(v) for v in logits]
        length = mpmath.sqrt(sum(v * v for v in f))
        return -mpmath.log(softmax([v * min(1, 1 / (mpmath.mpf("0.5") * length)) for v in f])[y])

    def test_the_bounds_are_reached(self):
        """By no class of more than two: the bound lets one logit gain on all others what it can gain on one."""
        wrong = self.loss(torch.tensor([-9.0, 9.0], dtype=torch.float64), torch.tensor(0))
        assert wrong == pytest.approx(math.log(1 + math.exp(math.sqrt(2) / 0.5)))

    def test_there_is_one_class(self):
        assert self.loss(torch.tensor([[3.0], [-5.0]]), torch.tensor([0, 0])) == 0


class Forward(RobustLossContract):
    drops_masked_classes = False  # a class without probability may still be the label, by noise

    def test_there_is_one_class(self):
        assert ForwardCorrection(CE(), torch.ones(1, 1))(torch.tensor([[3.0]]), torch.tensor([0])) == 0


class TestForwardCrossEntropy(Forward):
    T = symmetric(K, 0.4)
    least, most = -math.log(0.6), -math.log(0.1)

    @classmethod
    def loss(cls, input, target, **keywords):
        return ForwardCorrection(GCELoss(**keywords, beta=math.inf), cls.T)(input, target)

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
        return ForwardCorrection(MGCELoss(**keywords, beta=cls.beta), cls.T)(input, target)

    @classmethod
    def formula(cls, logits, y):
        _, p = probabilities(logits, cls.beta)
        q = [sum(p[i] * mpmath.mpf(cls.T[i, j].item()) for i in range(K)) for j in range(K)]
        alpha = mpmath.mpf(cls.beta) / (cls.beta - 1)
        h = q[y] ** alpha / sum(u**alpha for u in q)
        return cls.beta * (1 - h ** (1 / mpmath.mpf(cls.beta)))


def test_sums():
    value = SumLoss([NCELoss(reduction="none"), RCELoss(reduction="none")], [2.0, 3.0])(LOGITS, TARGET)
    want = 2 * nce_loss(LOGITS, TARGET, reduction="none") + 3 * rce_loss(LOGITS, TARGET, reduction="none")
    torch.testing.assert_close(value, want)
    # 0 * inf would be NaN: a loss of weight 0 is not there.
    masked = torch.tensor([[0.0, -math.inf, 1.0]])
    assert SumLoss([CE(), RCELoss()], [0.0, 1.0])(masked, torch.tensor([1])).isfinite()
    assert "weights=(2.0, 3.0)" in repr(SumLoss([NCELoss(), CE()], (2.0, 3.0)))


def two_levels(k, radius):
    """Give rows of length `radius` and mean 0 whose first m logits are equal and above the others, for each m < k."""
    m = torch.arange(1, k, dtype=torch.float64)[:, None]
    rows = torch.where(torch.arange(k) < m, 1 / m, -1 / (k - m))
    return radius * rows / rows.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("k", [2, 3, 10, 26])
@pytest.mark.parametrize("radius", [0.01, 0.1, 0.5, 1.0, 3.0])
def test_in_a_ball_mgce_is_symmetric_up_to_a_known_number(k, radius):
    """At beta = 1: the spread of the mean over all labels is max_m x_m (radius - x_m), x_m^2 = 1 / m - 1 / k."""
    criterion = LogitClip(MGCELoss(beta=1.0, reduction="none"), delta=1 / radius)

    def mean_over_labels(rows):
        each = criterion(rows.repeat_interleave(k, 0), torch.arange(k).repeat(len(rows)))
        return each.view(-1, k).mean(1)

    least = (k - 1) / k  # at f = 0
    x = (1 / torch.arange(1, k, dtype=torch.float64) - 1 / k).sqrt()
    most = least + (x * (radius - x)).clamp(min=0).max()
    inside = mean_over_labels(torch.randn(500, k, dtype=torch.float64) * 3 * torch.rand(500, 1, dtype=torch.float64))
    assert inside.min() >= least - 1e-13 and inside.max() <= most + 1e-13
    torch.testing.assert_close(mean_over_labels(two_levels(k, radius)).max(), most)


@pytest.mark.parametrize("k", [2, 3, 10, 26])
def test_in_a_small_ball_mgce_is_the_unhinged_loss(k):
    rows, target = two_levels(k, 1 / math.sqrt(k * (k - 1))), torch.arange(k - 1)
    want = unhinged_loss(rows, target, reduction="none") - 1 / k
    torch.testing.assert_close(mgce_loss(rows, target, beta=1.0, reduction="none"), want)
    beyond = mgce_loss(1.1 * rows, target, beta=1.0, reduction="none") - unhinged_loss(
        1.1 * rows, target, reduction="none"
    )
    assert (beyond + 1 / k).max() > 1e-3 / k


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("beta", [1.0, 1.05, 1.4, 4.0, math.inf])
def test_the_mean_over_labels_bends_at_equal_logits_as_the_theory_says(k, beta):
    def mean_over_labels(row):
        return mgce_loss(row.expand(k, k), torch.arange(k), beta=beta)

    hessian = torch.autograd.functional.hessian(mean_over_labels, torch.zeros(k, dtype=torch.float64))
    bend = 1 / k if math.isinf(beta) else (1 - 1 / beta) * k ** (1 / beta) / k
    want = bend * (torch.eye(k, dtype=torch.float64) - 1 / k)
    torch.testing.assert_close(hessian, want, rtol=1e-9, atol=1e-12)


def test_clipped_rows_have_the_length_and_short_ones_stay():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [-math.inf, 5.0]], dtype=torch.float64, requires_grad=True)
    clipped = clip_logits(rows, delta=0.5)
    want = torch.tensor([[1.2, 1.6], [0.3, 0.4], [0.0, 0.0], [-math.inf, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(clipped, want)
    torch.testing.assert_close(clip_logits(rows.T, delta=0.5, dim=0), want.T)
    (gradient,) = torch.autograd.grad(clipped[:, 1].sum(), rows)
    assert gradient.isfinite().all()


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


def test_links():
    softmaxed = LOGITS.softmax(-1)
    for criterion in (
        SumLoss([NCELoss(), RCELoss()], [1, 1]),
        SumLoss([CE()], [1]),
        ForwardCorrection(CE(), torch.eye(K)),
    ):
        torch.testing.assert_close(criterion.link(LOGITS), softmaxed)
    torch.testing.assert_close(LogitClip(CE(), 2.0).link(LOGITS), clip_logits(LOGITS, delta=2.0).softmax(-1))
    torch.testing.assert_close(LogitClip(MGCELoss()).link(LOGITS), minimax_probs(clip_logits(LOGITS), beta=1.4))
    corrected = ForwardCorrection(MGCELoss(beta=2.0), torch.eye(K))
    torch.testing.assert_close(corrected.link(LOGITS), worst_case_probs(LOGITS, beta=2.0))


def test_the_link_of_a_sum_is_that_of_a_loss_that_counts():
    criterion = SumLoss([MGCELoss(), NCELoss()], [0, 1])
    torch.testing.assert_close(criterion.link(LOGITS), LOGITS.softmax(-1))
    got = ForwardCorrection(criterion, symmetric(K, 0.2))(LOGITS, TARGET)
    torch.testing.assert_close(got, ForwardCorrection(NCELoss(), symmetric(K, 0.2))(LOGITS, TARGET))


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


class Focal(nn.Module):
    """A loss as users write them: another inside, class weights of its own, a reduction that is nobody's business."""

    def __init__(self, weight=None):
        super().__init__()
        self.ce = CE(reduction="none")
        self.register_buffer("class_weight", weight)

    def forward(self, input, target):
        losses = F.cross_entropy(input, target, self.class_weight, reduction="none")
        return ((1 - (-self.ce(input, target)).exp()) * losses).mean()


def test_losses_of_users_are_losses():
    criterion = SumLoss([Focal(), MGCELoss()], [1, 1])
    torch.testing.assert_close(criterion(LOGITS, TARGET), Focal()(LOGITS, TARGET) + MGCELoss()(LOGITS, TARGET))
    SumLoss([CE(reduction="none"), NCELoss()], [0, 1])(LOGITS, TARGET)  # what is not computed may differ
    own = Focal()
    own.reduction, own.ignore_index, own.dim = None, None, torch.zeros(2)  # names that mean something else there
    SumLoss([own, NCELoss()], [1, 1])(LOGITS, TARGET)
    half = LOGITS.half()
    for loss in (Focal(), Focal(torch.ones(K).half())):
        torch.testing.assert_close(LogitScale(loss, 2.0)(half, TARGET), loss(2 * half, TARGET), rtol=2e-3, atol=0)


def test_weights_that_are_all_0_are_refused():
    with pytest.raises(ValueError, match="Expected `weights` to be not all 0, but got"):
        SumLoss([RCELoss(), NCELoss()], [0.0, 0])


@pytest.mark.parametrize("wrap", [LogitScale, LogitClip, lambda loss: SumLoss([loss], [1.0])])
def test_class_weights_have_to_be_of_the_type_of_half_logits(wrap):
    loss = wrap(NCELoss(torch.ones(K)))
    with pytest.raises(RuntimeError, match="Expected `weight` to be of the dtype of `input`, torch.float16"):
        loss(LOGITS.half(), TARGET)
    assert loss.half()(LOGITS.half(), TARGET).dtype == torch.float16


def test_class_weights_that_are_a_number():
    loss = CE()
    loss.weight = None
    outer = nn.Module()
    outer.weight, outer.reduction, outer.forward = 0.5, "mean", lambda x, y: 0.5 * loss(x, y)
    torch.testing.assert_close(LogitScale(outer)(LOGITS.half(), TARGET), 0.5 * loss(LOGITS.half(), TARGET))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_logits_of_any_size_are_clipped_to_the_length(dtype):
    """Also where the square of a logit, or its product with delta, is beyond the type."""
    for size in (1.0, 1e18, 1e20, 1e30, *((1e200, 1e300) if dtype == torch.float64 else ())):
        for delta in (1.0, 1e-3, 1e20):
            rows = torch.tensor([[0.75 * size, size, 0.0, -math.inf]], dtype=torch.float64).to(dtype)
            if delta * size * 1.25 <= 1:
                continue
            got = clip_logits(rows, delta=delta).double() * delta
            want = torch.tensor([[0.6, 0.8, 0.0, -math.inf]], dtype=torch.float64)
            torch.testing.assert_close(got, want, rtol=4 * torch.finfo(dtype).eps, atol=0)
    assert clip_logits(torch.tensor([[1.0, math.nan]])).isnan().all()
    for delta in (1e-13, 1e-20, 1e-30):  # far too long for any row to be clipped
        row = torch.tensor([[1.0, 2.0]], requires_grad=True)
        (grad,) = torch.autograd.grad(clip_logits(row, delta=delta).square().sum(), row, create_graph=True)
        assert torch.equal(grad, 2 * row) and torch.equal(
            torch.autograd.grad(grad.sum(), row)[0], torch.full((1, 2), 2.0)
        )
    zero = torch.zeros(2, 3, requires_grad=True)
    (grad,) = torch.autograd.grad(clip_logits(zero).sum(), zero)
    assert torch.equal(grad, torch.ones(2, 3))


def test_clipping_has_the_derivatives_of_its_formula():
    rows = torch.tensor([[3.0, -4.0, 1.0], [0.1, 0.2, -0.3]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(clip_logits, rows) and torch.autograd.gradgradcheck(clip_logits, rows)


def test_wrappers_nest_and_copy():
    inner = ForwardCorrection(SumLoss([CE(), RCELoss()], [1.0, 2.0]), symmetric(K, 0.2))
    criterion = copy.deepcopy(LogitClip(inner, 0.5)).double()
    want = inner.double()(clip_logits(LOGITS, delta=0.5), TARGET)
    torch.testing.assert_close(criterion(LOGITS, TARGET), want)
    assert list(criterion.state_dict()) == ["loss.transition"]


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: SumLoss([], []), "Expected `weights` to be one number for each of 0 losses"),
        (lambda: SumLoss([CE()], [1.0, 2.0]), "Expected `weights` to be one number for each of 1 losses"),
        (lambda: SumLoss([CE()], [math.inf]), r"Expected `weights\[0\]` to be a finite number in \(-inf, inf\)"),
        (lambda: SumLoss([CE(reduction="none"), NCELoss()], [1, 1]), "Expected `losses` to be losses of one reduction"),
        (lambda: SumLoss([CE(ignore_index=1), NCELoss()], [1, 1]), r"losses of one ignore_index, but got .1, -100"),
        (lambda: SumLoss([NCELoss(), RCELoss(dim=-1)], [1, 1]), r"of one dim, but got .None, -1"),
        (lambda: LogitClip(CE(), 0), "Expected `delta`"),
        (
            lambda: ForwardCorrection(CE(), torch.ones(2, 2)),
            "Expected `transition` to be a tensor whose rows sum to one",
        ),
        (lambda: ForwardCorrection(CE(), torch.ones(2, 3)), r"Expected `transition` to be a tensor of shape \(k, k\)"),
        (lambda: ForwardCorrection(MGCELoss(beta=1), torch.eye(2)), "Expected `beta` to be one number above 1"),
        (
            lambda: ForwardCorrection(BiTemperedLoss(), torch.eye(2)),
            "Expected `loss` to be a loss of softmax, or of MGCE's",
        ),
        (
            lambda: ForwardCorrection(CE(), torch.eye(2))(LOGITS, TARGET),
            r"Expected `transition` to be of shape \(5, 5\)",
        ),
    ],
)
def test_bad_arguments(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    "make, name",
    [
        (lambda: LogitScale("ce"), "loss"),
        (lambda: LogitClip(F.cross_entropy), "loss"),
        (lambda: LogitClip(NCELoss), "loss"),
        (lambda: ForwardCorrection(None, torch.eye(2)), "loss"),
        (lambda: SumLoss(NCELoss(), [1.0]), "losses"),
        (lambda: SumLoss(None, [1.0]), "losses"),
        (lambda: SumLoss([NCELoss()], 1.0), "weights"),
        (lambda: SumLoss([NCELoss(), "rce"], [1.0, 1.0]), r"losses\[1\]"),
    ],
)
def test_what_is_no_loss_is_named(make, name):
    with pytest.raises(TypeError, match=f"Expected `{name}` to be a (module|sequence), but got"):
        make()


@pytest.mark.parametrize(
    "wrap, name",
    [
        (LogitScale, "loss"),
        (LogitClip, "loss"),
        (lambda loss: ForwardCorrection(loss, torch.eye(5)), "loss"),
        (lambda loss: TrimmedLoss(loss, 0.4, 5), "loss"),
        (lambda loss: SumLoss([NCELoss(reduction="none"), loss], [1.0, 1.0]), r"losses\[1\]"),
        (lambda loss: LogitClip(SumLoss([loss], [1.0])), r"losses\[0\]"),
    ],
)
@pytest.mark.parametrize("head", [LinearMGCELoss, getattr(torch.nn, "LinearCrossEntropyLoss", LinearMGCELoss)])
def test_losses_with_a_head_of_their_own_take_no_logits(wrap, name, head):
    with pytest.raises(TypeError, match=f"Expected `{name}` to be a loss of logits, without a linear head, but got"):
        wrap(head(8, 5, reduction="none"))


@pytest.mark.parametrize("depth", [1.0, 600.0, 680.0, 2000.0])
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
    ours, theirs = (torch.autograd.grad(value.sum(), logits)[0] for value in (got, other))
    torch.testing.assert_close(ours, theirs)
