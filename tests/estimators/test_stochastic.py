import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from mgce._row_order import content_order
from mgce.estimators import MGCEClassifier, load, save
from mgce.estimators.stochastic import FeatureMoments

X = StandardScaler().fit_transform(load_digits().data)
y = load_digits().target_names[load_digits().target]
TRIVIAL = 1.4 * (1 - 10 ** (-1 / 1.4))


def chunks(size=400):
    return [(X[start : start + size], y[start : start + size]) for start in range(0, len(X), size)]


@pytest.fixture(scope="module")
def in_memory():
    return MGCEClassifier(lambda0=0.01).fit(X, y)


@pytest.fixture(scope="module")
def in_chunks():
    return MGCEClassifier(lambda0=0.01, random_state=0).fit_chunks(chunks())


def test_chunks_reach_the_objective_in_memory(in_memory, in_chunks):
    assert in_memory.minimax_risk_ - 2e-4 * TRIVIAL <= in_chunks.minimax_risk_
    assert in_chunks.minimax_risk_ <= in_memory.minimax_risk_ + 0.01 * TRIVIAL
    assert (in_chunks.predict(X) == in_memory.predict(X)).mean() > 0.98


def test_objective_and_gap_are_true(in_memory, in_chunks):
    warm = MGCEClassifier(lambda0=0.01, solver="lbfgs", max_iter=1, tol=1.0, warm_start=True)
    warm.__dict__.update(coef_=in_chunks.coef_, intercept_=in_chunks.intercept_, classes_=in_chunks.classes_)
    assert warm.fit(X, y).minimax_risk_ <= in_chunks.minimax_risk_ + 1e-12
    assert in_chunks.minimax_risk_ - in_chunks.duality_gap_ <= in_memory.minimax_risk_
    assert 0 <= in_chunks.duality_gap_ < in_chunks.minimax_risk_


def test_one_chunk_is_the_sgd_solver():
    order = content_order(X, y)  # rows in memory are descended on in an order that does not depend on theirs
    ours = MGCEClassifier(lambda0=0.01, random_state=3).fit_chunks([(X[order], y[order])])
    fit = MGCEClassifier(lambda0=0.01, random_state=3, solver="sgd").fit(X, y)
    np.testing.assert_array_equal(ours.coef_, fit.coef_)
    other = MGCEClassifier(lambda0=0.01, random_state=4, solver="sgd").fit(X, y)
    assert not np.array_equal(other.coef_, fit.coef_)


def test_sums_over_rows_are_those_of_rows_that_weigh_more_by_class():
    generator = np.random.default_rng(0)
    psi, index, weight = generator.normal(size=(30, 4)), generator.integers(0, 3, 30), generator.random(30)
    factors = np.array([0.5, 3.0, 1.0])
    sums, weighted = FeatureMoments.empty(3, 4), FeatureMoments.empty(3, 4)
    for part in (slice(0, 10), slice(10, 30)):
        sums.add(psi[part], index[part], weight[part])
        weighted.add(psi[part], index[part], weight[part] * factors[index[part]])
    scaled = sums.scaled(factors)
    for name in ("rows", "first", "second", "weight", "squares"):
        np.testing.assert_allclose(getattr(scaled, name), getattr(weighted, name), err_msg=name)
    each = np.einsum("nk,nd->nkd", np.eye(3)[index], psi)
    want = np.sqrt(np.cov(each.reshape(30, -1), rowvar=False, aweights=weight * factors[index], ddof=0).diagonal())
    np.testing.assert_allclose(scaled.deviation.ravel(), want)


@pytest.mark.parametrize(
    ("weights", "n"),
    [
        ([], 1),  # no row seen yet
        ([1, 1, 1], 3),
        ([2, 3], 5),  # each counts the copies of a row
        ([0.25] * 4, 4),  # scaled to sum to one
        ([0.8, 0.1, 0.1], 1 / 0.66),
        ([1e-200] * 3, 1),  # whose squares are zero
        ([1e200] * 3, 3e200),  # and are infinite
    ],
)
def test_the_effective_number_of_rows_is_one_at_least(weights, n):
    sums = FeatureMoments.empty(2, 1)
    sums.add(np.ones((len(weights), 1)), np.arange(len(weights)) % 2, np.array(weights, dtype=float))
    assert sums.effective_rows == pytest.approx(n)


def test_chunks_may_be_read_anew_each_time():
    class Source:
        passes = 0

        def __iter__(self):
            self.passes += 1
            yield from ((sparse.csr_array(part), labels, np.ones(len(labels))) for part, labels in chunks())

    source = Source()
    clf = MGCEClassifier(lambda0=0.01, random_state=0).fit_chunks(source)
    assert source.passes == clf.n_iter_ + 4  # classes, moments, and two for the bounds
    assert clf.score(X, y) > 0.95


def test_iterators_and_empty_chunks_get_a_sentence():
    with pytest.raises(ValueError, match="Expected `chunks` to be an iterable that can be iterated several times"):
        MGCEClassifier().fit_chunks(part for part in chunks())
    with pytest.raises(ValueError, match="Expected `chunks` to be at least one chunk"):
        MGCEClassifier().fit_chunks([])
    with pytest.raises(ValueError, match="3 features, but MGCEClassifier is expecting 64 features"):
        MGCEClassifier().fit_chunks([*chunks(), (X[:5, :3], y[:5])])
    with pytest.raises(ValueError, match="Expected `y` to be of at least 2 classes"):
        MGCEClassifier().fit_chunks([(X[y == 1], y[y == 1])])


def test_balanced_chunks_weigh_classes_alike():
    keep = (y > 1) | (np.arange(len(y)) % 7 == 0)
    factor = keep.sum() / (10 * np.bincount(y[keep]))
    settings = dict(lambda0=0.01, random_state=0, tol=0.01)
    balanced = MGCEClassifier(class_weight="balanced", **settings).fit_chunks([(X[keep], y[keep])])
    weighted = MGCEClassifier(**settings).fit_chunks([(X[keep], y[keep], factor[y[keep]])])
    np.testing.assert_allclose(balanced.coef_, weighted.coef_, atol=1e-9)


def test_partial_fit_learns_batch_by_batch(in_memory):
    clf = MGCEClassifier(lambda0=0.01)
    rng = np.random.default_rng(0)
    for _ in range(10):
        order = rng.permutation(len(X))
        for part in np.array_split(order, 7):
            clf.partial_fit(X[part], y[part], classes=np.arange(10))
    assert clf.score(X, y) > in_memory.score(X, y) - 0.02
    assert not hasattr(clf, "minimax_risk_")


def test_partial_fit_after_fit_starts_there(in_memory):
    clf = MGCEClassifier(lambda0=0.01, solver="lbfgs").fit(X, y)
    score = clf.score(X, y)
    clf.partial_fit(X[:50], y[:50])
    assert clf.score(X, y) > score - 0.1
    assert clf.classes_.size == 10


def test_partial_fit_goes_on_after_a_file(tmp_path):
    clf = MGCEClassifier().partial_fit(X[:500], y[:500], classes=np.arange(10))
    save(clf, tmp_path / "model.mgce")
    loaded = load(tmp_path / "model.mgce")
    for each in (clf, loaded):
        each.partial_fit(X[500:900], y[500:900])
    np.testing.assert_array_equal(loaded.coef_, clf.coef_)


def test_partial_fit_says_what_is_missing():
    with pytest.raises(ValueError, match="Expected `classes` to be given in the first call of `partial_fit`"):
        MGCEClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="Expected `class_weight` to be None or a dict for `partial_fit`"):
        MGCEClassifier(class_weight="balanced").partial_fit(X, y, classes=np.arange(10))
    with pytest.raises(ValueError, match="Expected `y` to be labels among `classes_`"):
        MGCEClassifier().partial_fit(X, y, classes=np.arange(9))
