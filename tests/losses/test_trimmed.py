"""TrimmedLoss against lists of the last losses, kept by hand."""

import collections
import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mgce import ForwardCorrection, GCELoss, MGCELoss, TrimmedLoss, robust_loss
from mgce.functional import minimax_probs
from mgce.kernels import cpu
from mgce.losses import LogitScale, NCELoss, RCELoss, SumLoss
from mgce.losses.trimmed import RecentLosses
from mgce.noise import symmetric
from mgce_lab.losses import LogitClip

K = 4
CE = nn.CrossEntropyLoss


def batches(sizes, seed=0, k=K):
    generator = torch.Generator().manual_seed(seed)
    for n in sizes:
        yield torch.randn(n, k, generator=generator), torch.randint(k, (n,), generator=generator)


class ByHand:
    """The rows to keep, by a list of the last losses of each label."""

    def __init__(self, trim, window):
        self.trim, self.window = trim, window
        self.lists = collections.defaultdict(lambda: collections.deque(maxlen=window))

    def share(self, label):
        return self.trim[label] if isinstance(self.trim, list) else self.trim

    def __call__(self, losses, target):
        for label in target.unique().tolist():
            own = losses[target == label].tolist()
            step = max(1, len(own) / self.window)  # of more than the window has places for, as many evenly spaced
            self.lists[label].extend(own[math.ceil(j * step - 1e-9)] for j in range(min(len(own), self.window)))
        quantile = {y: self.quantile(y, losses[target == y].tolist()) for y in target.unique().tolist()}
        return torch.tensor([a <= quantile[y] for a, y in zip(losses.tolist(), target.tolist(), strict=True)])

    def quantile(self, label, own):
        ranked = sorted(own if len(own) > self.window else self.lists[label])
        return ranked[len(ranked) - math.floor(self.share(label) * len(ranked) + 1e-6) - 1]


@pytest.mark.parametrize("trim", [0.0, 0.25, 0.5, 0.9, [0.29, 0.0, 0.7, 0.4]])
@pytest.mark.parametrize("window", [1, 3, 16, 256])
def test_rows_above_the_quantile_of_the_last_losses_of_their_label_are_left_out(trim, window):
    criterion = TrimmedLoss(CE(reduction="none"), trim, K, window=window)
    hand = ByHand(trim, window)
    for logits, target in batches([1, 5, 40, 2, 0, 100, 7, 33]):  # of no label any, or more than the window has places
        losses = F.cross_entropy(logits, target, reduction="none")
        kept = hand(losses, target) if len(target) else torch.ones(0, dtype=torch.bool)
        leaf = logits.clone().requires_grad_()
        loss = criterion(leaf, target)
        if len(target) == 0:
            assert loss.isnan()  # as the mean of cross-entropy
            continue
        torch.testing.assert_close(loss.detach(), losses[kept].sum() / max(1, kept.sum()))
        want = (logits.softmax(1) - F.one_hot(target, K)) * kept[:, None] / max(1, kept.sum())
        torch.testing.assert_close(torch.autograd.grad(loss, leaf)[0], want)


def test_of_many_rows_the_share_is_left_out_of_each_label():
    criterion = TrimmedLoss(CE(reduction="none"), 0.3, K, reduction="none")  # whose losses are never 0
    left_out = torch.zeros(K)
    seen = torch.zeros(K)
    for logits, target in batches([64] * 200):
        shift = 3.0 * target  # labels whose rows cost more than all others are left out no more often
        logits[torch.arange(64), target] -= shift
        seen += torch.bincount(target, minlength=K)
        left_out += torch.bincount(target[criterion(logits, target) == 0], minlength=K)
    torch.testing.assert_close(left_out / seen, torch.full((K,), 0.3), atol=0.03, rtol=0)


@pytest.mark.parametrize("window", [1, 5, 256])
def test_nothing_trimmed_is_the_loss_itself(window):
    for loss in (MGCELoss, GCELoss, CE):
        criterion, rows = (TrimmedLoss(loss(reduction="none"), 0.0, K, window=window) for _ in range(2))
        rows.reduction = "none"
        for logits, target in batches([9, 9, 3000, 9]):  # more rows of a label than any window here
            torch.testing.assert_close(criterion(logits, target), loss()(logits, target))
            assert torch.equal(rows(logits, target), loss(reduction="none")(logits, target))


@pytest.mark.parametrize("trim", [0.1, 0.29, 0.5, 0.9])
def test_a_batch_larger_than_the_window_is_trimmed_by_its_own_quantile(trim):
    criterion = TrimmedLoss(CE(reduction="none"), trim, 1, window=16, reduction="none")
    easy, hard = torch.tensor([[0.0]]).expand(50, 1), torch.arange(1000.0)[torch.randperm(1000)]
    criterion(easy, torch.zeros(50, dtype=torch.int64))  # what was before does not count
    kept = criterion.recent(hard, torch.zeros(1000, dtype=torch.int64))
    assert torch.equal(hard[~kept].sort().values, torch.arange(1000.0)[1000 - round(1000 * trim) :])


@pytest.mark.parametrize("kind", [tuple, torch.tensor, np.array])
def test_a_share_for_each_label_as_they_come(kind):
    """A list, a tensor or an array; a number in either is one share for all."""
    shares = [0.0, 0.25, 0.5, 0.125]
    assert TrimmedLoss(CE(reduction="none"), kind(shares), K).recent.trim == tuple(shares)
    assert robust_loss("ce+trim", trim=kind(shares), num_classes=K).recent.trim == tuple(shares)
    if kind is not tuple:
        assert TrimmedLoss(CE(reduction="none"), kind(0.25), K).recent.trim == (0.25,) * K


def test_class_weights_are_those_of_cross_entropy():
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    for make in (CE, MGCELoss, lambda **k: SumLoss([MGCELoss(**k)], [1.0])):
        criterion = TrimmedLoss(make(weight=weight, reduction="none"), 0.0, K)
        half = TrimmedLoss(make(weight=weight, reduction="none"), 0.5, K)
        for logits, target in batches([9, 9]):
            torch.testing.assert_close(criterion(logits, target), make(weight=weight)(logits, target))
            before = copy.deepcopy(half)
            before.reduction = "none"
            kept = before(logits, target) > 0
            torch.testing.assert_close(half(logits, target), make(weight=weight)(logits[kept], target[kept]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_types_of_targets(dtype):
    one, two = (TrimmedLoss(MGCELoss(reduction="none"), 0.4, K) for _ in range(2))
    for logits, target in batches([20, 20]):
        torch.testing.assert_close(one(logits, target.to(dtype)), two(logits, target))


def test_the_dimension_of_the_classes_is_that_of_the_loss_inside_and_around():
    generator = torch.Generator().manual_seed(0)
    logits, target = 5 * torch.randn(3, 4, K, generator=generator), torch.randint(K, (3, 4), generator=generator)
    T, inner = symmetric(K, 0.2).float(), MGCELoss(dim=-1, reduction="none")
    wrappers = [
        lambda loss: LogitClip(loss, 0.5),
        lambda loss: ForwardCorrection(loss, T),
        lambda loss: LogitScale(loss, 2.0),
        lambda loss: SumLoss([loss], [2.0]),
        lambda loss: LogitClip(LogitScale(loss, 2.0), 0.5),
    ]
    for wrap in wrappers:
        want = wrap(inner)(logits, target).mean()
        torch.testing.assert_close(want, wrap(MGCELoss())(logits.flatten(0, 1), target.flatten()))
        torch.testing.assert_close(TrimmedLoss(wrap(inner), 0.0, K)(logits, target), want)
        torch.testing.assert_close(wrap(TrimmedLoss(inner, 0.0, K))(logits, target), want)


def test_evaluation_counts_all_rows_and_takes_nothing_up():
    criterion = TrimmedLoss(CE(reduction="none"), 0.5, K)
    (first, target), (second, other) = batches([30, 30])
    criterion(first, target)
    before = copy.deepcopy(criterion.state_dict())
    torch.testing.assert_close(criterion.eval()(second, other), F.cross_entropy(second, other))
    after = criterion.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_training_goes_on_from_a_saved_state():
    whole, first, then = (TrimmedLoss(CE(reduction="none"), 0.4, K, window=8) for _ in range(3))
    data = list(batches([20, 20, 20, 20]))
    want = [whole(*batch) for batch in data]
    for batch in data[:2]:
        first(*batch)
    then.load_state_dict(first.state_dict())
    torch.testing.assert_close([then(*batch) for batch in data[2:]], want[2:])


@pytest.mark.parametrize("assign", [False, True])
def test_a_loss_made_without_data_is_filled_in_later(assign):
    """As large models are made: on the device `meta`, then from a saved state, or from new."""
    kept, new = (TrimmedLoss(CE(reduction="none"), [0.1, 0.4, 0.0, 0.7], K, window=8) for _ in range(2))
    first, second = batches([20, 20])
    kept(*first)
    with torch.device("meta"):
        criterion = TrimmedLoss(CE(reduction="none"), [0.1, 0.4, 0.0, 0.7], K, window=8)
    if not assign:
        criterion.to_empty(device="cpu")
        criterion.recent.share.fill_(-1)  # as memory that was not written to may be
    criterion.load_state_dict(copy.deepcopy(kept.state_dict()), assign=assign)
    torch.testing.assert_close(criterion(*second), kept(*second))
    criterion.recent.share.fill_(-1)
    criterion.recent.reset_parameters()
    torch.testing.assert_close(criterion(*second), new(*second))


@pytest.mark.parametrize("shape", [(), (1,)])
def test_one_row(shape):
    criterion = TrimmedLoss(CE(reduction="none"), 0.4, K)
    logits, target = torch.arange(4.0), torch.full(shape, 1)
    assert criterion(logits, target) == F.cross_entropy(logits, target) and criterion.recent.count[1] == 1


def test_ignored_rows_are_no_rows():
    a, b = (TrimmedLoss(CE(reduction="none", ignore_index=i), 0.4, K) for i in (-100, 2))
    for logits, target in batches([50, 50, 50]):
        rows = target != 2
        missing = torch.where(rows, target, -100)
        alone = TrimmedLoss(CE(reduction="none"), 0.4, K)
        alone.load_state_dict(a.state_dict())
        torch.testing.assert_close(a(logits, missing), alone(logits[rows], target[rows]))
        b(logits, target)
    torch.testing.assert_close(a.recent.losses[[0, 1, 3], :-1], b.recent.losses[[0, 1, 3], :-1])
    assert a.recent.losses[2].isinf().all() and b.recent.count[2] == 0
    assert TrimmedLoss(SumLoss([NCELoss(reduction="none", ignore_index=1)], [1.0]), 0.4, K).ignore_index == 1


def test_images_of_labels_are_rows():
    (logits, target), (more, other) = batches([24, 24])
    flat, image = (TrimmedLoss(CE(reduction="none"), 0.4, K) for _ in range(2))
    for x, y in ((logits, target), (more, other)):
        pixels, labels = x.view(2, 3, 4, K).permute(0, 3, 1, 2), y.view(2, 3, 4)
        torch.testing.assert_close(image(pixels, labels), flat(x, y))
    one = TrimmedLoss(CE(reduction="none"), 0.4, K)  # a row without a batch is kept: it is the only one of its label
    torch.testing.assert_close(one(logits[0], target[0]), F.cross_entropy(logits[0], target[0]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types(dtype):
    criterion, exact = (TrimmedLoss(MGCELoss(reduction="none"), 0.25, K) for _ in range(2))
    for logits, target in batches([40, 40]):
        got = criterion(logits.to(dtype), target)
        assert got.dtype == dtype
        torch.testing.assert_close(got.double(), exact(logits.to(dtype).float(), target).double(), atol=0.02, rtol=0.02)


def test_a_mean_of_half_types_does_not_overflow():
    logits, target = torch.zeros(4000, K, dtype=torch.float16), torch.zeros(4000, dtype=torch.int64)
    logits[:, 0] = -20
    criterion = TrimmedLoss(MGCELoss(beta=2.0, reduction="none"), 0.4, K)
    torch.testing.assert_close(criterion(logits, target), MGCELoss(beta=2.0)(logits, target))


def test_class_weights_of_half_types_do_not_overflow():
    """More rows than float16 counts, 65504."""
    target = torch.zeros(70000, dtype=torch.int64)
    logits = torch.zeros(70000, K, dtype=torch.float16, requires_grad=True)
    weight = torch.ones(K, dtype=torch.float16)
    criterion = TrimmedLoss(MGCELoss(weight=weight, reduction="none"), 0.4, K)
    loss = criterion(logits, target)
    torch.testing.assert_close(loss, TrimmedLoss(MGCELoss(reduction="none"), 0.4, K)(logits, target))
    assert loss > 0.5


def test_class_weights_of_float64_keep_their_digits():
    logits, target = next(batches([40]))
    weight = torch.tensor([0.1, 0.3, 0.7, 0.9], dtype=torch.float64)
    criterion = TrimmedLoss(CE(weight=weight, reduction="none"), 0.0, K)
    want = CE(weight=weight)(logits.double(), target)
    torch.testing.assert_close(criterion(logits.double(), target), want, rtol=1e-14, atol=0)


def test_nan_is_not_left_out():
    criterion = TrimmedLoss(CE(reduction="none"), 0.5, K)
    logits, target = next(batches([40]))
    before = copy.deepcopy(criterion)
    logits[3] = math.nan
    assert criterion(logits, target).isnan()
    rows = torch.arange(40) != 3  # and the others are as without it
    before(logits[rows], target[rows])
    (after, labels) = next(batches([40], seed=1))
    torch.testing.assert_close(criterion(after, labels), before(after, labels))


def test_compiled_in_one_graph():
    criterion = TrimmedLoss(MGCELoss(reduction="none"), 0.4, K, window=8)
    compiled = torch.compile(copy.deepcopy(criterion), fullgraph=True, backend="aot_eager")
    for logits, target in batches([20, 20, 20, 200]):
        torch.testing.assert_close(compiled(logits, target), criterion(logits, target))


def test_second_derivative_is_that_of_the_rows_kept():
    criterion = TrimmedLoss(CE(reduction="none"), 0.4, K).double()
    (before, labels), (logits, target) = batches([12, 12])
    criterion(before.double(), labels)
    frozen = criterion.state_dict()

    def loss(x):
        again = TrimmedLoss(CE(reduction="none"), 0.4, K).double()
        again.load_state_dict(frozen)
        return again(x, target)

    assert torch.autograd.gradgradcheck(loss, logits.double().requires_grad_())


def test_the_link_is_that_of_the_loss():
    logits, _ = next(batches([5]))
    criterion = TrimmedLoss(MGCELoss(beta=2.0, reduction="none"), 0.4, K)
    torch.testing.assert_close(criterion.link(logits), minimax_probs(logits, beta=2.0))
    torch.testing.assert_close(TrimmedLoss(CE(reduction="none"), 0.4, K).link(logits), logits.softmax(1))


def test_wrong_labels_are_what_is_left_out():
    # A linear classifier of two clouds, 40 % of the labels wrong: most of the rows left out have wrong labels.
    generator = torch.Generator().manual_seed(1)
    clean = torch.randint(2, (2000,), generator=generator)
    x = torch.randn(2000, 2, generator=generator) + 3 * clean[:, None]
    noisy = torch.where(torch.rand(2000, generator=generator) < 0.4, 1 - clean, clean)
    model = nn.Linear(2, 2)
    nn.init.zeros_(model.weight)
    criterion = robust_loss("mgce+trim", beta=1.05, trim=0.4, num_classes=2, reduction="none")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(10):
        for rows in torch.randperm(2000, generator=generator).split(50):
            optimizer.zero_grad()
            criterion(model(x[rows]), noisy[rows]).mean().backward()
            optimizer.step()
    losses = MGCELoss(beta=1.05, reduction="none")(model(x), noisy)
    kept = criterion.recent(losses, noisy)
    assert (noisy != clean)[~kept].float().mean() > 0.9
    assert (noisy != clean)[kept].float().mean() < 0.1


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: TrimmedLoss(CE(), 0.4, K), ValueError, "Expected `loss` to be a loss with reduction='none'"),
        (
            lambda: TrimmedLoss(SumLoss([NCELoss(reduction="none"), RCELoss()], [1.0, 1.0]), 0.4, K),
            ValueError,
            "Expected `losses` to be losses of one reduction, but got .'none', 'mean'.",
        ),
        (lambda: TrimmedLoss(F.cross_entropy, 0.4, K), TypeError, "Expected `loss` to be a module"),
        (
            lambda: TrimmedLoss(SumLoss([CE(reduction="none", ignore_index=i) for i in (1, 2)], [1.0, 0.0]), 0.4, K),
            ValueError,
            "Expected `loss` to be made of losses with one ignore_index",
        ),
        (lambda: TrimmedLoss(CE(reduction="none"), 1.0, K), ValueError, "Expected `trim` to be below 1"),
        (lambda: TrimmedLoss(CE(reduction="none"), math.nan, K), ValueError, "Expected `trim`"),
        (
            lambda: TrimmedLoss(CE(reduction="none"), [0.1, 0.2], K),
            ValueError,
            "Expected `trim` to be one number, or one",
        ),
        (
            lambda: TrimmedLoss(CE(reduction="none"), [0.1, 0.2, 0.3, 1.0], K),
            ValueError,
            r"Expected `trim\[3\]` to be below 1, so that some rows of a label are learnt",
        ),
        (lambda: TrimmedLoss(CE(reduction="none"), -0.1, K), ValueError, "Expected `trim`"),
        (lambda: TrimmedLoss(CE(reduction="none"), "a", K), TypeError, "Expected `trim`"),
        (lambda: TrimmedLoss(CE(reduction="none"), 0.4, 0), ValueError, "Expected `num_classes`"),
        (lambda: TrimmedLoss(CE(reduction="none"), 0.4, K, window=0), ValueError, "Expected `window`"),
        (lambda: TrimmedLoss(CE(reduction="none"), 0.4, K, reduction="max"), ValueError, "Expected `reduction`"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_bad_targets():
    criterion = TrimmedLoss(CE(reduction="none"), 0.4, K)
    logits, _ = next(batches([5]))
    with pytest.raises(TypeError, match="Expected `target` to be class indices, by which rows are trimmed"):
        criterion(logits, logits.softmax(1))
    few = TrimmedLoss(CE(reduction="none"), 0.4, 2)
    with pytest.raises(ValueError, match="Expected `num_classes`"):
        few(logits, torch.tensor([0, 1, 2, 3, 0]))


@pytest.mark.parametrize(
    "sizes", [{"window": 10**400}, {"num_classes": 10**400}, {"window": 10**6, "num_classes": 10**5}]
)
def test_a_buffer_beyond_all_memory_is_refused(sizes):
    with pytest.raises(
        ValueError, match=r"Expected `window` to be such that \(num_classes \+ 1\) \(window \+ 1\) is at"
    ):
        TrimmedLoss(CE(reduction="none"), 0.1, **{"num_classes": 3, **sizes})


@pytest.mark.parametrize("trim", [0.0, 0.75, [0.5, 0.0, 0.25]])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_share_that_is_set_is_the_one_that_counts(trim, compiled):
    torch.manual_seed(0)
    logits, target = torch.randn(60, 3), torch.arange(60) % 3
    scheduled = TrimmedLoss(CE(reduction="none"), trim=0.4, num_classes=3, reduction="none")
    expected = TrimmedLoss(CE(reduction="none"), trim=trim, num_classes=3, reduction="none")
    call = torch.compile(scheduled, fullgraph=True, backend="eager") if compiled else scheduled
    call(logits, target)
    expected(logits, target)
    scheduled.trim = trim
    assert scheduled.trim == expected.trim and str(scheduled) == str(expected)
    torch.testing.assert_close(call(logits, target), expected(logits, target), rtol=0, atol=0)
    with pytest.raises(ValueError, match="trim"):
        scheduled.trim = 1.0
    assert scheduled.trim == expected.trim  # as it was


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
@pytest.mark.parametrize("inner", [CE, MGCELoss, lambda reduction: LogitScale(GCELoss(reduction=reduction), 2.0)])
def test_an_ignore_index_of_its_own_is_that_of_the_loss_inside(inner, dtype):
    logits, target = torch.randn(2, K, 8, 8), torch.randint(K, (2, 8, 8))
    target[:, :3] = 255
    own = TrimmedLoss(inner(reduction="none"), 0.4, K, ignore_index=255)
    assert own.ignore_index == 255
    marked = torch.where(target == 255, -100, target)
    inside = TrimmedLoss(inner(reduction="none"), 0.4, K)
    for reduction in ("mean", "sum", "none"):
        own.set_reduction(reduction)
        inside.set_reduction(reduction)
        leaf = logits.clone().requires_grad_()
        loss = own(leaf, target.to(dtype))
        torch.testing.assert_close(loss, inside(logits, marked))
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        assert (gradient[:, :, :3] == 0).all() and gradient.abs().sum() > 0
    torch.testing.assert_close(own.recent.state_dict(), inside.recent.state_dict())
    own.set_reduction("mean")
    assert own(logits, torch.full_like(target, 255)).isnan()  # as of cross-entropy


def test_an_ignore_index_of_its_own_is_an_integer_and_may_be_set_later():
    for wrong in (2.5, "x", True):
        with pytest.raises(TypeError, match="Expected `ignore_index` to be an integer"):
            TrimmedLoss(CE(reduction="none"), 0.4, K, ignore_index=wrong)
    criterion = TrimmedLoss(CE(reduction="none", ignore_index=3), 0.4, K, ignore_index=3)
    criterion.ignore_index = 1
    logits, target = torch.randn(20, K), torch.arange(20) % 2
    assert (criterion(logits, target) > 0) and criterion.recent.count[:2].tolist() == [10, 0]
    assert TrimmedLoss(CE(reduction="none", ignore_index=3), 0.4, K).ignore_index == 3
    both = criterion.eval()(torch.zeros(3, K), torch.tensor([0, 1, 3]))  # the loss inside leaves out 3 as well
    assert both.item() == pytest.approx(math.log(K))


def plain_operations(monkeypatch):
    monkeypatch.setattr(RecentLosses, "has_kernel", lambda *_: False)


@pytest.mark.skipif(cpu.obstacle() is not None, reason="the CPU kernel is not built")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("window", [1, 3, 16, 256])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_kernel_keeps_and_stores_what_plain_operations_do(dtype, window, reduction, monkeypatch):
    """Ties, ignored rows, labels of no class, NaN, infinite losses, and more rows than the window holds."""
    trim = [0.29, 0.0, 0.7, 0.4]
    for ignore_index in (-100, 1):
        fused, plain = (
            TrimmedLoss(CE(reduction="none", ignore_index=ignore_index), trim, K, window=window, reduction=reduction)
            for _ in range(2)
        )
        fused, plain = fused.to(dtype), plain.to(dtype)
        for step, (logits, target) in enumerate(batches([1, 5, 40, 2, 0, 100, 7, 33])):
            logits = logits.mul(2).round().to(dtype)  # many losses are equal
            if len(target) > 4:
                target[0] = ignore_index
                logits[1, target[1]], logits[2, :], logits[3, 0] = -math.inf, math.nan, -math.inf
            assert fused.recent.has_kernel(logits.sum(1), target)
            leaves = [logits.clone().requires_grad_() for _ in range(2)]
            found = fused(leaves[0], target)
            with monkeypatch.context() as patch:
                plain_operations(patch)
                want = plain(leaves[1], target)
            torch.testing.assert_close(found, want, equal_nan=True, msg=f"{step}")
            grads = [
                torch.autograd.grad(loss.nansum(), leaf)[0] for loss, leaf in zip((found, want), leaves, strict=True)
            ]
            torch.testing.assert_close(*grads, equal_nan=True)
            torch.testing.assert_close(fused.recent.losses[:-1, :-1], plain.recent.losses[:-1, :-1])
            assert torch.equal(fused.recent.count, plain.recent.count)


def test_what_is_left_out_may_be_infinite():
    criterion = TrimmedLoss(CE(reduction="none"), 0.5, 1)
    logits, target = torch.tensor([[0.0], [0.0]], requires_grad=True), torch.tensor([0, 0])
    losses = torch.tensor([1.0, math.inf], requires_grad=True)
    criterion.loss.forward = lambda input, target: losses
    criterion(logits, target).backward()
    assert losses.grad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])  # the second has no kernel
def test_losses_that_are_no_numbers_are_counted_and_said(dtype):
    criterion = TrimmedLoss(nn.CrossEntropyLoss(reduction="none"), 0.3, 3)
    logits, target = torch.randn(9, 3).to(dtype), torch.arange(9) % 3
    assert "left_out" not in repr(criterion)
    logits[:2], target[0] = torch.nan, -100
    criterion(logits, target)
    assert criterion.left_out == 1 and "left_out=1" in repr(criterion)
    assert criterion.recent.count[:3].tolist() == [2, 2, 3] and not criterion.recent.losses[:-1, :-1].isnan().any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_inside_a_network_of_another_dtype_the_losses_stay_in_float32(dtype):
    plain, inside = (TrimmedLoss(nn.CrossEntropyLoss(reduction="none"), 0.3, 3) for _ in range(2))
    nn.ModuleDict({"loss": inside}).to(dtype)
    for _ in range(5):
        logits, target = torch.randn(30, 3).to(dtype), torch.arange(30) % 3
        torch.testing.assert_close(inside(logits, target), plain(logits, target))
    for name, value in plain.named_buffers():
        assert torch.equal(dict(inside.named_buffers())[name], value)
