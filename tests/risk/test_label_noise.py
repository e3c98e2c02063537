"""Wrong labels: what each assumption proves, what refutes it, and the counterexamples that a careless bound misses."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mgce.noise import pair_flip, symmetric
from mgce.risk import betting_upper, certify, certify_each, certify_model, clopper_pearson_upper
from mgce.risk.betting import shuffled
from mgce.risk.label_noise import power_range
from mgce.risk.sample import Sample

DELTA = 0.05


def pair_world(rng, n, k=10, rate=0.4, error=0.15):
    """Return labels by pair noise and predictions whose errors have the same shape, with the clean labels."""
    clean = rng.integers(0, k, n)
    predicted = (clean + (rng.random(n) < error)) % k
    return np.where(rng.random(n) < rate, (clean + 1) % k, clean), np.eye(k)[predicted], clean


def assert_valid(misses, repetitions, delta=DELTA):
    assert misses <= stats.binom.ppf(0.999, repetitions, delta), f"{misses} of {repetitions}"


def test_symmetric_correction_misses_pair_noise_and_the_matrix_does_not():
    rng, repetitions = np.random.default_rng(0), 100
    bounds = {"noise_rate": [], "transition": [], "any": []}
    for _ in range(repetitions):
        noisy, probs, _ = pair_world(rng, 2000)
        options = {"bounds": ["argmax"], "delta": DELTA}
        bounds["noise_rate"].append(certify(noisy, probs, noise_rate=0.4, **options).assumed.argmax_error)
        bounds["transition"].append(
            certify(noisy, probs, transition=pair_flip(10, 0.4), **options).assumed.argmax_error
        )
        bounds["any"].append(certify(noisy, probs, noise_rate=0.4, noise_type="any", **options).argmax_error)
    misses = {name: sum(bound < 0.15 for bound in values) for name, values in bounds.items()}
    assert misses["noise_rate"] >= 95  # the wrong assumption
    assert_valid(misses["transition"], repetitions)
    assert np.mean(bounds["transition"]) < 0.22
    assert misses["any"] == 0


def test_any_noise_adds_the_share_and_no_adversary_beats_it():
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 3, 1000)
    probs = np.eye(3)[(clean + (rng.random(1000) < 0.2)) % 3]
    hidden = clean.copy()
    wrong = np.flatnonzero(probs.argmax(1) != clean)[:100]  # the adversary hides a hundred errors
    hidden[wrong] = probs.argmax(1)[wrong]
    plain = certify(hidden, probs, bounds=["argmax"]).argmax_error
    certificate = certify(hidden, probs, noise_type="any", noise_rate=0.1, bounds=["argmax"])
    assert certificate.argmax_error == pytest.approx(plain + 0.1)
    assert certificate.argmax_error > (probs.argmax(1) != clean).mean() > plain
    alpha = certify(hidden, probs * 0.9 + 0.1 / 3, beta=2, noise_type="any", noise_rate=0.1, bounds=["alpha"])
    assert alpha.alpha_risk == pytest.approx(
        certify(hidden, probs * 0.9 + 0.1 / 3, beta=2, bounds=["alpha"]).alpha_risk + 0.2
    )


def test_any_noise_never_adds_to_more_than_the_largest_loss():
    target, wrong = np.zeros(100, int), np.eye(2)[np.ones(100, int)]
    certificate = certify(target, wrong * 0.8 + 0.1, beta=1.4, noise_type="any", noise_rate=0.3)
    assert certificate.argmax_error == certificate.randomized_error == 1 and certificate.alpha_risk == 1.4


def test_unbiased_losses_have_the_expectation_of_the_clean_loss_for_every_class():
    rng = np.random.default_rng(0)
    matrix, h = rng.dirichlet(np.full(4, 0.5), 4) * 0.4 + 0.6 * np.eye(4), rng.dirichlet(np.ones(4), 30)
    table = 1.4 * (1 - h ** (1 / 1.4))
    np.testing.assert_allclose((table @ np.linalg.inv(matrix).T) @ matrix.T, table, atol=1e-12)
    # and a row of class y with the expectation taken exactly: weights by counting labels as often as T says
    counts = np.round(matrix[2] * 1000).astype(int)
    rows = np.repeat(np.arange(4), counts)
    exact = counts / counts.sum()
    matrix[2] = exact
    certificate = certify(rows, np.tile(h[0], (len(rows), 1)), transition=matrix, beta=1.4, delta=0.5, bounds=["alpha"])
    assert certificate.assumed.alpha_risk >= table[0, 2] - 0.05
    assert certificate.condition_number == pytest.approx(np.linalg.cond(matrix))


@pytest.mark.parametrize("beta", [1.0, 1.4, 5.0])
def test_range_of_weighted_powers(beta):
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = rng.normal(size=4)
        low, high = power_range(weights, beta)
        h = np.vstack([np.eye(4), rng.dirichlet(np.full(4, 0.3), 4000)])
        if beta > 1:  # where the dual norms are attained
            for part in (np.maximum(weights, 0), np.maximum(-weights, 0)):
                best = part ** (beta / (beta - 1))
                h = np.vstack([h, best / best.sum()]) if best.sum() else h
        values = h ** (1 / beta) @ weights
        assert low - 1e-12 <= values.min() <= low + 1e-9 and high - 1e-9 <= values.max() <= high + 1e-12


@pytest.mark.parametrize("options", [{"noise_rate": 0.1}, {"transition": symmetric(3, 0.3)}])
def test_noise_that_is_not_there_is_refuted_and_not_obeyed(options):
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 3, 2000)
    probs = np.eye(3)[(clean + (rng.random(2000) < 0.05)) % 3] * 0.97 + 0.01
    certificate = certify(clean, probs, **options)
    plain = certify(clean, probs, delta=0.98 * 0.05)
    assert certificate.refuted is not None and "the labels refute" in str(certificate)
    assert (certificate.argmax_error, certificate.randomized_error) == (plain.argmax_error, plain.randomized_error)
    assert "replaced" not in " ".join(certificate.assumptions) and plain.refuted is None


def test_a_right_rate_is_refuted_at_most_as_often_as_delta_says():
    rng, refuted = np.random.default_rng(1), 0
    for _ in range(300):
        clean = rng.integers(0, 4, 300)
        noisy = np.where(rng.random(300) < 0.2, (clean + rng.integers(1, 4, 300)) % 4, clean)
        refuted += certify(noisy, np.eye(4)[clean], noise_rate=0.2, delta=0.1).refuted is not None
    assert 5 < refuted
    assert_valid(refuted, 300, 0.1)


def test_alpha_risk_where_a_lower_bound_of_the_rate_is_not_enough():
    # 60 % of the rows h = (.51, .49), right; 40 % h = (.99, .01), wrong: better than chance, and yet R > S/k. A rate
    # of .4 stated as .3 gave .769 for a truth of .860, in every draw.
    rng, truth = np.random.default_rng(0), 1.4 * (0.6 * (1 - 0.51 ** (1 / 1.4)) + 0.4 * (1 - 0.01 ** (1 / 1.4)))
    assert truth == pytest.approx(0.860, abs=1e-3)
    for _ in range(30):
        sure = rng.random(5000) < 0.4
        clean = sure.astype(int)
        noisy = np.where(rng.random(5000) < 0.4, 1 - clean, clean)
        probs = np.where(sure[:, None], [0.99, 0.01], [0.51, 0.49])
        assert certify(noisy, probs, noise_rate=0.3, beta=1.4).assumed.alpha_risk == 1.4
    # Where R <= S/k is visible, the bound stays sharp.
    clean = rng.integers(0, 2, 5000)
    noisy = np.where(rng.random(5000) < 0.3, 1 - clean, clean)
    good = certify(noisy, np.eye(2)[clean] * 0.8 + 0.1, noise_rate=0.3, beta=1.4)
    assert 1.4 * (1 - 0.9 ** (1 / 1.4)) <= good.assumed.alpha_risk < 0.25


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        (dict(noise_rate=np.eye(2)), TypeError, "Expected `noise_rate` to be a number.*a matrix goes to `transition`"),
        (dict(noise_rate="0.1"), TypeError, "Expected `noise_rate`"),
        (dict(noise_type="none"), ValueError, "Expected `noise_type` to be one of 'symmetric', 'any'"),
        (dict(noise_type="any", noise_rate=1.0), ValueError, r"Expected `noise_rate` to be in \[0, 1\)"),
        (dict(transition=np.eye(3)), ValueError, r"Expected `transition` to be of shape \(2, 2\)"),
        (dict(transition=[[0.5, 0.5], [0.5, 0.5]]), ValueError, "Expected `transition` to be invertible"),
        (dict(transition=[[0.9, 0.2], [0.0, 1.0]]), ValueError, "Expected `transition` to be rows that"),
        (dict(transition=np.eye(2), noise_rate=0.1), ValueError, "stated one at a time"),
        (dict(bounds=[]), ValueError, "Expected `bounds` to be one or more of"),
        (dict(bounds=["alpha"]), ValueError, "Expected `beta` to be given with the bound 'alpha'"),
        (dict(groups=[1]), ValueError, r"Expected `groups` to be of shape \(2,\)"),
        (dict(noise_rate="auto"), TypeError, "Expected `noise_rate` to be a number"),
    ],
)
def test_errors(options, error, sentence):
    with pytest.raises(error, match=sentence.replace("every class', but got 'none", "every class.*none")):
        certify([0, 1], [[0.5, 0.5], [0.2, 0.8]], **options)


def test_one_bound_pays_for_one():
    rng = np.random.default_rng(0)
    y, probs = rng.integers(0, 3, 500), rng.dirichlet(np.ones(3), 500)
    one = certify(y, probs, bounds=["argmax"])
    assert one.argmax_error == clopper_pearson_upper(int((probs.argmax(1) != y).sum()), 500, 0.05)
    assert one.randomized_error is None and "a class that is drawn" not in str(one)
    assert certify(y, probs, bounds=["randomized"]).randomized_error == pytest.approx(
        betting_upper(shuffled(1 - probs[np.arange(500), y], Sample(y, probs).content), 0.05)
    )


def test_one_hot_probabilities_take_clopper_pearson():
    rng = np.random.default_rng(0)
    y, probs = rng.integers(0, 3, 500), np.eye(3)[rng.integers(0, 3, 500)]
    exact = clopper_pearson_upper(int((probs.argmax(1) != y).sum()), 500, 0.05)
    certificate = certify(y, probs, beta=1.4)
    assert (certificate.argmax_error, certificate.randomized_error) == (exact, exact)
    assert certificate.alpha_risk == pytest.approx(1.4 * exact)
    assert any("the probability 1" in text for text in certificate.assumptions)


def test_clusters_are_draws():
    rng, naive, grouped = np.random.default_rng(0), 0, 0
    for _ in range(200):
        errors = np.repeat(rng.random(100) < 0.2, 20) ^ (rng.random(2000) < 0.05)
        truth = 0.2 * 0.95 + 0.8 * 0.05
        options = {"bounds": ["argmax"], "delta": DELTA}
        naive += certify(errors, np.eye(2)[np.zeros(2000, int)], **options).argmax_error < truth
        certificate = certify(errors, np.eye(2)[np.zeros(2000, int)], groups=np.repeat(np.arange(100), 20), **options)
        grouped += certificate.argmax_error < truth
    assert naive > 40
    assert_valid(grouped, 200)
    assert any("random group" in text for text in certificate.assumptions)


def test_unseen_labels_are_errors_under_every_assumption():
    y, probs = np.array([0, 1, -1, -1] * 100), np.array([[0.9, 0.1], [0.1, 0.9], [0.8, 0.2], [0.3, 0.7]] * 100)
    y[::20], y[1::20] = 1, 0  # a fifth of those that are known are wrong
    plain = certify(y, probs, beta=1.4)
    assert plain.argmax_error == clopper_pearson_upper(240, 400, 0.05 / 3) and plain.alpha_risk > 0.7
    for options in ({"noise_rate": 0.1}, {"transition": symmetric(2, 0.1)}):
        assert certify(y, probs, **options).assumed.argmax_error > 0.5
    assert any("none of the classes" in text for text in plain.assumptions)


def test_parts_share_delta():
    rng = np.random.default_rng(0)
    y, probs, column = rng.integers(0, 3, 900), rng.dirichlet(np.ones(3), 900), rng.choice(["a", "b"], 900)
    for by, names in (("label", y), ("prediction", probs.argmax(1)), (column, column)):
        parts = certify_each(y, probs, by, delta=0.1)
        assert sorted(parts) == sorted(set(names.tolist()))
        for name, part in parts.items():
            rows = names == name
            expected = certify(y[rows], probs[rows], delta=0.1 / len(parts))
            assert (part.argmax_error, part.randomized_error) == (expected.argmax_error, expected.randomized_error)
    # That a part's few rows are all sure does not make the classifier one-hot.
    probs = np.vstack([np.eye(2)[[0, 0]], np.full((8, 2), 0.5)])
    parts = certify_each(np.zeros(10), probs, np.array([0, 0] + [1] * 8), bounds=["argmax", "randomized"])
    assert parts[0].randomized_error > parts[0].argmax_error == clopper_pearson_upper(0, 2, 0.0125)
    y, probs = np.zeros(10), np.full((10, 2), 0.5)
    with pytest.raises(ValueError, match="Expected `by` to be another than 'label'"):
        certify_each(y, probs, "label", noise_rate=0.1)


def test_any_model_is_certified_through_a_pipeline_a_search_and_by_predict_alone():
    from sklearn.datasets import load_iris
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    from mgce.estimators import MGCEClassifier

    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    pipeline = make_pipeline(StandardScaler(), MGCEClassifier()).fit(X[::2], names[::2])
    search = GridSearchCV(pipeline, {"mgceclassifier__lambda0": [1e-3, 1e-2]}, cv=2).fit(X[::2], names[::2])
    for model in (pipeline, search):
        expected = certify(y[1::2], model.predict_proba(X[1::2]))
        assert certify_model(model, X[1::2], names[1::2]) == expected
    machine = LinearSVC().fit(X[::2], names[::2])
    wrong = int((machine.predict(X[1::2]) != names[1::2]).sum())
    assert certify_model(machine, X[1::2], names[1::2]).argmax_error == clopper_pearson_upper(wrong, 75)
    with pytest.raises(TypeError, match="Expected `model` to be a fitted classifier with `predict`"):
        certify_model(3, X, y)
    with pytest.raises(ValueError, match="labels of the classes that the model knows .*none of these; the first is 7"):
        certify_model(machine, X, np.full(len(X), 7))


@pytest.mark.parametrize("missing", [float("nan"), None, np.datetime64("NaT"), pd.NA], ids=str)
@pytest.mark.parametrize("argument", ["by", "groups"])
def test_a_row_without_a_name_is_named(argument, missing):
    names = np.array(["a", "b", missing, "a"], object)
    options = {"by": np.array(list("aabb")), argument: names}
    with pytest.raises(ValueError, match=rf"Expected `{argument}` to be a name for each row, but got '.* in row 2"):
        certify_each([0, 1, 0, 1], np.full((4, 2), 0.5), **options)
    with pytest.raises(ValueError, match=r"Expected `by` to be a name for each row, but got 'nan in row 1"):
        certify_each([0, 1], np.full((2, 2), 0.5), np.array([1.0, np.nan]))
    with pytest.raises(TypeError, match=rf"Expected `{argument}` to be names of one type, but got 'int and str"):
        certify_each([0, 1, 0, 1], np.full((4, 2), 0.5), **{**options, argument: np.array(["a", 1, 2, "b"], object)})


@pytest.mark.parametrize("names", [["a", float("nan"), "b", "a"], ["a", 1, "b", "1"]], ids=["nan", "number"])
@pytest.mark.parametrize("argument", ["by", "groups"])
def test_a_list_is_not_made_into_texts(argument, names):
    """NumPy makes the texts "nan" and "1" of a list: a part by that name, or two names that become one."""
    options = {"by": np.array(list("aabb")), argument: names}
    with pytest.raises((ValueError, TypeError), match=rf"Expected `{argument}` to be "):
        certify_each([0, 1, 0, 1], np.full((4, 2), 0.5), **options)


def test_parts_may_be_dates():
    target, h = np.array([0, 1, 1, 0, 1, 0]), np.tile([0.7, 0.3], (6, 1))
    days = np.array(["2020-01-01", "2021-01-01", "2020-01-01"] * 2, "datetime64[ns]")
    parts = certify_each(target, h, days)
    assert list(parts) == sorted(set(days))
    assert [part.n for part in parts.values()] == [4, 2]
    assert list(parts.values()) == list(certify_each(target, h, days.astype(str)).values())
