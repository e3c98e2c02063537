import pickle
import sys
import zipfile

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from mgce.estimators import MGCEClassifier, load, save
from mgce.estimators.archive import pack

X = np.random.default_rng(0).normal(size=(60, 2))
y = np.array(["p", "q", "r"])[np.arange(60) % 3]


class Foreign(StandardScaler):
    pass


def foreign_function(x):
    return x


def test_a_pipeline_of_mixed_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": list("xyz") * 20})
    frame.loc[3, "a"] = np.nan
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
            ("words", OneHotEncoder(handle_unknown="ignore"), ["c"]),
        ],
        remainder="passthrough",
    )
    model = make_pipeline(columns, MGCEClassifier(lambda0=1e-2)).fit(frame, y)
    save(model, tmp_path / "model.mgce")
    loaded = load(tmp_path / "model.mgce")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert loaded[-1].beta_ == 1.4
    assert [path.name for path in tmp_path.iterdir()] == ["model.mgce"]


@pytest.mark.parametrize("part", [Foreign(), FunctionTransformer(foreign_function)])
def test_foreign_parts_are_refused(part, tmp_path):
    model = make_pipeline(part, MGCEClassifier()).fit(X, y)
    path = tmp_path / "model.mgce"
    with pytest.raises(ValueError, match="Expected `estimator` to be one that a file can hold, but got .*oreign"):
        save(model, path)
    assert not list(tmp_path.iterdir())


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "model.mgce"
    save(MGCEClassifier().fit(X, y), path)
    whole = path.read_bytes()
    for content in (b"", b"text", pickle.dumps(StandardScaler()), whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="Expected `path` to be a file written by `save`, but got .*model.mgce"):
            load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "text")
    with pytest.raises(ValueError, match="Expected `path` to be a file written by `save`"):
        load(path)
    path.write_bytes(pack({"dict": []}, []))
    with pytest.raises(ValueError, match="Expected `path` to be a file with an estimator, but got 'dict'"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.mgce")


def test_an_earlier_file_survives_a_failure(tmp_path):
    path = tmp_path / "model.mgce"
    save(MGCEClassifier().fit(X, y), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Expected `estimator` to be a scikit-learn estimator, but got 'int'"):
        save(3, path)
    with pytest.raises(ValueError, match="one that a file can hold"):
        save(Foreign().fit(X), path)
    assert path.read_bytes() == before


def test_loading_opens_no_other_file_and_starts_nothing(tmp_path):
    """What is loaded may, once it is used: a vectorizer of files reads those that its rows name."""
    path, secret = tmp_path / "model.mgce", tmp_path / "secret.txt"
    secret.write_text("a")
    words = CountVectorizer(input="filename", vocabulary=["a"], token_pattern="a", stop_words=[str(secret)])
    save(make_pipeline(words, MGCEClassifier()), path)
    load(path)  # loads what libraries load late
    seen, watched = [], [True]
    sys.addaudithook(lambda event, arguments: watched and seen.append((event, str(arguments[:1]))))
    model = load(path)
    watched.clear()  # a hook cannot be taken off
    kinds = ("open", "os.", "subprocess.", "socket.", "pickle.")
    assert [one for one in seen if one[0].startswith(kinds)] == [("open", f"({str(path)!r},)")]
    assert model[0].transform([str(secret)]).toarray().tolist() == [[1]]
