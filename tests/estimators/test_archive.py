"""Files made to crash, to fill the memory or to run code; and that files of one estimator are the same bytes."""

import copy
import io
import json
import zipfile

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from mgce import _limits
from mgce.estimators import MGCEClassifier, archive, load, persistence, save

X = np.random.default_rng(0).normal(size=(60, 2))
y = np.array(["p", "q", "r"])[np.arange(60) % 3]


@pytest.fixture
def refused(tmp_path):
    """Check that a file is refused in one sentence that holds some words."""

    def check(content, words):
        path = tmp_path / "model.mgce"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"Expected `path` to be a file .*{words}"):
            load(path)

    return check


def packed(content, compression=zipfile.ZIP_STORED, **members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("content.json", json.dumps({"format": archive.FORMAT, "mgce": "1", "content": content}))
        for name, member in members.items():
            file.writestr(f"{name[1:]}.npy", member)
    return buffer.getvalue()


def array(values):
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"call": ["os.system", "true"]}, "KeyError: 'call'"),
        ({"object": ["os.system", {}]}, "a part of type os.system"),
        ({"object": ["sklearn.utils._testing.check_output", {}]}, "a part of type sklearn.utils._testing.check_output"),
        ({"object": ["sklearn.tree._tree.Tree", {}]}, "a part of type sklearn.tree._tree.Tree"),
        ({"object": ["sklearn.neighbors.KNeighborsClassifier", {}]}, "a part of type sklearn.neighbors"),
        ({"object": ["mgce.estimators.persistence.load", {}]}, "a part of type mgce.estimators.persistence.load"),
        ({"object": [["os.system"], {}]}, "unhashable type"),
        ({"numpy": "load"}, "the name numpy.load"),
        ({"numpy": "os.system"}, "has no attribute"),
        ({"numpy": "memmap"}, "the name numpy.memmap"),
        ({"dtype": "O", "more": 1}, "too many values"),
        ({"scalar": ["O", "a"]}, "a number of object"),
        ({"array": "../0"}, "the number of an array"),
        ({"array": 7}, "KeyError"),
        ({"dict": [[[], 1]]}, "unhashable type"),
        ({"objects": [[1 << 40], []]}, "cannot reshape array"),
    ],
    ids=str,
)
def test_parts_of_no_closed_list_are_refused(part, words, refused):
    for content in (part, [part], {"object": ["mgce.MGCEClassifier", {"beta": part}]}):
        refused(packed(content), words)


@pytest.mark.parametrize("part", [RandomForestClassifier(2), KNeighborsClassifier(algorithm="kd_tree")], ids=type)
def test_compiled_objects_are_refused_where_they_are_written(part, tmp_path):
    with pytest.raises(ValueError, match="Expected `estimator` to be .*(RandomForest|KNeighbors)"):
        save(part.fit(X, y), tmp_path / "model.mgce")
    assert not list(tmp_path.iterdir())


def forged_position(position):
    """A random state whose next number NumPy reads at a position that it does not check."""
    writer = persistence.Writer()
    tree = persistence.tree_of(MGCEClassifier(random_state=np.random.RandomState(0)), writer)
    for pair in tree["object"][1]["random_state"]["random_state"][0]["dict"]:
        pair[1] = position if pair[0] == "pos" else pair[1]
    return archive.pack(tree, writer.arrays)


def test_positions_in_a_random_state_are_checked(refused, tmp_path):
    for position in (-1, 625, 2**31 - 100):
        refused(forged_position(position), f"random numbers at position {position}")
    (tmp_path / "model.mgce").write_bytes(forged_position(624))
    expected = np.random.RandomState(0)
    expected.random_sample(312)
    assert load(tmp_path / "model.mgce").random_state.randint(1000) != expected.randint(1000)


BOMB = array(np.zeros(1 << 20, np.uint8))


def claimed(shape, dtype="|u1"):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


ARRAY = {"array": 0}
OBJECTS = np.empty(1, object)


@pytest.mark.parametrize(
    "content, words",
    [
        (packed(ARRAY, zipfile.ZIP_DEFLATED, _0=BOMB), "bytes when unpacked"),
        (packed(["a"] * 1000, zipfile.ZIP_DEFLATED), "a compressed file"),
        (packed(["a" * 100] * 2000), "names of more than"),
        (packed([ARRAY], _0=claimed("(1099511627776,)")), "an array of uint8 and shape"),
        (packed([ARRAY], _0=claimed("(4294967296, 4294967296)")), "an array of uint8 and shape"),
        (packed([ARRAY], _0=claimed("(-1, -1)") + b"\0"), "an array of uint8 and shape"),
        (packed([ARRAY], _0=claimed("(1,)", "|O") + b"\0" * 8), "an array of object"),
        (packed([ARRAY], _0=claimed("(1,)", "|V8") + b"\0" * 8), "an array of [|]V8"),
        (packed([ARRAY], _0=b"\x80\x04N."), "magic string"),
        (packed(0).replace(b'"content": 0', b"[" * 12), "JSONDecodeError|BadZipFile"),
    ],
    ids=["compressed", "names", "long", "shape", "overflow", "negative", "objects", "records", "pickle", "no json"],
)
def test_small_files_of_large_content_are_refused(content, words, refused, monkeypatch):
    monkeypatch.setattr(_limits, "EXPANDED_BYTES", 1 << 19)
    monkeypatch.setattr(archive, "CONTENT_BYTES", 100_000)
    monkeypatch.setattr(_limits.check_zip, "__kwdefaults__", {"members": 10, "limit": 1 << 19})
    refused(content, words)


def test_a_description_nested_without_end_is_refused(refused):
    for open_, close in (("[", "]"), ('{"tuple":[', "]}")):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            deep = open_ * 10_000 + close * 10_000
            file.writestr("content.json", f'{{"format": {archive.FORMAT}, "mgce": "1", "content": {deep}}}')
        refused(buffer.getvalue(), "RecursionError")


def test_too_many_members_are_refused(refused, monkeypatch):
    monkeypatch.setattr(_limits.check_zip, "__kwdefaults__", {"members": 10, "limit": 1 << 19})
    refused(packed("a", **{f"_{number}": b"" for number in range(10)}), "members")


def test_a_file_of_another_format_names_the_version_that_wrote_it(refused, monkeypatch):
    content = packed("a")
    monkeypatch.setattr(archive, "FORMAT", archive.FORMAT + 1)
    refused(content, "that of mgce 1")


def test_an_estimator_too_large_for_a_file_is_refused_when_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "CONTENT_BYTES", 100)
    with pytest.raises(ValueError, match="Expected `estimator` to be one that a file can hold, but got 'names of more"):
        save(MGCEClassifier().fit(X, y), tmp_path / "model.mgce")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "value", [OBJECTS, np.array([OBJECTS, OBJECTS], object), {1: (2.5, np.inf, None)}, slice(1, 2)]
)
def test_values_of_every_kind_come_back(value):
    writer = persistence.Writer()
    given = [value, np.int8(3), np.float32(0.1), np.bool_(True), np.dtype("<f4"), np.float64, np.log1p]
    tree = json.loads(json.dumps(persistence.tree_of(given, writer)))
    back = persistence.build(tree, writer.arrays)
    assert repr(back) == repr(given)
    assert [type(item) for item in back[1:4]] == [np.int8, np.float32, np.bool_]


MODELS = {
    "classifier": MGCEClassifier(random_state=np.random.RandomState(3)),
    "ensemble": VotingClassifier(
        [("a", MGCEClassifier()), ("b", make_pipeline(FunctionTransformer(np.arctan), MGCEClassifier()))]
    ),
    "rare": make_pipeline(OneHotEncoder(max_categories=5, sparse_output=False), MGCEClassifier()),
}


@pytest.mark.parametrize("name", MODELS)
def test_files_of_equal_estimators_are_equal_bytes_and_so_are_those_of_loaded_ones(name, tmp_path):
    rows = X.round(1) if name == "rare" else X
    model = MODELS[name].fit(rows, y)
    twin = copy.deepcopy(model)
    contents = []
    for estimator in (model, twin):
        save(estimator, tmp_path / "model.mgce")
        contents.append((tmp_path / "model.mgce").read_bytes())
    loaded = load(tmp_path / "model.mgce")
    outputs = [getattr(one, "predict" if name == "ensemble" else "predict_proba")(rows) for one in (loaded, model)]
    np.testing.assert_array_equal(*outputs)
    save(loaded, tmp_path / "model.mgce")
    assert contents == [(tmp_path / "model.mgce").read_bytes()] * 2


def test_of_a_search_the_best_estimator_is_saved(tmp_path):
    pipeline = make_pipeline(StandardScaler(), MGCEClassifier())
    search = GridSearchCV(pipeline, {"mgceclassifier__beta": [1.4, 2.0]}, cv=StratifiedKFold(2)).fit(X, y)
    with pytest.raises(ValueError, match="a part of type sklearn.model_selection._search.GridSearchCV"):
        save(search, tmp_path / "model.mgce")
    save(search.best_estimator_, tmp_path / "model.mgce")
    np.testing.assert_array_equal(load(tmp_path / "model.mgce").predict_proba(X), search.predict_proba(X))


@pytest.mark.parametrize("value", [2.5, float("inf"), np.float32(0.1), np.int8(3), True, "text", None, 7])
def test_a_plain_value_of_every_kind_is_read(value):
    writer = persistence.Writer()
    node = archive.Node("model", json.loads(json.dumps(persistence.tree_of(value, writer))), writer.arrays)
    assert node.plain() == (value.item() if isinstance(value, np.generic) else value)
