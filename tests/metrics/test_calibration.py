"""The calibration functions against golden values, netcal and loops."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from netcal.metrics import ECE, MCE

from mgce import _validation
from mgce.metrics import (
    MaximumCalibrationError,
    adaptive_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_curve,
    static_calibration_error,
)
from mgce.metrics.calibration import equal_width_sums

ERRORS = [expected_calibration_error, static_calibration_error, adaptive_calibration_error]
FUNCTIONS = [*ERRORS, maximum_calibration_error, reliability_curve]

GOLDEN_PROBS = torch.tensor(
    [[72, 17, 11], [61, 28, 11], [23, 49, 28], [12, 13, 75], [41, 36, 23], [4, 92, 4]], dtype=torch.float64
).div(100)
GOLDEN_TARGET = torch.tensor([0, 1, 1, 2, 2, 1])


def random_rows(seed, n=500, k=4, dtype=torch.float64):
    """Rows of a sparse map: more than a third have an exact 0, a fifth is one-hot."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, k, generator=generator, dtype=torch.float64)
    probs = torch.relu(logits - logits.amax(1, keepdim=True) + 1)
    probs = probs / probs.sum(1, keepdim=True)
    assert (probs == 0).any(1).float().mean() > 1 / 3
    assert (probs == 1).any(1).float().mean() > 1 / 5
    return probs.to(dtype), torch.randint(k, (n,), generator=generator)


def loop_over_bins(confidence, hits, n_bins):
    """Find the bin of each sample by walking along the edges."""
    total = 0.0
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        inside = [low <= c < high or (b == n_bins - 1 and c == 1) for c in confidence]
        total += abs(sum(h - c for c, h, on in zip(confidence, hits, inside, strict=True) if on))
    return total / len(confidence)


@st.composite
def rows_and_labels(draw):
    """Rows of small integers over their sum: exact 0, 1, ties and bin edges are frequent."""
    k = draw(st.integers(1, 5))
    row = st.lists(st.integers(0, 6), min_size=k, max_size=k).filter(any)
    counts = torch.tensor(draw(st.lists(row, min_size=1, max_size=20)), dtype=torch.float64)
    target = draw(st.lists(st.integers(0, k - 1), min_size=len(counts), max_size=len(counts)))
    return counts / counts.sum(1, keepdim=True), torch.tensor(target)


@pytest.mark.parametrize(
    ("n_bins", "ece", "sce"),
    [
        (2, 1 / 60, 113 / 900),
        (5, 13 / 300, 169 / 900),
        (10, 11 / 50, 233 / 900),
        (15, 107 / 300, 29 / 100),
    ],
)
def test_golden_values(n_bins, ece, sce):
    assert expected_calibration_error(GOLDEN_PROBS, GOLDEN_TARGET, n_bins).item() == pytest.approx(ece, abs=1e-15)
    assert static_calibration_error(GOLDEN_PROBS, GOLDEN_TARGET, n_bins).item() == pytest.approx(sce, abs=1e-15)


def test_golden_sce_attains_its_bound():
    of_label = GOLDEN_PROBS.gather(1, GOLDEN_TARGET[:, None])
    bound = 2 / 3 * (1 - of_label.mean())
    torch.testing.assert_close(static_calibration_error(GOLDEN_PROBS, GOLDEN_TARGET, 15), bound, rtol=0, atol=1e-15)


@pytest.mark.parametrize("n_bins", [1, 2, 7, 10, 15])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ece_equals_netcal(seed, n_bins):
    probs, target = random_rows(seed)
    theirs = ECE(bins=n_bins).measure(probs.numpy(), target.numpy())
    assert expected_calibration_error(probs, target, n_bins).item() == pytest.approx(theirs, abs=1e-13)


@settings(deadline=None)
@given(rows_and_labels(), st.integers(1, 20))
def test_ece_and_sce_equal_loops(rows, n_bins):
    probs, target = rows[0].numpy(), rows[1].numpy()
    ece = loop_over_bins(probs.max(1), probs.argmax(1) == target, n_bins)
    sce = np.mean([loop_over_bins(probs[:, c], target == c, n_bins) for c in range(probs.shape[1])])
    assert expected_calibration_error(*rows, n_bins).item() == pytest.approx(ece, abs=1e-14)
    assert static_calibration_error(*rows, n_bins).item() == pytest.approx(sce, abs=1e-14)


@pytest.mark.parametrize("n_bins", [1, 4, 10])
def test_adaptive_equals_netcal_where_bins_have_equal_counts(n_bins):
    generator = torch.Generator().manual_seed(3)
    probs = torch.randn(400, 5, generator=generator, dtype=torch.float64).softmax(1)
    target = torch.randint(5, (400,), generator=generator)
    assert len(probs.amax(1).unique()) == 400
    theirs = ECE(bins=n_bins, equal_intervals=False).measure(probs.numpy(), target.numpy())
    assert adaptive_calibration_error(probs, target, n_bins).item() == pytest.approx(theirs, abs=1e-13)


@settings(deadline=None)
@given(rows_and_labels(), st.integers(1, 25))
def test_adaptive_equals_loop(rows, n_bins):
    probs, target = rows[0].numpy(), rows[1].numpy()
    confidence, hits = probs.max(1), probs.argmax(1) == target
    accuracy_of = {c: np.mean(hits[confidence == c]) for c in set(confidence)}
    gaps = [0.0] * n_bins
    for rank, c in enumerate(sorted(confidence)):
        gaps[rank * n_bins // len(confidence)] += accuracy_of[c] - c
    error = sum(map(abs, gaps)) / len(confidence)
    assert adaptive_calibration_error(*rows, n_bins).item() == pytest.approx(error, abs=1e-13)


@settings(deadline=None)
@given(rows_and_labels(), st.integers(1, 20))
def test_bounds(rows, n_bins):
    probs, target = rows
    k = probs.shape[1]
    bound = 2 / k * (1 - probs.gather(1, target[:, None]).mean().item())
    assert static_calibration_error(probs, target, n_bins).item() <= bound + 1e-14
    assert bound <= 2 / k
    overall = abs((probs.argmax(1) == target).double().mean() - probs.amax(1).mean()).item()
    assert overall - 1e-14 <= expected_calibration_error(probs, target, n_bins).item() <= 1
    assert overall - 1e-14 <= adaptive_calibration_error(probs, target, n_bins).item() <= 1


@settings(deadline=None)
@given(rows_and_labels(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(rows, random):
    probs, target = rows
    order = list(range(len(probs)))
    random.shuffle(order)
    for error in ERRORS:
        torch.testing.assert_close(error(probs[order], target[order], 5), error(probs, target, 5), rtol=0, atol=1e-13)


@pytest.mark.parametrize("error", ERRORS)
def test_names_of_classes_do_not_matter(error):
    generator = torch.Generator().manual_seed(4)
    probs = torch.randn(300, 6, generator=generator, dtype=torch.float64).softmax(1)  # no ties for the top
    target = torch.randint(6, (300,), generator=generator)
    order = torch.randperm(6, generator=generator)
    torch.testing.assert_close(error(probs[:, order], order.argsort()[target]), error(probs, target))


def test_exact_zero_and_one():
    probs, target = torch.eye(2)[[0, 0, 0, 1]], torch.tensor([0, 0, 1, 1])
    curve = reliability_curve(probs, target, 10)
    assert curve.count.tolist() == [0] * 9 + [4]
    assert curve.accuracy[-1] == 0.75
    for error in ERRORS:
        assert error(probs, target, 10).item() == 0.25


@pytest.mark.parametrize("n_bins", [1, 5, 10, 15, 22, 49, 100])
def test_edges_belong_to_the_bin_above(n_bins):
    """With 22 bins, floor(15/22 * 22) is 14 in float64."""
    edges = torch.tensor([b / n_bins for b in range(n_bins + 1)], dtype=torch.float64)
    on_edges = equal_width_sums(edges, edges, n_bins).samples
    assert on_edges.tolist() == [1] * (n_bins - 1) + [2]
    below = torch.nextafter(edges[1:], torch.zeros_like(edges[1:]))
    assert equal_width_sums(below, below, n_bins).samples.tolist() == [1] * n_bins


def test_float32_is_binned_by_the_value_it_holds():
    def bin_of(dtype):
        probs = torch.tensor([[0.7, 0.3]], dtype=dtype)
        return reliability_curve(probs, torch.tensor([0]), 10).count.argmax().item()

    assert bin_of(torch.float64) == 7
    assert bin_of(torch.float32) == 6  # 0.699999988


def test_reliability_curve_of_golden_rows():
    curve = reliability_curve(GOLDEN_PROBS, GOLDEN_TARGET, 5)
    nan = float("nan")
    double = torch.float64
    torch.testing.assert_close(
        curve.confidence, torch.tensor([nan, nan, 0.45, 2.08 / 3, 0.92], dtype=double), equal_nan=True
    )
    torch.testing.assert_close(curve.accuracy, torch.tensor([nan, nan, 0.5, 2 / 3, 1], dtype=double), equal_nan=True)
    assert curve.count.tolist() == [0, 0, 2, 3, 1]
    torch.testing.assert_close(curve.edges, torch.tensor([0, 0.2, 0.4, 0.6, 0.8, 1], dtype=double), rtol=0, atol=0)


def test_reliability_curve_gives_the_ece():
    probs, target = random_rows(5)
    curve = reliability_curve(probs, target, 12)
    gap = (curve.accuracy - curve.confidence).abs().nan_to_num() * curve.count / curve.count.sum()
    torch.testing.assert_close(gap.sum(), expected_calibration_error(probs, target, 12))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("error", ERRORS)
def test_low_precision_is_that_of_its_values_in_float64(error, dtype):
    probs, target = random_rows(6, dtype=dtype)
    assert error(probs, target).dtype == torch.float64
    assert error(probs, target).item() == error(probs.double(), target, validate_args=False).item()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_any_integer_target(dtype):
    for error in ERRORS:
        assert error(GOLDEN_PROBS, GOLDEN_TARGET.to(dtype)).item() == error(GOLDEN_PROBS, GOLDEN_TARGET).item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_softmax_in_low_precision_passes(dtype):
    logits = 4 * torch.randn(200, 1000, generator=torch.Generator().manual_seed(7))
    expected_calibration_error(logits.softmax(1).to(dtype), torch.zeros(200, dtype=torch.int64))


@pytest.mark.parametrize(
    ("dtype", "one"), [(torch.float32, 1.0000001), (torch.float64, 1.0000001), (torch.half, 1 + 2**-10)]
)
def test_rounding_errors_outside_the_unit_interval_are_clamped(dtype, one):
    probs = torch.tensor([[one, 1 - one], [0.25, 0.75]], dtype=dtype)
    target = torch.tensor([0, 0])
    assert probs[0, 0] > 1
    assert probs[0, 1] < 0
    for error in ERRORS:
        assert error(probs, target, 10) == error(torch.tensor([[1, 0], [0.25, 0.75]]), target, 10)
    assert reliability_curve(probs, target, 10).confidence[-1] == 1


def test_no_graph_and_inputs_unchanged():
    probs = GOLDEN_PROBS.clone().requires_grad_()
    target = GOLDEN_TARGET.clone()
    for error in ERRORS:
        assert not error(probs, target).requires_grad
    assert torch.equal(probs, GOLDEN_PROBS)
    assert torch.equal(target, GOLDEN_TARGET)


ROWS = [[0.5, 0.5], [0.25, 0.75]]


@pytest.mark.parametrize(
    ("probs", "target", "error", "sentence"),
    [
        (ROWS, [0, 1], TypeError, "Expected `probs` to be a torch.Tensor, but got 'list'"),
        (torch.tensor(ROWS), [0, 1], TypeError, "Expected `target` to be a torch.Tensor, but got 'list'"),
        (torch.ones(2, 1).int(), torch.tensor([0, 0]), ValueError, "`probs` to be a floating-point tensor"),
        (torch.tensor([0.5, 0.5]), torch.tensor([0, 1]), ValueError, r"`probs` .* shape \(N, k\) .* got \(2,\)"),
        (torch.empty(0, 2), torch.empty(0).long(), ValueError, r"`probs` .* N, k >= 1, but got \(0, 2\)"),
        (torch.empty(2, 0), torch.tensor([0, 1]), ValueError, r"`probs` .* N, k >= 1, but got \(2, 0\)"),
        (
            torch.tensor([[2.0, -1.0]]),
            torch.tensor([0]),
            ValueError,
            r"`probs` .* in \[0, 1\], not logits, but got 2.0",
        ),
        (torch.tensor([[0.0, torch.nan]]), torch.tensor([0]), ValueError, r"`probs` .* in \[0, 1\].* but got nan"),
        (torch.tensor([[0.0, torch.inf]]), torch.tensor([0]), ValueError, r"`probs` .* in \[0, 1\].* but got inf"),
        (torch.tensor([[0.5, 0.25]]), torch.tensor([0]), ValueError, "`probs` .* rows sum to one, but got 0.75"),
        (torch.tensor(ROWS), torch.tensor([0.0, 1.0]), ValueError, "`target` .* integers, but got torch.float32"),
        (torch.tensor(ROWS), torch.tensor([True, False]), ValueError, "`target` .* integers, but got torch.bool"),
        (torch.tensor(ROWS), torch.tensor([[0, 1]]), ValueError, r"`target` .* shape \(N,\), but got \(1, 2\)"),
        (torch.tensor(ROWS), torch.tensor([0]), ValueError, "`target` .* as long as `probs`, 2, but got 1"),
        (torch.tensor(ROWS), torch.tensor([0, 2]), ValueError, r"`target` .* integers in \[0, 1\], but got 2"),
        (torch.tensor(ROWS), torch.tensor([0, -1]), ValueError, r"`target` .* integers in \[0, 1\], but got -1"),
    ],
)
def test_bad_tensors(probs, target, error, sentence):
    for function in FUNCTIONS:
        with pytest.raises(error, match=sentence):
            function(probs, target)


@pytest.mark.parametrize(("n_bins", "error"), [(0, ValueError), (-3, ValueError), (2.0, TypeError), (True, TypeError)])
def test_bad_number_of_bins(n_bins, error):
    for function in FUNCTIONS:
        with pytest.raises(error, match="Expected `n_bins` to be an integer of at least 1, but got"):
            function(GOLDEN_PROBS, GOLDEN_TARGET, n_bins)


@pytest.mark.parametrize(("dtype", "off"), [(torch.float64, 1e-3), (torch.float32, 1e-3), (torch.half, 0.1)])
def test_errors_beyond_rounding_are_refused(dtype, off):
    with pytest.raises(ValueError, match="rows sum to one"):
        expected_calibration_error(torch.tensor([[0.5, 0.5 - off]], dtype=dtype), torch.tensor([0]))
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        expected_calibration_error(torch.tensor([[1 + off, -off]], dtype=dtype), torch.tensor([0]))


def test_checks_of_values_can_be_skipped():
    probs, target = torch.tensor([[0.5, 0.25]]), torch.tensor([0])
    assert expected_calibration_error(probs, target, validate_args=False).item() == 0.5


def test_maximum_calibration_error_is_that_of_netcal():
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(500, 3, dtype=torch.float64, generator=generator)
    probs = probs / probs.sum(1, keepdim=True)
    target = torch.randint(3, (500,), generator=generator)
    want = MCE(10).measure(probs.numpy(), target.numpy())
    got = maximum_calibration_error(probs, target, n_bins=10)
    assert got.item() == pytest.approx(want, abs=1e-12)
    metric = MaximumCalibrationError(n_bins=10)
    for rows in (slice(0, 200), slice(200, 500)):
        metric.update(probs[rows], target[rows])
    assert metric.compute() == got


@pytest.mark.parametrize("function", [*ERRORS, maximum_calibration_error])
def test_there_are_fifteen_bins_unless_told_otherwise(function):
    generator = torch.Generator().manual_seed(0)
    probs = torch.randn(500, 4, generator=generator).softmax(1)
    target = torch.multinomial(probs, 1, generator=generator).squeeze(1)  # gaps of both signs
    assert function(probs, target) == function(probs, target, n_bins=15) != function(probs, target, n_bins=16)


def test_apples_gpus_alone_have_no_float64():
    names = ("cpu", "cuda", "mps", "xpu")
    assert {name for name in names if not _validation.has_float64(torch.device(name))} == {"mps"}


def test_the_plot_of_a_curve_has_a_bar_for_each_bin_with_samples(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    probs = torch.tensor([[0.75, 0.25], [1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    curve = reliability_curve(probs, torch.tensor([0, 1, 0, 1]), n_bins=4)
    ax = curve.plot()
    bars = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in ax.patches]
    np.testing.assert_allclose(bars, [(0.5, 0.25, 1.0), (0.75, 0.25, 2 / 3)])
    assert [[0, 0], [1, 1]] in [line.get_xydata().tolist() for line in ax.lines]  # a calibrated classifier
    assert ax.patches[0].get_alpha() < ax.patches[1].get_alpha() == 1
    assert curve.plot(ax) is ax
    pyplot.close("all")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        curve.plot()
