import re
from time import perf_counter  # noqa: F401

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from mgce._arrays import TwoViews, view_for
from mgce.estimators import MGCEClassifier, MGCEForestClassifier, MGCEVotingClassifier, load
from mgce.tables.columns import Columns
from mgce.tables.model import TableModel
from mgce.tables.text_features import SETTINGS, TextEncoder, transformer
from mgce.tables.texts import TOKEN

TOPICS = {
    "bill": "please send the invoice again",
    "fault": "our server is down since noon",
    "junk": "you win a free prize",
}


def tickets(n=120, seed=0):
    """Return texts that hold the words of their topic among others, and the topics."""
    rng = np.random.default_rng(seed)
    topic = rng.choice(list(TOPICS), n)
    texts = []
    for each in topic:
        words = rng.choice(TOPICS[each].split(), 3).tolist()
        texts.append(" ".join([*words, rng.choice(["today", "now"]), f"#{rng.integers(1000)}"]))
    return pd.Series(texts, dtype=object, name="subject"), topic


def test_words_weigh_as_scikit_learn_weighs_them():
    texts, _ = tickets()
    words, _ = TextEncoder().fit(texts).transform(texts[:20])
    own = TfidfVectorizer(min_df=2, max_features=5000, **SETTINGS["words"]).fit(texts)
    assert own.token_pattern == TOKEN
    np.testing.assert_allclose(words.toarray(), own.transform(texts[:20]).toarray(), rtol=1e-12)


def test_the_reduction_keeps_the_angles_between_texts():
    texts, _ = tickets()
    encoder = TextEncoder().fit(texts)
    _, reduced = encoder.transform(texts)
    parts = [TfidfVectorizer(min_df=2, **each).fit_transform(texts) for each in SETTINGS.values()]
    full = sparse.hstack(parts).toarray()
    unit = reduced / np.linalg.norm(reduced, axis=1, keepdims=True)
    # 119 components of 120 texts: nothing but rounding is lost.
    np.testing.assert_allclose(unit @ unit.T, full @ full.T / 2, atol=1e-5)
    assert reduced.var(0).sum() == pytest.approx(4, rel=1e-3)


def test_a_text_is_encoded_alike_alone_and_among_others():
    texts, _ = tickets()
    encoder = TextEncoder().fit(texts)
    words, reduced = encoder.transform(texts)
    for row in (0, 77):
        alone, alone_reduced = encoder.transform(texts[row : row + 1])
        assert (alone != words[row]).nnz == 0
        np.testing.assert_array_equal(alone_reduced[0], reduced[row])


@pytest.mark.parametrize(
    "texts",
    [
        ["!!!", "...", "?"],
        ["a b c", "b c d", "e f"],
        ["the same text"] * 5,
        [None, np.nan, "one text", "two texts"],
        [None, "only one has words here"],
        ["x\0y z\0", "x\0y", "x y z"],
        ["line one\nline two\r\nline three", "line four\nline two"],
        ["我要查询我的账户余额", "我的账户被冻结了", "查询余额"],
        ["हिन्दी में लिखा", "हिन्दी में पढ़ा", "پيام به فارسی"],
        ["A" * 10_000, "A" * 10_000 + " b", "b c"],
    ],
    ids=["no token", "letters", "one text", "missing", "one row", "unwritable", "breaks", "chinese", "marks", "long"],
)
def test_every_text_goes_through_fit_file_and_prediction(texts, tmp_path):
    texts = pd.Series(texts * 4, dtype=object)
    frame = pd.DataFrame({"note": texts, "y": np.where(np.arange(len(texts)) % 2, "a", "b")})
    columns = Columns.of(frame, "y", text=["note"])
    selected = columns.select(frame)
    X = transformer(selected, columns.kinds, 0).fit(selected)
    rows = X.transform(selected)
    assert np.isfinite(rows.dense).all() and rows.dense.shape[1] >= 1 and rows.sparse.shape[1] >= 1
    classifier = MGCEClassifier(max_iter=20).fit(rows, frame["y"].to_numpy(dtype=str))
    (tmp_path / "m.skops").write_bytes(
        TableModel(Pipeline([("columns", X), ("classifier", classifier)]), columns, np.zeros(0, np.uint64)).to_bytes()
    )
    loaded = TableModel.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.pipeline[0].transform(selected).dense, rows.dense)
    np.testing.assert_array_equal(loaded.predict(selected).h, classifier.predict_proba(rows))


def test_marks_of_vowels_do_not_divide_a_word():
    assert re.findall(TOKEN, "हिन्दी में_x, état—don't 東京 naïve") == [
        "हिन्दी",
        "में_x",
        "état",
        "don",
        "t",
        "東",
        "京",
        "naïve",
    ]


@pytest.fixture(scope="module")
def mixed():
    texts, topic = tickets(200)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=200), "subject": texts, "kind": rng.choice(["a", "b"], 200), "y": topic})
    frame.loc[::9, "subject"] = np.nan
    columns = Columns.of(frame, "y")
    selected = columns.select(frame)
    return frame, columns, selected, transformer(selected, columns.kinds, 0).fit(selected)


def test_the_guess_is_a_text_among_numbers_and_categories(mixed):
    assert mixed[1].kinds == {"x": "number", "subject": "text", "kind": "category"}


def test_both_views_begin_with_the_other_columns(mixed):
    _, _, selected, fitted = mixed
    rows = fitted.transform(selected)
    others = fitted.others_.transform(selected[["x", "kind"]])
    np.testing.assert_array_equal(rows.dense[:, :3], others)
    np.testing.assert_array_equal(rows.sparse[:, :3].toarray(), others)
    assert rows[5:9].dense.shape[0] == rows[5:9].sparse.shape[0] == 4 and len(rows) == 200


@pytest.mark.parametrize("estimator", [LogisticRegression(), MGCEClassifier()])
def test_who_takes_sparse_rows_gets_words(mixed, estimator):
    rows = mixed[3].transform(mixed[2])
    assert view_for(estimator, rows) is rows.sparse


@pytest.mark.parametrize("estimator", [MGCEForestClassifier(), MGCEVotingClassifier([])])
def test_who_does_not_gets_the_reduction(mixed, estimator):
    rows = mixed[3].transform(mixed[2])
    assert view_for(estimator, rows) is rows.dense
    assert view_for(estimator, rows.dense) is rows.dense
    np.testing.assert_array_equal(np.asarray(rows), rows.dense)
    assert RandomForestClassifier(2).fit(rows, mixed[0]["y"]).n_features_in_ == rows.dense.shape[1]


def test_the_file_gives_back_an_average_of_models_of_both_views(mixed, tmp_path):
    frame, columns, selected, fitted = mixed
    rows, labels = fitted.transform(selected), frame["y"].to_numpy(dtype=str)
    members = [
        ("linear", MGCEClassifier().fit(rows, labels)),
        ("forest", MGCEForestClassifier(n_estimators=5, random_state=0).fit(rows, labels)),
    ]
    average = MGCEVotingClassifier.from_fitted(members, np.unique(labels), 200, beta=1.4, scale=1.0)
    expected = (members[0][1].predict_proba(rows.sparse) + members[1][1].predict_proba(rows.dense)) / 2
    np.testing.assert_allclose(average.average_proba(rows), expected)
    model = TableModel(Pipeline([("columns", fitted), ("classifier", average)]), columns, np.zeros(0, np.uint64))
    (tmp_path / "m.skops").write_bytes(model.to_bytes())
    loaded = TableModel.load(tmp_path / "m.skops")
    assert loaded.columns == columns and loaded.columns.text == ["subject", "kind", "y"]
    np.testing.assert_array_equal(loaded.predict(selected).h, model.predict(selected).h)
    np.testing.assert_array_equal(loaded.predict(selected[3:4]).label, model.predict(selected).label[3:4])
    assert loaded.unseen(selected.assign(kind="c")) == model.unseen(selected.assign(kind="c")) != []
    np.testing.assert_array_equal(load(tmp_path / "m.skops").predict_proba(selected), model.predict(selected).h)


def test_a_file_of_other_terms_is_refused(mixed, tmp_path):
    frame, columns, selected, fitted = mixed
    rows = fitted.transform(selected)
    classifier = MGCEClassifier(max_iter=5).fit(rows, frame["y"].to_numpy(dtype=str))
    encoder = fitted.encoders_[0]
    model = TableModel(Pipeline([("columns", fitted), ("classifier", classifier)]), columns, np.zeros(0, np.uint64))
    for name, value in (
        ("words_", encoder.words_[::-1].copy()),
        ("words_idf_", -encoder.words_idf_),
        ("words_idf_", encoder.words_idf_[:-1]),
        ("components_", encoder.components_[1:].copy()),
        ("components_", np.full_like(encoder.components_, np.nan)),
    ):
        kept = getattr(encoder, name)
        setattr(encoder, name, value)
        (tmp_path / "m.skops").write_bytes(model.to_bytes())
        setattr(encoder, name, kept)
        with pytest.raises(ValueError, match="undamaged"):
            TableModel.load(tmp_path / "m.skops")


def test_rows_of_two_views_are_arrays_of_the_dense_one():
    rows = TwoViews(np.eye(2), sparse.csr_matrix((2, 5)))
    assert rows.shape == (2, 2) and np.asarray(rows, dtype=np.float32).dtype == np.float32
