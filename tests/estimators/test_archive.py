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
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from mgce import _limits
from mgce.estimators import MGCEClassifier, archive, load, save

skops = pytest.importorskip("skops.io")
X = np.random.default_rng(0).normal(size=(60, 2))
y = np.array(["p", "q", "r"])[np.arange(60) % 3]


@pytest.fixture
def refused(tmp_path):
    """Check that a file is refused in one sentence that holds some words."""

    def check(content, words):
        path = tmp_path / "model.skops"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"Expected `path` to be a file .*{words}"):
            load(path)

    return check


def node(loader, name="mgce.estimators.linear.MGCEClassifier", **content):
    module, _, kind = name.rpartition(".")
    return {"__class__": kind, "__module__": module, "__loader__": loader, **content}


TEXT = node("JsonNode", "builtins.str", content='"a"', is_json=True)


def packed(schema, compression=zipfile.ZIP_STORED, **members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("schema.json", json.dumps({**schema, "protocol": 2, "_skops_version": "0.16.0"}))
        for name, content in members.items():
            file.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


def array(values):
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def in_a_list(*nodes):
    return node("ListNode", "builtins.list", content=list(nodes))


ARRAY = node("NdArrayNode", "numpy.ndarray", type="numpy", file="a.npy")


@pytest.mark.parametrize(
    "part",
    [
        # Whatever an object calls, by the label of a type that is trusted.
        node("MethodNode", content={"func": "__globals__", "obj": node("ObjectNode")}),
        node("PartialNode", content={"func": TEXT, "args": TEXT, "kwds": TEXT, "namespace": TEXT}),
        node("OperatorFuncNode", "operator.methodcaller", attrs=TEXT),
        node("ConstructorFromReduceNode", content=in_a_list(TEXT)),
        node("TreeNode", __reduce__={"args": TEXT}, content=TEXT),
        node("RandomGeneratorNode", content={}),
        node("CachedNode", __id__=1),
        node("BytesNode", file="a.bin"),
        node("SparseMatrixNode", "scipy.sparse._csr.csr_matrix", type="scipy", file="a.npz"),
        node("NothingNode"),
    ],
    ids=lambda part: part["__loader__"],
)
def test_parts_that_call_what_a_file_names_are_refused(part, refused):
    for schema in (
        part,
        in_a_list(part),
        node("DictNode", "builtins.dict", content={"__loader__": part}, key_types=part),
    ):
        refused(packed(schema), part["__loader__"])


@pytest.mark.parametrize(
    "name", ["os.system", "sklearn.utils._testing.check_output", "sklearn.tree._tree.Tree", "sklearn.nothing.Nothing"]
)
def test_types_are_trusted_by_name(name, refused):
    refused(packed(node("ObjectNode", name)), name)
    refused(packed(in_a_list(node("FunctionNode", name))), name)
    refused(packed(in_a_list(node("TypeNode", name))), name)


@pytest.mark.parametrize("part", [RandomForestClassifier(2), KNeighborsClassifier(algorithm="kd_tree")], ids=type)
def test_compiled_objects_are_refused_where_they_are_written_and_where_they_are_read(part, tmp_path, refused):
    part.fit(X, y)
    with pytest.raises(ValueError, match="Expected `estimator` to be .*(Tree|KDTree)"):
        save(part, tmp_path / "model.skops")
    refused(skops.dumps(part), "(Tree|KDTree)")


def forged_position(position):
    """A random state whose next number NumPy reads at a position that it does not check."""
    with zipfile.ZipFile(io.BytesIO(skops.dumps(MGCEClassifier(random_state=np.random.RandomState(0))))) as file:
        schema = json.loads(file.read("schema.json"))
        (name,) = [name for name in file.namelist() if name.endswith(".npy")]
        state = schema["content"]["content"]["random_state"]["content"]["content"]["state"]["content"]
        state["pos"]["content"] = str(position)
        state["key"]["file"] = "a.npy"
        return packed(schema, a_npy=file.read(name))


def test_positions_in_a_random_state_are_checked(refused, tmp_path):
    for position in (-1, 625, 2**31 - 100):
        refused(forged_position(position), f"random numbers at position {position}")
    (tmp_path / "model.skops").write_bytes(forged_position(624))
    expected = np.random.RandomState(0)
    expected.random_sample(312)
    assert load(tmp_path / "model.skops").random_state.randint(1000) != expected.randint(1000)


BOMB = array(np.zeros(1 << 20, np.uint8))


def claimed(shape, dtype="|u1"):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def nested(depth):
    inner = TEXT
    for _ in range(depth):
        inner = in_a_list(inner)
    return inner


def shared(depth):
    """A tree of 2^depth leaves, of which each level is written once and named twice."""
    inner = {**TEXT, "__id__": 1}
    for level in range(2, depth + 2):
        inner = {**in_a_list(inner, {"__id__": level - 1}), "__id__": level}
    return inner


@pytest.mark.parametrize(
    "content, words",
    [
        (packed(in_a_list(ARRAY), zipfile.ZIP_DEFLATED, a_npy=BOMB), "bytes when unpacked"),
        (packed(in_a_list(*[ARRAY] * 64), a_npy=array(np.zeros(1 << 13, np.uint8))), "arrays of more than"),
        (packed(in_a_list(*[TEXT] * 1000), zipfile.ZIP_DEFLATED), "a description of more than"),
        (packed(in_a_list(*[node("X", "x.y")] * 300)), "more than 200 parts"),
        (packed(in_a_list(ARRAY), a_npy=claimed("(1099511627776,)")), "an array of uint8 and shape"),
        (packed(in_a_list(ARRAY), a_npy=claimed("(4294967296, 4294967296)")), "an array of uint8 and shape"),
        (packed(in_a_list(ARRAY), a_npy=claimed("(-1, -1)") + b"\0"), "an array of uint8 and shape"),
        (packed(in_a_list(ARRAY), a_npy=claimed("(1,)", "|O") + b"\0" * 8), "an array of object"),
        (packed(nested(60)), "nested more than 100 times"),
        (packed(shared(40)), "KeyError"),
    ],
    ids=["compressed", "often", "long", "parts", "shape", "overflow", "negative", "objects", "nested", "shared"],
)
def test_small_files_of_large_content_are_refused(content, words, refused, monkeypatch):
    monkeypatch.setattr(_limits, "EXPANDED_BYTES", 1 << 19)
    for name, limit in (("EXPANDED_BYTES", 1 << 19), ("SCHEMA_BYTES", 100_000), ("NESTING", 100), ("PARTS", 200)):
        monkeypatch.setattr(archive, name, limit)
    monkeypatch.setattr(_limits.check_zip, "__kwdefaults__", {"members": 10, "limit": 1 << 19})
    refused(content, words)


def test_too_many_members_are_refused(refused, monkeypatch):
    monkeypatch.setattr(_limits.check_zip, "__kwdefaults__", {"members": 10, "limit": 1 << 19})
    many = {f"{number}_npy": b"" for number in range(10)}
    refused(packed(in_a_list(TEXT), **many), "members")


def test_an_estimator_too_large_for_a_file_is_refused_when_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "SCHEMA_BYTES", 1000)
    with pytest.raises(ValueError, match="Expected `estimator` to be one that a file can hold, but got 'a description"):
        save(MGCEClassifier().fit(X, y), tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


MODELS = {
    "classifier": MGCEClassifier(random_state=np.random.RandomState(3)),
    "search": GridSearchCV(
        make_pipeline(StandardScaler(), MGCEClassifier()), {"mgceclassifier__beta": [1.4, 2.0]}, cv=StratifiedKFold(2)
    ),
    "ensemble": VotingClassifier(
        [("a", MGCEClassifier()), ("b", make_pipeline(FunctionTransformer(np.arctan), MGCEClassifier()))]
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_files_of_equal_estimators_are_equal_bytes_and_so_are_those_of_loaded_ones(name, tmp_path):
    model = MODELS[name].fit(X, y)
    twin = copy.deepcopy(model)
    contents = []
    for estimator in (model, twin):
        save(estimator, tmp_path / "model.skops")
        contents.append((tmp_path / "model.skops").read_bytes())
    loaded = load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    save(loaded, tmp_path / "model.skops")
    assert contents == [(tmp_path / "model.skops").read_bytes()] * 2
