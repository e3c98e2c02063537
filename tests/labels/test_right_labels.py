import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from mgce.labels.right_labels import PRIOR_ROWS, SHARPNESS, RightLabels, estimate_right_labels


def drawn(n, k, eta, sharpness=3.0, seed=0):
    """Margins, given labels of which a share eta is wrong, and right labels, drawn from softmax of the margins."""
    rng = np.random.default_rng(seed)
    f = sharpness * rng.normal(size=(n, k))
    right = (f + rng.gumbel(size=f.shape)).argmax(1)
    wrong = (right + rng.integers(1, k, n)) % k
    return f, np.where(rng.random(n) < eta, wrong, right), right


NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize(
    ("k", "eta", "scale"),
    [
        (2, 0.2, 5.0),
        (5, 0.4, 0.3),
        *(pytest.param(*case, marks=NIGHTLY) for case in ((2, 0.0, 0.3), (2, 0.0, 5.0), (2, 0.2, 0.3), (5, 0.0, 0.3))),
        *(
            pytest.param(*case, marks=NIGHTLY)
            for case in ((5, 0.0, 5.0), (5, 0.4, 5.0), (26, 0.6, 0.3), (26, 0.6, 5.0))
        ),
    ],
)
def test_q_is_the_law_of_the_right_label_whatever_the_scale_of_the_margins(k, eta, scale):
    f, given, right = drawn(20_000, k, eta)
    found = estimate_right_labels(f * scale, given)
    assert found.noise_rate == pytest.approx(eta, abs=0.02) and found.lower - 0.02 <= eta <= found.upper + 0.02
    assert found.is_told and found.n == 20_000
    q = found.probs(f * scale)
    assert np.abs(q - softmax(f, axis=1)).mean() < 0.02
    assert q.max(1).mean() == pytest.approx((f.argmax(1) == right).mean(), abs=0.02)


def test_the_factor_for_a_stated_rate_is_that_of_the_largest_likelihood():
    f, given, _ = drawn(500, 3, 0.3)
    found = estimate_right_labels(f, given, 0.25)
    assert (found.rates, found.weights, found.lower, found.upper, found.stated) == ((0.25,), (1.0,), 0.25, 0.25, True)

    def loss(a):
        q = np.exp(log_softmax(a * f, axis=1))[np.arange(500), given]
        return -np.log(0.75 * q + 0.25 / 2 * (1 - q)).sum()

    best = minimize(loss, [1.0], method="Nelder-Mead").x[0]
    assert found.sharpness[0] == pytest.approx(best, rel=0.07)  # half a step of the grid
    assert loss(found.sharpness[0]) == min(loss(a) for a in SHARPNESS)
    np.testing.assert_allclose(found.probs(f), softmax(found.sharpness[0] * f, axis=1))
    assert "25.0% of the labels for wrong, as stated." in str(found)


def test_what_few_rows_do_not_tell_is_said():
    f, given, right = drawn(300, 2, 0.4)
    found = estimate_right_labels(f, given)
    assert not found.is_told and found.upper - found.lower > 0.25
    assert "do not tell wrong ones from classes that overlap" in str(found)
    # The prior then prefers classes that can be told apart, as these can.
    assert PRIOR_ROWS > 0 and abs(found.probs(f).max(1).mean() - (f.argmax(1) == right).mean()) < 0.1


def test_classes_that_overlap_are_not_taken_for_wrong_labels():
    f, given, _ = drawn(4_000, 2, 0.0, sharpness=1.0)
    found = estimate_right_labels(f, given)
    assert found.is_told and found.noise_rate < 0.05 and found.probs(f).max(1).mean() < 0.75


def test_huge_margins_do_not_overflow():
    found = RightLabels((0.1,), (50.0,), (1.0,), 0.0, 0.2, 10)
    np.testing.assert_array_equal(found.probs(np.array([[-1e308, 1e308], [0.0, 0.0]])), [[0, 1], [0.5, 0.5]])
    f, given, _ = drawn(50, 2, 0.0)
    assert np.isfinite(estimate_right_labels(f * 1e307, given).probs(f * 1e307)).all()


def test_the_order_of_the_rows_does_not_matter():
    f, given, _ = drawn(400, 3, 0.2)
    one, other = estimate_right_labels(f, given), estimate_right_labels(f[::-1], given[::-1])
    np.testing.assert_allclose(one.weights, other.weights)
    assert one.sharpness == other.sharpness


@pytest.mark.parametrize("rate", [-0.1, 0.5, 1.0])
def test_a_rate_of_chance_is_refused(rate):
    with pytest.raises(ValueError, match="noise_rate"):
        estimate_right_labels(np.zeros((3, 2)), np.zeros(3, np.int64), rate)


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        estimate_right_labels(np.zeros((0, 2)), np.zeros(0, np.int64))


def test_margins_that_are_equally_sure_of_all_rows_do_not_tell_errors_from_wrong_labels():
    rng = np.random.default_rng(0)
    right = rng.integers(3, size=2000)
    predicted = np.where(rng.random(2000) < 0.3, (right + rng.integers(1, 3, 2000)) % 3, right)
    found = estimate_right_labels(np.eye(3)[predicted] * 2, right)
    assert not found.is_told and found.lower == 0 and found.upper > 0.25
