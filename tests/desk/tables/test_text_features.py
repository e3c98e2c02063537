import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline

from mgce.desk.columns.kinds import Columns
from mgce.desk.columns.texts import TOKEN
from mgce.desk.tables import text_features
from mgce.desk.tables.fit import run
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.model import TableModel
from mgce.desk.tables.text_features import SETTINGS, TextEncoder, transformer
from mgce.estimators import MGCEClassifier, MGCEForestClassifier, load
from mgce.features.feature_files import TEXTS
from tiny_encoder import WIDTH, tiny

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


def test_the_reduction_keeps_the_angles_between_texts():
    texts, _ = tickets(60)
    encoder = TextEncoder().fit(pd.concat([texts] * 10, ignore_index=True))
    reduced = encoder.transform(texts)
    parts = [
        TfidfVectorizer(min_df=2, **each).fit(pd.concat([texts] * 10)).transform(texts) for each in SETTINGS.values()
    ]
    full = sparse.hstack(parts).toarray()
    unit = reduced / np.linalg.norm(reduced, axis=1, keepdims=True)
    # 60 components of 60 different texts: nothing but rounding is lost. Words and characters weigh the same.
    np.testing.assert_allclose(unit @ unit.T, full @ full.T / 2, atol=1e-5)
    assert reduced.var(0).sum() == pytest.approx(4, rel=1e-3)


def test_fewer_rows_have_fewer_features():
    texts, _ = tickets(600)
    assert [TextEncoder(50).fit(texts[:n]).transform(texts).shape[1] for n in (40, 200, 600)] == [10, 20, 50]


def test_a_text_is_encoded_alike_alone_and_among_others():
    texts, _ = tickets()
    encoder = TextEncoder().fit(texts)
    reduced = encoder.transform(texts)
    for row in (0, 77):
        np.testing.assert_array_equal(encoder.transform(texts[row : row + 1])[0], reduced[row])


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
    assert np.isfinite(rows).all() and rows.shape[1] >= 1
    classifier = MGCEClassifier(max_iter=20).fit(rows, frame["y"].to_numpy(dtype=str))
    (tmp_path / "m.mgce").write_bytes(
        TableModel(Pipeline([("columns", X), ("classifier", classifier)]), columns, np.zeros(0, np.uint64)).to_bytes()
    )
    loaded = TableModel.load(tmp_path / "m.mgce")
    np.testing.assert_array_equal(loaded.pipeline[0].transform(selected), rows)
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


def test_features_begin_with_the_other_columns(mixed):
    _, _, selected, fitted = mixed
    rows = fitted.transform(selected)
    np.testing.assert_array_equal(rows[:, :3], fitted.others_.transform(selected[["x", "kind"]]))
    np.testing.assert_array_equal(rows[:, 3:], fitted.encoders_[0].transform(selected["subject"]))


def test_the_file_gives_back_the_model(mixed, tmp_path):
    frame, columns, selected, fitted = mixed
    rows, labels = fitted.transform(selected), frame["y"].to_numpy(dtype=str)
    forest = MGCEForestClassifier(n_estimators=5, random_state=0).fit(rows, labels)
    model = TableModel(Pipeline([("columns", fitted), ("classifier", forest)]), columns, np.zeros(0, np.uint64))
    (tmp_path / "m.mgce").write_bytes(model.to_bytes())
    loaded = TableModel.load(tmp_path / "m.mgce")
    assert loaded.columns == columns and loaded.columns.text == ["subject", "kind", "y"]
    np.testing.assert_array_equal(loaded.predict(selected).h, model.predict(selected).h)
    np.testing.assert_array_equal(loaded.predict(selected[3:4]).label, model.predict(selected).label[3:4])
    assert loaded.unseen(selected.assign(kind="c")) == model.unseen(selected.assign(kind="c")) != []
    np.testing.assert_array_equal(load(tmp_path / "m.mgce").predict_proba(selected), model.predict(selected).h)


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
        (tmp_path / "m.mgce").write_bytes(model.to_bytes())
        setattr(encoder, name, kept)
        with pytest.raises(ValueError, match="undamaged"):
            TableModel.load(tmp_path / "m.mgce")


@pytest.fixture
def by_meaning(monkeypatch):
    """Let texts be read by a small encoder; return it."""
    small = tiny(TEXTS)
    monkeypatch.setattr(text_features, "is_installed", lambda: True)
    monkeypatch.setattr(text_features, "encoder", lambda: small)
    monkeypatch.setattr(text_features, "encoder", lambda: small)
    monkeypatch.setattr(text_features, "TEXT_WIDTH", WIDTH)
    monkeypatch.setattr(text_features, "_kept", {})
    return small


def test_a_text_has_features_of_its_meaning_behind_those_of_its_words(by_meaning):
    texts, _ = tickets(80)
    frame = pd.DataFrame({"n": np.arange(80.0), "subject": texts})
    found = transformer(frame, {"n": "number", "subject": "text"}, 0).fit(frame).transform(frame)
    words = TextEncoder().fit(texts).transform(texts)
    assert found.shape[1] == 1 + words.shape[1] + WIDTH
    np.testing.assert_allclose(found[:, 1:-WIDTH], words)
    np.testing.assert_allclose(found[:, -WIDTH:], 2 * by_meaning.encode(texts.tolist()), atol=1e-4)
    numbers = transformer(frame[["n"]], {"n": "number"}, 0).fit(frame[["n"]]).transform(frame[["n"]])
    np.testing.assert_allclose(found[:, :1], numbers)


def test_a_model_that_reads_meaning_predicts_alike_from_its_file(by_meaning, tmp_path, monkeypatch):
    texts, topic = tickets()
    frame = pd.DataFrame({"subject": texts, "topic": topic})
    fit = run(frame, FitPlan("topic"))
    assert any("their meaning as all-minilm-l6-v2 encodes it" in note for note in fit.notes)
    assert fit.choice.name == "head"  # as for embeddings
    path = tmp_path / "m.mgce"
    path.write_bytes(fit.model.to_bytes())
    loaded = TableModel.load(path)
    selected = loaded.columns.select(frame)
    np.testing.assert_array_equal(loaded.predict(selected).h, fit.model.predict(selected).h)
    other = tiny(TEXTS, seed=1)
    monkeypatch.setattr(text_features, "encoder", lambda: other)
    monkeypatch.setattr(text_features, "_kept", {})
    with pytest.raises(
        ValueError, match=f"the weights {by_meaning.card.checksum[:12]}, with which the model was fitted"
    ):
        TableModel.load(path).predict(selected)


def test_without_the_encoder_a_fit_says_what_would_read_the_meaning(monkeypatch):
    monkeypatch.setattr(text_features, "is_installed", lambda: False)
    texts, topic = tickets()
    fit = run(pd.DataFrame({"subject": texts, "topic": topic}), FitPlan("topic"))
    assert any("read by their words alone" in note and "'.[texts]'" in note for note in fit.notes)
