"""LearnedForwardCorrection against NumPy row by row, and against the noise matrix that made the labels."""

import copy

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from mgce import ForwardCorrection, GCELoss, LearnedForwardCorrection, MGCELoss, _validation
from mgce.functional import worst_case_probs
from mgce.noise import asymmetric, corrupt, symmetric

K, N, WINDOW = 3, 12, 40
GENERATOR = torch.Generator().manual_seed(0)
LOGITS, TARGET = torch.randn(N, K, dtype=torch.float64, generator=GENERATOR) * 3, torch.arange(N) % K


def counted(counts, transition, p, target, window):
    """Return counts and T after a batch, row by row: a step of expectation maximisation that forgets."""
    counts = counts * max(0.0, 1 - len(target) / window)
    for row, y in zip(p, target, strict=True):
        right = row**2 * transition[:, y]
        counts[:, y] += row.max() ** 4 * right / right.sum()
    counts_and_prior = counts + np.eye(len(counts))
    shares = counts_and_prior / counts_and_prior.sum(1, keepdims=True)
    return counts, 1e-6 + (1 - len(counts) * 1e-6) * shares


def start(window):
    transition = np.full((K, K), 0.025) + 0.925 * np.eye(K)
    return transition * window / K, transition


@pytest.mark.parametrize("window", [WINDOW, 5])  # 5 rows forget all that came before
def test_steps_are_those_of_numpy(window):
    criterion = LearnedForwardCorrection(K, nn.CrossEntropyLoss(reduction="none"), window=window)
    counts, transition = start(window)
    rng = np.random.default_rng(0)
    for _ in range(4):
        logits, target = rng.normal(size=(N, K)) * 4, rng.integers(K, size=N)
        p = softmax(logits, 1)
        want = -np.log((p @ transition)[np.arange(N), target])
        found = criterion(torch.from_numpy(logits), torch.from_numpy(target))
        np.testing.assert_allclose(found, want, rtol=1e-5)
        counts, transition = counted(counts, transition, p, target, window)
        np.testing.assert_allclose(criterion.counts, counts, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(criterion.transition, transition, rtol=1e-4, atol=1e-6)


def test_around_mgce_it_counts_worst_case_probabilities():
    criterion = LearnedForwardCorrection(K, MGCELoss(beta=1.4), window=WINDOW)
    criterion(LOGITS, TARGET)
    p = worst_case_probs(LOGITS, beta=1.4).numpy()
    want = counted(*start(WINDOW), p, TARGET.numpy(), WINDOW)[1]
    np.testing.assert_allclose(criterion.transition, want, rtol=1e-5)


def test_the_matrix_that_made_the_labels_is_learnt_from_right_predictions():
    n, truth = 20_000, asymmetric({0: 2, 1: 0}, K, 0.4)
    right = torch.randint(K, (n,), generator=GENERATOR)
    given = corrupt(right, truth, GENERATOR).labels
    criterion = LearnedForwardCorrection(K, window=n)
    sure = 8.0 * nn.functional.one_hot(right, K)
    for _ in range(3):
        for rows in torch.randperm(n, generator=GENERATOR).split(100):
            criterion(sure[rows], given[rows])
    assert (criterion.transition - truth).abs().max() < 4 * 0.5 / (n / K) ** 0.5 + 0.01


def test_a_column_of_the_matrix_lies_in_one_piece_as_the_next_batch_reads_it():
    criterion = LearnedForwardCorrection(7)
    for _ in range(2):
        assert criterion.transition.T.is_contiguous() and criterion.counts.T.is_contiguous()
        criterion(torch.randn(20, 7), torch.arange(20) % 7)
    criterion.load_state_dict(criterion.state_dict())
    assert criterion.transition.T.is_contiguous() and criterion.counts.T.is_contiguous()


def test_evaluation_learns_nothing_and_is_forward_correction():
    criterion = LearnedForwardCorrection(K, window=WINDOW)
    criterion(LOGITS, TARGET)
    before = copy.deepcopy(criterion.state_dict())
    value = criterion.eval()(LOGITS, TARGET)
    torch.testing.assert_close(value, ForwardCorrection(GCELoss(beta=3.0), before["transition"])(LOGITS, TARGET))
    for name, state in criterion.state_dict().items():
        assert torch.equal(state, before[name])


def test_training_goes_on_from_a_state_dict():
    first, second = (LearnedForwardCorrection(K, window=WINDOW) for _ in range(2))
    for _ in range(3):
        first(LOGITS, TARGET)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(LOGITS, TARGET), second(LOGITS, TARGET))
    assert torch.equal(first.transition, second.transition)


def test_gradients_are_those_of_the_matrix_of_their_call_even_after_another_call():
    criterion = LearnedForwardCorrection(K, window=WINDOW)
    leaf, fixed = (LOGITS.clone().requires_grad_() for _ in range(2))
    ForwardCorrection(GCELoss(beta=3.0), criterion.transition.clone())(fixed, TARGET).backward()
    value = criterion(leaf, TARGET)
    criterion(LOGITS, TARGET)
    value.backward()
    torch.testing.assert_close(leaf.grad, fixed.grad)


def test_probabilities_as_targets_and_further_dimensions_are_counted_alike():
    plain, soft, maps = (LearnedForwardCorrection(K, window=WINDOW) for _ in range(3))
    plain(LOGITS, TARGET)
    soft(LOGITS, nn.functional.one_hot(TARGET, K).double())
    maps(LOGITS.view(2, N // 2, K).movedim(-1, 1), TARGET.view(2, N // 2))
    torch.testing.assert_close(soft.transition, plain.transition)
    torch.testing.assert_close(maps.transition, plain.transition)
    by_row = LearnedForwardCorrection(K, window=1)
    by_row(LOGITS[0], TARGET[0])
    assert by_row.counts.sum() == pytest.approx(float(LOGITS[0].softmax(0).max() ** 4), rel=1e-5)


def test_ignored_rows_are_not_counted():
    whole, part = (LearnedForwardCorrection(K, GCELoss(beta=3.0, ignore_index=-1), window=WINDOW) for _ in range(2))
    whole(LOGITS, torch.where(torch.arange(N) < 5, TARGET, -1))
    part(LOGITS[:5], TARGET[:5])
    torch.testing.assert_close(whole.counts, part.counts)


def test_compiled_and_on_other_devices_the_loss_needs_no_matrix_for_each_row():
    """Of 64 rows and 512 classes, k^2 numbers a row would be 16.8 million."""
    k, n = 512, 64
    criterion = LearnedForwardCorrection(k).to("meta")
    largest = [0]

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                largest[0] = max(largest[0], out.numel())
            return out

    with Watch():
        criterion(torch.empty(n, k, device="meta"), torch.empty(n, dtype=torch.long, device="meta"))
    assert k * k <= largest[0] < 2 * k * k


@pytest.mark.parametrize("loss", [GCELoss(beta=3.0), MGCELoss(beta=1.4)])
def test_no_number_is_of_float64_on_a_device_without_it(loss, monkeypatch):
    """The device `meta` stands for one without, since a tensor can be moved there anywhere."""
    monkeypatch.setattr(_validation, "WITHOUT_FLOAT64", ("meta",))
    criterion, seen = LearnedForwardCorrection(K, loss).to("meta"), set()

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            seen.update({out.dtype} if isinstance(out, torch.Tensor) else set())
            return out

    with Watch():
        criterion(torch.empty(N, K, device="meta"), torch.empty(N, dtype=torch.long, device="meta"))
    assert torch.float32 in seen and torch.float64 not in seen


def test_targets_that_are_no_numbers_are_not_counted():
    whole, part = (LearnedForwardCorrection(K, window=WINDOW) for _ in range(2))
    soft = nn.functional.one_hot(TARGET, K).double()
    part(LOGITS[1:], soft[1:])
    soft[0] = torch.nan
    whole(LOGITS, soft)
    torch.testing.assert_close(whole.counts, part.counts)


@pytest.mark.parametrize("scale", [0.0, 1e4, 1e30])
def test_flat_and_huge_logits_leave_a_matrix(scale):
    criterion = LearnedForwardCorrection(K, window=WINDOW)
    leaf = (LOGITS.float() * scale).requires_grad_()
    for _ in range(20):
        criterion(leaf, TARGET).backward()
    torch.testing.assert_close(criterion.transition.sum(1), torch.ones(K))
    assert leaf.grad.isfinite().all() and (criterion.transition >= 0).all()


def assert_a_matrix(criterion):
    torch.testing.assert_close(criterion.transition.sum(1), torch.ones(K))
    assert criterion.counts.isfinite().all() and (criterion.transition > 0).all()


@pytest.mark.parametrize("rows", [64, 1100])  # the second forgets all rows before
@pytest.mark.parametrize("dtype", [None, torch.float16, torch.bfloat16])
def test_a_label_unseen_for_long_is_learnt_once_it_comes_even_in_mixed_precision(rows, dtype):
    """Sure predictions drive T of the other labels to 0 of float16: divided by it, the counts were NaN ever after."""
    criterion, sure = LearnedForwardCorrection(K), 100 * torch.eye(K)[[0] * rows]
    with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
        for label in [0] * 200 + [1] * 200:
            criterion(sure, torch.full((rows,), label))
    assert_a_matrix(criterion)
    assert criterion.transition[0, 1] > 0.99


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_precision_learns_the_matrix_of_float32(dtype):
    plain, mixed = (LearnedForwardCorrection(K, window=WINDOW) for _ in range(2))
    logits = LOGITS.to(dtype)
    plain(logits.float(), TARGET)
    with torch.autocast("cpu", dtype):
        mixed(logits, TARGET)
    assert torch.equal(mixed.transition, plain.transition)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_rows_of_logits_that_are_no_numbers_are_not_counted(bad):
    """A gradient scaler leaves out a step that overflowed; T has to outlive such a step too."""
    whole, part = (LearnedForwardCorrection(K, window=WINDOW) for _ in range(2))
    logits = LOGITS.clone()
    logits[0, 1] = bad
    whole(logits, TARGET)
    part(LOGITS[1:], TARGET[1:])
    torch.testing.assert_close(whole.counts, part.counts)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_module_moved_to_another_dtype_goes_on_learning(dtype):
    criterion, plain = LearnedForwardCorrection(K).to(dtype), LearnedForwardCorrection(K)
    for _ in range(100):
        for one in (criterion, plain):
            one(LOGITS, TARGET)
    torch.testing.assert_close(criterion.transition, plain.transition, rtol=1e-2, atol=1e-3)
    sure = 100 * torch.eye(K)[[0] * 1100]
    for label in (0, 1):
        criterion(sure, torch.full((1100,), label))
        criterion.to(dtype)
    criterion(LOGITS, TARGET)
    assert_a_matrix(criterion)


def test_the_matrix_is_learnt_under_func_grad_and_vmap_is_refused():
    leaf, inside, plain = LOGITS.float(), LearnedForwardCorrection(K), LearnedForwardCorrection(K)
    torch.func.grad(lambda x: inside(x, TARGET))(leaf)
    plain(leaf, TARGET)
    assert torch.equal(copy.deepcopy(inside).transition, plain.transition)
    with pytest.raises(RuntimeError, match="Expected no `torch.func.vmap` in `train` mode"):
        torch.func.vmap(inside)(leaf, TARGET)
    assert torch.equal(inside.transition, plain.transition)
    torch.testing.assert_close(torch.func.vmap(inside.eval())(leaf, TARGET).mean(), inside(leaf, TARGET))


def test_confused_classes_are_told_apart_where_gce_follows_the_labels():
    torch.manual_seed(0)
    right = torch.arange(900) % K
    x = torch.randn(900, 20) + 1.5 * nn.functional.one_hot(right, 20)
    given = corrupt(right, asymmetric({0: 1, 1: 2}, K, 0.45), torch.Generator().manual_seed(1)).labels
    found = {}
    for name, criterion in (("gce", GCELoss()), ("learnt", LearnedForwardCorrection(K, window=900))):
        torch.manual_seed(0)
        line = nn.Linear(20, K)
        optimizer = torch.optim.Adam(line.parameters(), 0.01)
        for _ in range(30):
            for rows in torch.randperm(900).split(50):
                optimizer.zero_grad()
                criterion(line(x[rows]), given[rows]).backward()
                optimizer.step()
        found[name] = (line(x).argmax(1) == right).double().mean().item()
    assert found["learnt"] > found["gce"] + 0.03


def test_classes_that_lie_close_together_are_less_often_taken_for_wrong_labels():
    """Each class has two parts, one beside a part of the next class; all labels are right.

    A start of 0.8 lost 8 points against GCE without T, a start of 0.95 loses 3.
    """
    generator, k = torch.Generator().manual_seed(0), 10
    centres = 4 * nn.functional.normalize(torch.randn(k, 16, generator=generator))
    beside = centres.roll(-1, 0) + 2 * nn.functional.normalize(torch.randn(k, 16, generator=generator))
    y = torch.arange(4000) % k
    second = torch.rand(4000, 1, generator=generator) < 0.4
    x = torch.where(second, beside[y], centres[y]) + torch.randn(4000, 16, generator=generator)
    found = {}
    for name, criterion in (("gce", GCELoss(beta=3.0)), ("learnt", LearnedForwardCorrection(k))):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, k))
        optimizer = torch.optim.Adam(net.parameters(), 0.003)
        for _ in range(10):
            for rows in torch.randperm(2000).split(50):
                optimizer.zero_grad()
                criterion(net(x[rows]), y[rows]).backward()
                optimizer.step()
        found[name] = (net(x[2000:]).argmax(1) == y[2000:]).double().mean().item()
    assert found["learnt"] > found["gce"] - 0.05


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LearnedForwardCorrection(1), "Expected `num_classes` to be .*at least 2"),
        (lambda: LearnedForwardCorrection(K, window=0), "Expected `window`"),
        (lambda: LearnedForwardCorrection(K, MGCELoss(beta=1)), "Expected `beta` to be one number above 1"),
        (
            lambda: LearnedForwardCorrection(K)(torch.randn(2, 4), torch.tensor([0, 1])),
            "Expected `input` to be logits of 3 classes, .* got 4",
        ),
    ],
)
def test_wrong_arguments_get_a_sentence(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_the_default_window_grows_with_the_classes():
    assert LearnedForwardCorrection(3).window == 1000 and LearnedForwardCorrection(100).window == 10_000
    assert "num_classes=10, window=1000" in repr(LearnedForwardCorrection(10))


def test_symmetric_noise_does_not_move_predictions():
    """With p right and labels symmetric, the loss is least where plain GCE is least: at the right classes."""
    right = torch.arange(300) % K
    given = corrupt(right, symmetric(K, 0.4), torch.Generator().manual_seed(0)).labels
    table = torch.zeros(K, K, requires_grad=True)  # logits of each right class
    criterion, optimizer = LearnedForwardCorrection(K, window=300), torch.optim.Adam([table], 0.1)
    for _ in range(100):
        optimizer.zero_grad()
        criterion(table[right], given).backward()
        optimizer.step()
    assert (table.argmax(1) == torch.arange(K)).all()
    assert log_softmax(table.detach().numpy(), 1).diagonal().min() > np.log(0.7)


@pytest.mark.parametrize("soft", [False, True])
def test_rows_that_are_left_out_are_counted_and_said(soft):
    criterion, logits, target = LearnedForwardCorrection(K, window=WINDOW), LOGITS.clone(), TARGET.clone()
    target[3] = -100
    logits[[1, 3]] = torch.nan  # of the second, nothing was to be learnt
    given = (nn.functional.one_hot(target.clamp(min=0), K).double() * 0.7 + 0.1) * (target >= 0)[:, None]
    for calls in (1, 2):
        criterion(logits, given if soft else target)
        assert criterion.left_out == calls and f"left_out={calls}" in repr(criterion)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_inside_a_network_of_another_dtype_the_matrix_stays_in_float32(dtype):
    plain, inside = LearnedForwardCorrection(K), LearnedForwardCorrection(K)
    nn.ModuleDict({"loss": inside}).to(dtype)
    for _ in range(50):
        logits = LOGITS.to(dtype)
        inside(logits, TARGET)
        plain(logits.float(), TARGET)
    for name, value in plain.named_buffers():
        torch.testing.assert_close(dict(inside.named_buffers())[name], value)
