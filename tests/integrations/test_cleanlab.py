"""Functions of cleanlab's names: the same names, arguments and columns, and the ranking of `find_suspects`."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import mgce
from mgce.integrations import cleanlab as door

QUICK = True  # but where a test says otherwise
HOMES = {
    "filter": ("find_label_issues",),
    "rank": ("get_label_quality_scores",),
    "count": ("num_label_issues", "estimate_joint"),
    "dataset": ("health_summary",),
    "multiannotator": (
        "get_label_quality_multiannotator",
        "get_majority_vote_label",
        "get_active_learning_scores",
    ),
    "classification": ("CleanLearning",),
}
LINEAR = LogisticRegression(max_iter=1000)
NAMES = [(home, name) for home, names in HOMES.items() for name in names]


@pytest.fixture(scope="module")
def given():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16, y[:600]
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(len(y)) < 0.1, (y + rng.integers(1, 10, len(y))) % 10, y)
    probs = cross_val_predict(LINEAR, X, labels, cv=3, method="predict_proba")
    return X, y, labels, probs


@pytest.fixture(scope="module")
def annotations(given):
    _, y, _, _ = given
    rng = np.random.default_rng(1)
    wrong = rng.random((len(y), 4)) < [0.05, 0.1, 0.2, 0.4]
    labels = np.where(wrong, (y[:, None] + rng.integers(1, 10, wrong.shape)) % 10, y[:, None]).astype(float)
    labels[rng.random(labels.shape) < 0.3] = np.nan
    labels[np.isnan(labels).all(1), 0] = 0
    return pd.DataFrame(labels, columns=["A", "B", "C", "D"])


@pytest.mark.integration
@pytest.mark.parametrize("home, name", NAMES)
def test_arguments_have_the_names_and_order_of_cleanlab(home, name):
    theirs = getattr(pytest.importorskip(f"cleanlab.{home}"), name)
    methods = ("__init__", "fit", "find_label_issues") if inspect.isclass(theirs) else ("__call__",)
    for method in methods:
        pair = [one if method == "__call__" else getattr(one, method) for one in (getattr(door, name), theirs)]
        ours, known = (inspect.signature(one).parameters for one in pair)
        named = [argument for argument in ours if argument != "others"]
        assert set(named) <= set(known), set(named) - set(known)
        places = [list(known).index(a) for a in named if known[a].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        assert places == list(range(len(places)))


def test_the_mask_and_the_order_are_those_of_find_suspects(given):
    _, y, labels, probs = given
    suspects = mgce.find_suspects(probs, labels, given="probs")
    mask = door.find_label_issues(labels, probs)
    ranked = door.find_label_issues(labels, probs, return_indices_ranked_by="normalized_margin")
    assert (
        mask.dtype == bool and (mask == suspects.is_issue).all() and door.num_label_issues(labels, probs) == mask.sum()
    )
    assert ranked.tolist() == [row for row in suspects.order if mask[row]] and len(ranked) > 30
    score = door.get_label_quality_scores(labels, probs)
    assert (np.diff(score[ranked]) >= 0).all() and score.min() >= 0 and score.max() <= 1
    assert (labels != y)[ranked].mean() > 0.9


@pytest.mark.integration
def test_filters_with_a_definition_are_those_of_cleanlab(given):
    theirs = pytest.importorskip("cleanlab.filter")
    _, _, labels, probs = given
    for filter_by in ("predicted_neq_given", "confident_learning"):
        expected = theirs.find_label_issues(labels, probs, filter_by=filter_by, n_jobs=1)
        assert (door.find_label_issues(labels, probs, filter_by=filter_by) == expected).all() and expected.any()


def test_numbers_limit_the_rows_of_each_class(given):
    _, _, labels, probs = given
    full = door.find_label_issues(labels, probs, return_indices_ranked_by="self_confidence")
    half = door.find_label_issues(labels, probs, return_indices_ranked_by="self_confidence", frac_noise=0.5)
    assert half.tolist() == full[: len(half)].tolist() and len(half) == np.ceil(len(full) / 2)
    most = [3, 0, 1, 0, 0, 2, 0, 0, 0, 0]
    few = door.find_label_issues(labels, probs, num_to_remove_per_class=most)
    assert np.bincount(labels[few], minlength=10).tolist() == most
    size = np.bincount(labels).max()
    assert not door.find_label_issues(labels, probs, min_examples_per_class=size).any()


def test_labels_of_any_type_and_classes_without_a_row(given):
    _, _, labels, probs = given
    by_number = door.get_label_quality_scores(labels, probs)
    np.testing.assert_array_equal(door.get_label_quality_scores([f"digit {y}" for y in labels], probs), by_number)
    only = labels < 9
    assert door.find_label_issues(labels[only], probs[only]).shape == (only.sum(),)
    assert door.estimate_joint(labels[only], probs[only]).shape == (10, 10)


@pytest.mark.parametrize("name", ["confident_joint", "multi_label", "anything"])
def test_arguments_that_would_change_the_result_are_refused(given, name):
    _, _, labels, probs = given
    with pytest.raises(TypeError, match=f"Expected `argument` to be one of this function .*, but got '{name}'"):
        door.find_label_issues(labels, probs, **{name: True})
    with pytest.raises(ValueError, match="Expected `pred_probs` to be of shape"):
        door.find_label_issues(labels, probs[:, :5] / probs[:, :5].sum(1, keepdims=True))
    with pytest.raises(ValueError, match=f"Expected `return_indices_ranked_by` to be .* but got '{name}'"):
        door.find_label_issues(labels, probs, return_indices_ranked_by=name)


@pytest.mark.integration
def test_the_joint_is_near_the_one_that_made_the_labels(given):
    _, y, labels, probs = given
    true = np.zeros((10, 10))
    np.add.at(true, (labels, y), 1 / len(y))
    found = door.health_summary(labels, probs)
    assert np.abs(found["joint"] - true).max() < 0.02 and abs(found["joint"].sum() - 1) < 1e-12
    assert abs(found["overall_label_health_score"] - np.trace(true)) < 0.05
    for pair in found["overlapping_classes"].to_dict("records"):
        a, b = pair["Class Index A"], pair["Class Index B"]
        assert pair["Joint Probability"] == found["joint"][a, b] + found["joint"][b, a]
    theirs = pytest.importorskip("cleanlab.dataset").health_summary(labels, probs, verbose=False)
    assert set(found) == set(theirs)
    for table in ("classes_by_label_quality", "overlapping_classes"):
        assert list(found[table]) == list(theirs[table]) and len(found[table]) == len(theirs[table])
        named = door.health_summary(labels, probs, class_names=list("abcdefghij"))[table]
        theirs_named = pytest.importorskip("cleanlab.dataset").health_summary(
            labels, probs, class_names=list("abcdefghij"), verbose=False
        )[table]
        assert list(named) == list(theirs_named)


def test_the_tables_of_health_are_those_of_the_joint_added_up_class_by_class(given):
    _, _, labels, probs = given
    few = labels < 4
    q = probs[few][:, :4] / probs[few][:, :4].sum(1, keepdims=True)
    names, n = list("abcd"), int(few.sum())
    for class_names in (None, names):
        found = door.health_summary(labels[few], q, class_names=class_names)
        joint = found["joint"]
        np.testing.assert_allclose(joint.sum(1), np.bincount(labels[few]) / n)  # given labels are what they are
        pairs = found["overlapping_classes"].to_dict("records")
        assert len(pairs) == 6 and (np.diff([pair["Joint Probability"] for pair in pairs]) <= 0).all()
        for pair in pairs:
            a, b = pair["Class Index A"], pair["Class Index B"]
            assert a < b and pair["Joint Probability"] == pytest.approx(joint[a, b] + joint[b, a])
            assert pair["Num Overlapping Examples"] == round(n * (joint[a, b] + joint[b, a]))
            assert [pair.get(f"Class Name {side}") for side in "AB"] == [class_names and names[one] for one in (a, b)]
        for one in found["classes_by_label_quality"].to_dict("records"):
            c = one["Class Index"]
            assert one["Label Quality Score"] == pytest.approx(joint[c, c] / joint[c].sum())
            assert one["Label Issues"] == round(n * (joint[c].sum() - joint[c, c]))
            assert one["Inverse Label Noise"] == pytest.approx(1 - joint[c, c] / joint[:, c].sum())


def test_datalab_counts_the_labels_that_it_lists(given):
    _, _, labels, probs = given
    lab = door.Datalab({"y": labels}, label_name="y")
    lab.find_issues(pred_probs=probs)
    mask = door.find_label_issues(labels, probs)
    for name in (None, "label"):
        (row,) = lab.get_issue_summary(name).to_dict("records")
        assert row == {"issue_type": "label", "score": pytest.approx((~mask).mean()), "num_issues": mask.sum()}
        assert lab.get_issues(name)["is_label_issue"].tolist() == mask.tolist()


@pytest.mark.integration
def test_clean_learning_finds_wrong_labels_and_leaves_them_out(given):
    X, y, labels, _ = given
    cl = door.CleanLearning(LINEAR, seed=0, cv_n_folds=3).fit(X, labels)
    table = cl.get_label_issues()
    assert list(table) == ["is_label_issue", "label_quality", "given_label", "predicted_label"]
    issues = table["is_label_issue"].to_numpy()
    assert ((labels != y) & issues).sum() / issues.sum() > 0.9
    assert cl.score(X, y) > LINEAR.fit(X, labels).score(X, y)
    assert cl.predict(X).shape == (len(X),) and cl.predict_proba(X).shape == (len(X), 10)
    again = [clone(cl).fit(X, labels, label_issues=one) for one in (table, issues, np.flatnonzero(issues))]
    for one in again:
        np.testing.assert_allclose(one.predict_proba(X), cl.predict_proba(X))
    theirs = pytest.importorskip("cleanlab.classification").CleanLearning(LINEAR, seed=0)
    assert list(theirs.find_label_issues(X, labels)) == list(table)


@pytest.mark.integration
def test_clean_learning_of_a_model_of_even_probabilities_finds_wrong_labels_too(given):
    X, y, _, _ = given
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(len(y)) < 0.05, (y + rng.integers(1, 10, len(y))) % 10, y)
    cl = door.CleanLearning(LogisticRegression(C=0.01), seed=0)
    found = cl.find_label_issues(X, labels)["is_label_issue"].to_numpy()
    theirs = pytest.importorskip("cleanlab.classification").CleanLearning(LogisticRegression(C=0.01), seed=0)
    listed = theirs.find_label_issues(X, labels)["is_label_issue"].to_numpy()
    wrong = labels != y
    assert wrong[found].sum() > wrong.sum() / 2 and wrong[found].mean() >= wrong[listed].mean()


def test_clean_learning_takes_frames_and_names_of_classes(given):
    X, _, labels, probs = given
    names = np.array([f"digit {label}" for label in labels])
    cl = door.CleanLearning(seed=0, cv_n_folds=2, clf=LINEAR).fit(pd.DataFrame(X[:200]), names[:200])
    assert set(cl.predict(pd.DataFrame(X[:20]))) <= set(names) and cl.classes_.tolist() == sorted(set(names))
    assert door.CleanLearning().get_label_issues() is None
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(door.CleanLearning(), method)(X)
    with pytest.raises(ValueError, match="Expected `label_issues` to be 200 values"):
        door.CleanLearning().fit(X[:200], labels[:200], label_issues=np.zeros(3, bool))
    assert len(door.CleanLearning().find_label_issues(labels=labels, pred_probs=probs)) == len(labels)


@pytest.mark.integration
def test_consensus_has_the_columns_of_cleanlab_and_finds_the_poor_annotator(given, annotations):
    _, y, _, probs = given
    found = door.get_label_quality_multiannotator(annotations, probs)
    consensus = found["label_quality"]["consensus_label"]
    majority = door.get_majority_vote_label(annotations)
    assert consensus.dtype == majority.dtype == np.int64
    assert (consensus == y).mean() > (majority == y).mean() > 0.8
    assert found["annotator_stats"].index[0] == "D"
    assert found["detailed_label_quality"].isna().to_numpy().tolist() == annotations.isna().to_numpy().tolist()
    theirs = pytest.importorskip("cleanlab.multiannotator").get_label_quality_multiannotator(
        annotations, probs, verbose=False
    )
    assert set(found) == set(theirs)
    for table, values in theirs.items():
        assert list(found[table]) == list(values) and found[table].shape == values.shape
        assert [str(kind) for kind in found[table].dtypes] == [str(kind) for kind in values.dtypes]
    same = ["annotator_agreement", "num_annotations"]
    agree = (theirs["label_quality"]["consensus_label"] == consensus).to_numpy()
    pd.testing.assert_frame_equal(found["label_quality"][agree][same], theirs["label_quality"][agree][same])


def test_rows_without_a_label_ask_for_one_first_where_the_model_is_unsure(given, annotations):
    probs = given[3]
    unsure = np.full((2, 10), 0.1)
    scores, others = door.get_active_learning_scores(annotations, probs, np.vstack([unsure, np.eye(10)[:1]]))
    assert scores.shape == (len(annotations),) and others.shape == (3,)
    assert others[:2].max() < np.quantile(scores, 0.1) and others[2] > others[0]
    with pytest.raises(ValueError, match="Expected `pred_probs` to be given"):
        door.get_active_learning_scores(annotations, None, unsure)


@pytest.mark.integration
def test_datalab_looks_for_wrong_labels_alone(given, capsys):
    X, y, labels, probs = given
    lab = door.Datalab({"X": X, "y": labels}, label_name="y")
    with pytest.raises(ValueError, match="find_issues"):
        lab.get_issues()
    lab.find_issues(pred_probs=probs, features=X, issue_types={"label": {}})
    table = lab.get_issues("label")
    assert list(table) == ["is_label_issue", "label_score", "given_label", "predicted_label"]
    assert list(lab.issues) == ["is_label_issue", "label_score"]
    assert lab.issue_summary["num_issues"].item() == table["is_label_issue"].sum()
    assert lab.get_info("label")["num_label_issues"] == lab.get_info()["label"]["num_label_issues"]
    lab.report(num_examples=2)
    assert len(capsys.readouterr().out.splitlines()) == 4
    lab.find_issues(features=X)
    assert (labels != y)[lab.get_issues("label")["is_label_issue"]].mean() > 0.9
    for wrong in ({"issue_types": {"outlier": {}}, "features": X}, {}):
        with pytest.raises(ValueError, match="Expected `"):
            lab.find_issues(**wrong)
    with pytest.raises(ValueError, match="Expected `issue_name`"):
        lab.get_issues("outlier")
    with pytest.raises(ValueError, match="Expected `label_name`"):
        door.Datalab({"X": X})
