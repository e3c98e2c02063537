"""Model files of `mgce fit`, forged to read files, to fill the memory, to start processes or never to end.

Each is a model that was fitted to `frame()` and then changed: its objects by hand, or the bytes of its file.
"""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

ROWS = 60
KIND = "correction"  # of the classifier, where a change says nothing of it
SECRET = "/etc/hostname"
Change = Callable[[Any], Any]
Forgery = Change | tuple[str, Change]  # of a pipeline; with the kind of its classifier, or of `KIND`


@cache
def frame() -> Any:
    """Return the table that the models are fitted to."""
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], ROWS)
    many = [f"n{i % 55:02}" for i in range(ROWS)]
    x = rng.normal(size=ROWS).round(2)
    x[:3] = np.nan
    return pd.DataFrame({"x": x, "kind": kind, "many": many, "y": np.where(kind == "a", "no", "yes")})


@cache
def model(kind: str = KIND) -> bytes:
    """Return the file of a fitted model, of every kind of classifier that `mgce fit` chooses for such a table."""
    from mgce import estimators
    from mgce.desk.columns.kinds import Columns
    from mgce.desk.files.tables import preprocessor
    from mgce.desk.tables.model import TableModel, row_prints
    from mgce.sets import calibrate

    columns = Columns.of(frame(), "y")
    selected, labels = columns.select(frame()), columns.labels(frame())
    transformer = preprocessor(selected).fit(selected)
    X, y = transformer.transform(selected), labels.to_numpy(dtype=str)
    forest = estimators.MGCEForestClassifier(n_estimators=2, splitter="best", min_samples_leaf=1, random_state=0)
    kinds = {
        "correction": estimators.LabelCorrectionClassifier(n_estimators=2, n_components=3, random_state=0),
        "forest": forest,
        "linear": estimators.MGCEClassifier(),
    }
    steps = Pipeline([("columns", transformer), ("classifier", kinds[kind].fit(X, y))])
    whole = TableModel(steps, columns, row_prints(selected, labels))
    target, predictions = (y == "yes").astype(np.int64), whole.predict(selected)
    given: dict[str, Any] = {
        "sets": calibrate(target, predictions.softmax, alpha=0.2),
        "n_measured": 40,
    }
    return TableModel(whole.pipeline, columns, whole.trained_rows, **given).to_bytes()


def changed(change: Forgery) -> bytes:
    """Return the file after its pipeline was changed by hand."""
    from mgce.estimators.archive import pack, unpack
    from mgce.estimators.persistence import Writer, build, name_of, tree_of

    class Forger(Writer):
        def name(self, cls: type) -> str:  # of whatever class
            return name_of(cls)

    kind, by_hand = change if isinstance(change, tuple) else (KIND, change)
    pipeline = build(*unpack(model(kind)))
    by_hand(pipeline)
    forger = Forger()
    tree = tree_of(pipeline, forger)
    return pack(tree, forger.arrays)


def rewritten(change: Change, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return the file after a function has changed its members, by name; `content.json` is passed parsed."""
    with zipfile.ZipFile(io.BytesIO(model())) as archive:
        members: dict[str, Any] = {name: archive.read(name) for name in archive.namelist()}
    members["content.json"] = json.loads(members["content.json"])
    change(members)
    if not isinstance(members["content.json"], bytes):
        members["content.json"] = json.dumps(members["content.json"]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _numbers(pipeline: Any) -> Any:
    return pipeline[0].named_transformers_["numbers"]


def _categories(pipeline: Any) -> Any:
    return pipeline[0].named_transformers_["categories"]


def _set(get: Change, **values: Any) -> Change:
    def change(pipeline: Any) -> None:
        for name, value in values.items():
            setattr(get(pipeline), name, value)

    return change


def _of(kind: str, **values: Any) -> tuple[str, Change]:
    return kind, _set(lambda pipeline: pipeline[-1], **values)


def _ridge(**values: Any) -> Change:
    return _set(lambda pipeline: pipeline[-1].ridge_, **values)


def _trees(kind: str, **changes: Change) -> tuple[str, Change]:
    def change(pipeline: Any) -> None:
        trees = pipeline[-1].trees_
        for attribute, of_array in changes.items():
            setattr(trees, attribute, of_array(getattr(trees, attribute)))

    return kind, change


def _at(index: Any, value: Any) -> Change:
    def change(array: Any) -> Any:
        array = array.copy()
        array[index] = value
        return array

    return change


def _reading(path: str) -> Change:
    """Replace the encoder by one that takes a path from a cell and reads the file of that name."""

    def change(pipeline: Any) -> None:
        some = pd.DataFrame({"kind": np.array(["u", np.nan] * 20, dtype=object)})
        fill = SimpleImputer(strategy="constant", fill_value="x").fit(some)
        fill.statistics_, fill.fill_value = np.array([path], dtype=object), path
        none = copy.deepcopy(fill)
        none.missing_values = None
        words = CountVectorizer(input="filename", analyzer="char", vocabulary=list("abc"), decode_error="ignore")
        read = ColumnTransformer([("words", words, 0)])
        read.transformers_, read._n_features, read.sparse_output_ = [("words", words, 0)], 1, False
        read.output_indices_, read.n_features_in_ = {"words": slice(0, 3), "remainder": slice(0, 0)}, 1
        name, _, _ = pipeline[0].transformers_[1]
        pipeline[0].transformers_[1] = (name, Pipeline([("nan", fill), ("none", none), ("read", read)]), ["kind"])
        pipeline[0]._transformer_to_input_indices[name] = [1]

    return change


def _step(part: Any) -> Change:
    """Put a part between the steps of the numbers."""

    def change(pipeline: Any) -> None:
        steps = _numbers(pipeline).steps
        steps[1] = (steps[1][0], Pipeline([("part", part), ("scaler", steps[1][1])]))

    return change


def _polynomials(pipeline: Any) -> None:
    part = PolynomialFeatures(degree=2).fit(np.ones((2, 2)))
    part._n_out_full = part.n_output_features_ = 10**9
    _step(part)(pipeline)


def _beside(pipeline: Any) -> None:
    part = ("beside", OneHotEncoder(sparse_output=False).fit(frame()[["kind"]]), ["kind"])
    pipeline[0].transformers_.append(part)
    pipeline[0].output_indices_["beside"] = slice(10**9, 10**9 + 3)


def _nested(pipeline: Any) -> None:
    pipeline.steps[1] = ("classifier", Pipeline([("inner", copy.deepcopy(pipeline[-1]))]))


def _foreign(pipeline: Any) -> None:
    X = pipeline[0].transform(frame()[["x", "kind", "many"]])
    pipeline.steps[1] = ("classifier", LogisticRegression().fit(X, frame()["y"]))


def _sets(**fields: Any) -> Change:
    def change(pipeline: Any) -> None:
        pipeline.table_["sets"].update(fields)

    return change


def _deep() -> list[Any]:
    """Return lists within lists, as deep as they can be written."""
    inner: list[Any] = []
    for _ in range(200):
        inner = [inner]
    return inner


def _table(**fields: Any) -> Change:
    return lambda pipeline: pipeline.table_.update(fields)


def _content(members: dict[str, Any]) -> Any:
    """Return the attributes of the pipeline."""
    return members["content.json"]["content"]["object"][1]


def _kinds(members: dict[str, Any]) -> Any:
    """Return the pairs of a column and its kind."""
    return dict(_content(members)["table_"]["dict"])["kinds"]["dict"]


def _many_names(members: dict[str, Any]) -> None:
    transformer = _content(members)["steps"][0]["tuple"][1]["object"][1]
    encoder = transformer["transformers_"][1]["tuple"][1]["object"][1]
    encoder["categories_"][0] = {"objects": [[200_001], [f"{n:07}" for n in range(200_001)]]}


def _many_columns(members: dict[str, Any]) -> None:
    _kinds(members).extend([f"c{n}", "number"] for n in range(100_000))


def _surrogate(members: dict[str, Any]) -> None:
    _kinds(members).append(["\ud800", "number"])


def _complex(members: dict[str, Any]) -> None:
    for name in {*members} - {"content.json"}:
        values = np.load(io.BytesIO(members[name]))
        np.save(array := io.BytesIO(), values.astype(complex) if values.shape == (2, 3) else values)
        members[name] = array.getvalue()


def _zeros(members: dict[str, Any]) -> None:
    array = io.BytesIO()
    np.save(array, np.zeros(1 << 24))
    members["0.npy"] = array.getvalue()


def _brackets(members: dict[str, Any]) -> None:
    members["content.json"] = b"[" * 1_000_000


def _overlapping() -> bytes:
    """Return a file whose directory names the same bytes of 1 MB two hundred times."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        with zipfile.ZipFile(io.BytesIO(model())) as good:
            archive.writestr("content.json", good.read("content.json"))
        archive.writestr("0.npy", bytes(1 << 20))
        first = archive.infolist()[-1]
        for number in range(1, 200):
            other = copy.copy(first)
            other.filename = f"{number}.npy"
            archive.filelist.append(other)
            archive.NameToInfo[other.filename] = other
    return packed.getvalue()


CHANGES: dict[str, Forgery] = {
    "an encoder that reads a file": _reading(SECRET),
    "an encoder that reads /dev/zero": _reading("/dev/zero"),
    "polynomials of 10^9 numbers a row": _polynomials,
    "an imputer that fills in paths": _set(lambda p: _numbers(p)[0], statistics_=np.array([SECRET], dtype=object)),
    "an indicator of another column": _set(lambda p: _numbers(p)[0].indicator_, features_=np.array([7])),
    "a scaler of other columns": _set(lambda p: _numbers(p)[1], mean_=np.zeros(9)),
    "a scaler that divides by zero": _set(lambda p: _numbers(p)[1], scale_=np.zeros(2)),
    "categories as one array": _set(_categories, categories_=[np.array(["a", "b"])] * 2),
    "categories of numbers": _set(_categories, categories_=[np.array([1, 2], dtype=object)] * 2),
    "categories twice": _set(_categories, categories_=[np.array(["a", "a"], dtype=object)] * 2),
    "categories of one column more": lambda p: _categories(p).categories_.append(np.array(["a"], dtype=object)),
    "rare categories that are none": lambda p: _categories(p)._infrequent_indices[1].__setitem__(0, 10**9),
    "a Pipeline as the classifier": _nested,
    "a classifier of scikit-learn": _foreign,
    "coefficients of another shape": _of("linear", coef_=np.zeros((2, 2))),
    "coefficients with a third dimension": _of("linear", coef_=np.zeros((2, 55, 1))),
    "coefficients of text": _of("linear", coef_=np.full((2, 55), SECRET)),
    "infinite coefficients": _of("linear", intercept_=np.array([np.inf, 0.0])),
    "frequencies of a kernel of other columns": _ridge(random_weights_=np.zeros((2, 3))),
    "frequencies of a kernel as whole numbers": _ridge(random_weights_=np.zeros((55, 3), int)),
    "offsets of a kernel of another length": _ridge(random_offset_=np.zeros(2)),
    "means of a kernel that are infinite": _ridge(means_=np.full(3, np.inf)),
    "coefficients of a kernel of NaN": _ridge(coef_=np.full((2, 3), np.nan)),
    "coefficients of a kernel of other classes": _ridge(coef_=np.zeros((3, 3))),
    "an intercept of a kernel of 10^6 classes": _ridge(intercept_=np.zeros(10**6)),
    "a kernel that is text": _of("correction", ridge_=SECRET),
    "a kernel that is a forest": ("correction", lambda p: setattr(p[-1], "ridge_", p[-1].trees_)),
    "corrected labels beyond 1": _trees("correction", values=lambda a: a + 1),
    "a tree of corrected labels with a circle": _trees("correction", children=_at((0, 0), 0)),
    "a least probability of zero": _of("correction", least_prob_=0.0),
    "a tree with a circle": _trees("forest", children=_at((0, 0), 0)),
    "a tree with a child far off": _trees("forest", children=_at((0, 1), 1 << 40)),
    "a tree without nodes": _trees("forest", starts=_at(1, 0)),
    "a tree of a feature that is none": _trees("forest", features=_at(0, 1 << 40)),
    "a tree of fractions": _trees("forest", children=lambda a: a + 0.5),
    "a forest that gives text": _trees("forest", values=lambda a: a.astype(str)),
    "a forest that gives 10^6 numbers": _trees("forest", values=lambda a: np.zeros((len(a), 10**6), np.float32)),
    "a scale below zero": _of("forest", scale_=-1.0),
    "a beta that is no number": _set(lambda p: p[-1], beta_=float("nan")),
    "a beta that is a list": _of("linear", beta_=[1.4]),
    "one class": _set(lambda p: p[-1], classes_=np.array(["no"])),
    "classes twice": _set(lambda p: p[-1], classes_=np.array(["no", "no"])),
    "classes that are numbers": _of("forest", classes_=np.array([0, 1])),
    "10^5 classes": _of("linear", classes_=np.array([f"{n:05}" for n in range(10**5)])),
    "sets without an end": _table(sets=_deep()),
    "more measured rows than rows": _table(n_measured=61),
    "sets of 10^5 classes": _sets(thresholds=[0.5] * 10**5),
    "sets by another score": _sets(score="__import__('os')"),
    "sets of logits": _sets(of_logits=True),
    "sets with a list": _sets(per_class=[[1]]),
    "sets nested without end": _table(sets=_deep()),
    "a model that corrects in a list": _table(corrects=[True]),
    "no columns": _table(kinds={}),
    "a column of another kind": _table(kinds={"x": "file", "kind": "category", "many": "category"}),
    "an id that is a list": _table(id=["x"]),
    "hashes of text": _table(trained_rows=np.array([SECRET])),
}
# What must be refused, in one sentence.
REFUSED: dict[str, Callable[[], bytes]] = {name: partial(changed, change) for name, change in CHANGES.items()} | {
    "200,001 names of categories": lambda: rewritten(_many_names),
    "100,000 columns": lambda: rewritten(_many_columns),
    "complex coefficients": lambda: rewritten(_complex),
    "a name that no file can hold": lambda: rewritten(_surrogate),
    "128 MB of zeros in a small file": lambda: rewritten(_zeros, zipfile.ZIP_DEFLATED),
    "a million brackets": lambda: rewritten(_brackets),
    "members that lie over one another": _overlapping,
}
# What has no effect: the model predicts as it did before the change.
WITHOUT_EFFECT: dict[str, Forgery] = {
    "10,000 processes": _set(lambda p: p[0], n_jobs=10_000),
    "10,000 processes of a forest": _of("forest", n_jobs=10_000),
    "10,000 processes of a correction": _of("correction", n_jobs=10_000),
    "a cache in another folder": _set(_numbers, memory="/var/tmp/mgce-forged"),
    "talk": _set(lambda p: p[0], verbose=True),
    "outputs far off": _set(lambda p: p[0], output_indices_={"numbers": slice(10**9, 2 * 10**9)}),
    "inputs far off": _set(lambda p: p[0], _transformer_to_input_indices={"numbers": [10**9], "categories": [-5]}),
    "weights of transformers": _set(lambda p: p[0], transformer_weights={"numbers": 1e300}),
    "a transformer beside": _beside,
    "a function between steps": lambda p: _numbers(p).steps.append(("f", FunctionTransformer(np.exp2))),
    "an encoder of bytes": _set(_categories, dtype=np.dtype("S1000000")),
    "a million columns of an encoder": _set(_categories, _n_features_outs=[10**6] * 2),
    "a scaler under another name": lambda p: _numbers(p).steps.append(("more", StandardScaler(with_mean=False))),
    "other training features": _set(lambda p: p[-1], n_features_in_=10**9),
}
HARMLESS: dict[str, Callable[[], bytes]] = {name: partial(changed, change) for name, change in WITHOUT_EFFECT.items()}
KIND_OF = {name: change[0] if isinstance(change, tuple) else KIND for name, change in WITHOUT_EFFECT.items()}
