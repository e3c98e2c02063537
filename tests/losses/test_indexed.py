"""What losses that remember rows have in common: checks, modes, reductions, resumption, several processes."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from grids import grid
from losses.ddp_worker import ROWS, K, criteria, epochs
from mgce import ELRLoss, GCELoss, IndexedDataset, MGCELoss, SoftBootstrapLoss
from mgce.losses import NCELoss
from mgce.losses.protocol import both_probs
from mgce_lab.losses import SelfAdaptiveLoss

LOSSES = [ELRLoss, SelfAdaptiveLoss, SoftBootstrapLoss]
BATCH = (
    torch.randn(6, K, generator=torch.Generator().manual_seed(0)),
    torch.tensor([0, 1, 2, 0, 1, 2]),
    torch.tensor([3, 0, 7, 2, 9, 1]),
)


@pytest.mark.parametrize("make", LOSSES)
def test_evaluation_is_the_inner_loss_without_an_index_and_remembers_nothing(make):
    logits, target, index = BATCH
    criterion = make(ROWS, K).eval()
    before = copy.deepcopy(criterion.state_dict())
    torch.testing.assert_close(criterion(logits, target), F.cross_entropy(logits, target))
    torch.testing.assert_close(criterion(logits, target, index), F.cross_entropy(logits, target))
    for name, value in criterion.state_dict().items():
        torch.testing.assert_close(value, before[name], equal_nan=True)


@pytest.mark.parametrize("make", LOSSES)
def test_evaluation_with_class_weights_and_ignored_rows_is_weighted_cross_entropy(make):
    logits, target, _ = BATCH
    weight, target = torch.tensor([1.0, 2.0, 3.0]), torch.where(torch.arange(6) == 2, -7, target)
    criterion = make(ROWS, K, nn.CrossEntropyLoss(weight, ignore_index=-7, reduction="none")).eval()
    want = F.cross_entropy(logits, target, weight, ignore_index=-7)
    torch.testing.assert_close(criterion(logits, target), want)


@pytest.mark.parametrize("make", LOSSES)
def test_the_mean_is_that_of_the_losses_of_rows_that_are_not_ignored(make):
    logits, target, index = BATCH
    target = torch.where(torch.arange(6) == 2, -100, target)
    found = {}
    for reduction in ("none", "sum", "mean"):
        criterion = make(ROWS, K, start=1, reduction=reduction) if make is SoftBootstrapLoss else None
        criterion = criterion or make(ROWS, K, reduction=reduction)
        found[reduction] = criterion(logits, target, index)
    assert found["none"][2] == 0
    torch.testing.assert_close(found["sum"], found["none"].sum())
    torch.testing.assert_close(found["mean"], found["none"].sum() / 5)  # at first all weights are 1
    for name, value in criterion.state_dict().items():
        if isinstance(value, torch.Tensor) and name not in ("right", "left_out"):
            assert value[7].isnan() if name == "losses" else not value[7].any()  # the ignored row was row 7


@pytest.mark.parametrize("make", LOSSES)
@pytest.mark.parametrize("inner", [MGCELoss(beta=1.4, reduction="none"), NCELoss(reduction="none")])
def test_probabilities_are_those_of_the_loss_inside(make, inner):
    criterion = make(ROWS, K, inner)
    torch.testing.assert_close(both_probs(criterion, BATCH[0]), both_probs(inner, BATCH[0]))
    criterion(*BATCH)


@pytest.mark.parametrize("make", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_remembered_in_float32(make, dtype):
    criterion, precise = make(ROWS, K), make(ROWS, K)
    logits, target, index = BATCH
    assert criterion(logits.to(dtype), target, index).dtype == dtype
    precise(logits.to(dtype).float(), target, index)
    for name, value in criterion.state_dict().items():
        torch.testing.assert_close(value, precise.state_dict()[name], equal_nan=True, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", criteria())
def test_training_goes_on_from_a_state_dict_with_equal_bits(name, tmp_path):
    whole = criteria()[name]
    want = list(epochs(whole, range(4)))
    first = criteria()[name]
    list(epochs(first, range(2)))
    torch.save(first.state_dict(), tmp_path / "criterion.pt")
    second = criteria()[name]
    second.load_state_dict(torch.load(tmp_path / "criterion.pt", weights_only=True))
    assert list(epochs(second, range(2, 4))) == want[len(want) // 2 :]


@pytest.mark.parametrize("make", LOSSES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index": None}, "Expected `index` to be the index of each row"),
        ({"index": torch.rand(6)}, "Expected `index` to be a tensor of integers"),
        ({"index": torch.arange(5)}, "one integer for each of 6 rows"),
        ({"index": torch.arange(6) + 5}, r"in \[0, 10\).*10"),
        ({"index": torch.arange(6) - 1}, r"in \[0, 10\).*-1"),
        ({"input": torch.randn(6, K + 1)}, "num_classes=3"),
    ],
)
def test_an_index_or_logits_that_do_not_fit_are_one_sentence(make, change, message):
    batch = dict(zip(("input", "target", "index"), BATCH, strict=True)) | change
    with pytest.raises((TypeError, ValueError), match=message):
        make(ROWS, K)(**batch)


@pytest.mark.parametrize("make", LOSSES)
def test_arguments_out_of_range_are_one_sentence(make):
    for options, name in (
        ({"loss": nn.CrossEntropyLoss()}, "reduction='none'"),
        ({"num_rows": 0}, "num_rows"),
        ({"num_rows": 10**9, "num_classes": 1000}, "num_rows"),
        ({"reduction": "median"}, "reduction"),
    ):
        with pytest.raises(ValueError, match=name):
            make(**({"num_rows": ROWS, "num_classes": K} | options))


def test_indices_of_a_shuffling_loader_are_those_of_the_rows():
    features = torch.arange(50.0)
    loader = torch.utils.data.DataLoader(
        IndexedDataset(torch.utils.data.TensorDataset(features, features.long() % 3)), batch_size=7, shuffle=True
    )
    for x, y, index in loader:
        assert torch.equal(features[index], x)
        assert torch.equal(index % 3, y)
    with pytest.raises(TypeError, match="with a length"):
        IndexedDataset(iter([1, 2]))


@pytest.mark.parametrize("make", LOSSES)
@pytest.mark.parametrize("inner", [None, MGCELoss(beta=1.4, reduction="none"), GCELoss(reduction="none")])
def test_soft_targets_of_one_class_are_its_index_and_rows_of_zeros_are_ignored_rows(make, inner):
    """Of three epochs, since losses, targets and probabilities are remembered from one to the next."""
    logits, target, index = BATCH
    hard = torch.where(torch.arange(6) == 2, -100, target)
    soft = F.one_hot(target, K).float() * (torch.arange(6) != 2)[:, None]
    options = {"start": 1} if make is not ELRLoss else {}
    by_index, by_probs = (make(6, K, inner, **options) for _ in range(2))
    place = index.argsort().argsort()
    for _ in range(3):
        torch.testing.assert_close(by_probs(logits, soft, place), by_index(logits, hard, place))
    for name, value in by_index.state_dict().items():
        torch.testing.assert_close(by_probs.state_dict()[name], value, equal_nan=True)


@pytest.mark.parametrize("make", LOSSES)
def test_a_batch_of_rows_without_labels_makes_no_step(make):
    logits = BATCH[0].clone().requires_grad_()
    criterion = make(ROWS, K)
    for _ in range(2):
        loss = criterion(logits, torch.zeros(6, K), BATCH[2])
        loss.backward()
    assert loss == 0 and not logits.grad.any()


def test_rows_without_a_label_count_in_the_epochs_of_soft_bootstrap():
    criterion = SoftBootstrapLoss(6, K, start=1)
    target = torch.where(torch.arange(6) < 3, -100, BATCH[1])
    for _ in range(2):
        criterion(BATCH[0], target, torch.arange(6))
    assert criterion.get_extra_state() == 12
    assert (criterion.right[:3] == 1).all() and criterion.losses[:3].isnan().all()


def test_targets_replace_labels_or_are_appended():
    x, y = torch.arange(3.0), torch.zeros(3, dtype=torch.int64)
    probs = np.array([[0.9, 0.1], [0.0, 0.0], [0.25, 0.75]])
    for inner in (TensorDataset(x, y), TensorDataset(x), x):
        row = IndexedDataset(inner, probs)[2]
        assert len(row) == 3 and row[0] == 2 and row[2] == 2
        torch.testing.assert_close(row[1], torch.tensor([0.25, 0.75]))
    x, y, index = next(iter(DataLoader(IndexedDataset(TensorDataset(x, y), [2, 0, 1]), batch_size=3)))
    assert y.tolist() == [2, 0, 1] and y.dtype == torch.int64 and index.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([0, 1], r"shape \(3,\).*torch.int64 of shape \(2,\)"),
        (np.zeros((2, 2)), r"shape \(3, k\).*torch.float32 of shape \(2, 2\)"),
        (np.zeros(3), "torch.float32 of shape"),
        (["cat", "dog", "cat"], "class indices or class probabilities, but got 'list'"),
    ],
)
def test_targets_that_do_not_fit_are_one_sentence(targets, message):
    with pytest.raises((TypeError, ValueError), match=message):
        IndexedDataset(TensorDataset(torch.zeros(3)), targets)


def overflowed():
    """Return logits of six rows: NaN, +inf and a class that is masked by -inf are in rows 0, 1 and 2."""
    logits = BATCH[0].clone()
    logits[0, 1], logits[1, 2], logits[2, 0] = torch.nan, torch.inf, -torch.inf
    return logits


@pytest.mark.parametrize("make", LOSSES)
def test_rows_that_overflowed_are_not_remembered_but_counted_and_said(make):
    """A scaler of mixed precision skips such a step. Later steps have to go on as if the rows had not been there."""
    _, target, index = BATCH
    target = torch.where(torch.arange(6) == 2, 1, target)  # not the masked class
    options = {} if make is ELRLoss else {"start": 1}
    whole, part = (make(ROWS, K, reduction="none", **options) for _ in range(2))
    for criterion in (whole, part):
        criterion(BATCH[0], target, index)
    assert "left_out" not in repr(whole)
    losses = whole(overflowed(), target, index)
    assert losses[:2].isnan().all() and losses[2:].isfinite().all()
    part(overflowed()[2:], target[2:], index[2:])
    for name, value in part.state_dict().items():
        if name not in ("left_out", "_extra_state"):
            torch.testing.assert_close(whole.state_dict()[name], value, equal_nan=True)
    assert whole.left_out == 2 and "left_out=2" in repr(whole) and part.left_out == 0
    whole(overflowed(), torch.where(torch.arange(6) < 2, -100, target), index)  # rows without a label
    assert whole.left_out == 2
    again = make(ROWS, K, **options)
    again.load_state_dict(whole.state_dict())
    assert again.left_out == 2


@pytest.mark.parametrize("make", LOSSES)
def test_a_training_goes_on_after_a_batch_whose_step_was_skipped(make):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(120, 8, generator=generator)
    y, line = x[:, :K].argmax(1), nn.Linear(8, K)
    criterion, optimizer = make(120, K), torch.optim.SGD(line.parameters(), 0.1)
    steps = []
    for epoch in range(7):
        for step, rows in enumerate(torch.randperm(120, generator=generator).split(20)):
            loss = criterion(line(x[rows]) * (torch.inf if (epoch, step) == (1, 2) else 1), y[rows], rows)
            steps.append(bool(loss.isfinite()))
            optimizer.zero_grad()
            loss.backward()
            if steps[-1]:
                optimizer.step()
    assert [number for number, finite in enumerate(steps) if not finite] == [8]
    assert criterion.left_out == 20


@pytest.mark.parametrize("make", LOSSES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_inside_a_network_of_another_dtype_the_state_stays_in_float32(make, dtype):
    """Lightning's bf16-true also makes that dtype the default one."""
    options = {} if make is ELRLoss else {"start": 1}
    x, target, index = torch.randn(ROWS, 5), torch.arange(ROWS) % K, torch.arange(ROWS)
    torch.set_default_dtype(dtype)
    try:
        model = nn.ModuleDict({"line": nn.Linear(5, K), "loss": make(ROWS, K, **options)}).to(dtype)
        plain, precise = make(ROWS, K, **options), model["loss"]
        for _ in range(3):
            logits = model["line"](x.to(dtype))
            loss = precise(logits, target, index)
            assert loss.dtype == dtype
            loss.backward()
            plain(logits.detach().float(), target, index)
    finally:
        torch.set_default_dtype(torch.float32)
    for name, value in plain.named_buffers():
        assert dict(precise.named_buffers())[name].dtype == value.dtype in (torch.float32, torch.int32, torch.int64)
        # The loss that soft bootstrapping stores is one in the dtype of the logits.
        exact = name != "losses" and make is not SoftBootstrapLoss
        rounding = {} if exact else {"rtol": 0.05, "atol": 0.05}
        torch.testing.assert_close(dict(precise.named_buffers())[name], value, equal_nan=True, **rounding)


@pytest.mark.parametrize("make", [SelfAdaptiveLoss, SoftBootstrapLoss])
@pytest.mark.parametrize("weight", [None, torch.tensor([1.0, 2.0, 3.0])])
def test_a_masked_class_is_as_if_it_were_not_there(make, weight):
    logits, target, index = BATCH[0].clone(), torch.tensor([0, 1, 1, 0, 0, 1]), BATCH[2]
    logits[:, 2] = -torch.inf
    with_it, without = (
        make(ROWS, k, nn.CrossEntropyLoss(None if weight is None else weight[:k], reduction="none"), start=1)
        for k in (K, K - 1)
    )
    for _ in range(3 * ROWS // 6 + 1):
        leaves = logits.clone().requires_grad_(), logits[:, :2].clone().requires_grad_()
        values = with_it(leaves[0], target, index), without(leaves[1], target, index)
        torch.testing.assert_close(*values)
        for value in values:
            value.backward()
        torch.testing.assert_close(leaves[0].grad[:, :2], leaves[1].grad)
        assert (leaves[0].grad[:, 2] == 0).all()


@grid(
    "make, backend",
    LOSSES,
    ["eager", "aot_eager"],
    keep=lambda make, backend: backend == "eager" or make is SoftBootstrapLoss,
)
def test_compiled_it_learns_the_same(make, backend):
    options = {} if make is ELRLoss else {"start": 1}
    plain, inside = make(ROWS, K, **options), make(ROWS, K, **options)
    compiled = torch.compile(inside, backend=backend)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        batch = torch.randn(ROWS, K, generator=generator), torch.arange(ROWS) % K, torch.arange(ROWS)
        torch.testing.assert_close(compiled(*batch), plain(*batch))
    for name, value in plain.named_buffers():
        torch.testing.assert_close(dict(inside.named_buffers())[name], value, equal_nan=True)
