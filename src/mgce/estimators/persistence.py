"""Save fitted estimators, alone or inside Pipelines of scikit-learn, as numbers and names, and load them; never pickle.

A value in a file is a text, a number, a truth value, None, a list, or an object of JSON with one key. The key, a *tag*,
tells what is made of its content: see `FORMS`.
"""

from __future__ import annotations

import math
import os
from collections import UserList
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from mgce._files import replacing
from mgce._limits import read_at_most
from mgce._messages import expected
from mgce.estimators.archive import KINDS, pack, unpack

# Of whose classes a file may hold objects. Those of scikit-learn are written in Python, and their attributes are
# numbers, names and each other. Trees and nearest neighbours are not: compiled code follows their indices anywhere.
CLASSES = {
    "mgce.estimators.correction": "LabelCorrectionClassifier",
    "mgce.estimators.embedding": "MGCEEmbeddingClassifier",
    "mgce.estimators.forest": "MGCEForestClassifier",
    "mgce.estimators.fourier_ridge": "FourierRidge",
    "mgce.estimators.linear": "MGCEClassifier",
    "mgce.estimators.stochastic": "AveragedAdaGrad FeatureMoments",
    "mgce.estimators.trees": "Trees",
    "mgce.desk.tables.model": "TablePipeline",
    "mgce.desk.tables.text_features": "TextEncoder TextTransformer VectorTransformer",
    "sklearn.compose": "ColumnTransformer",
    "sklearn.decomposition": "PCA TruncatedSVD",
    "sklearn.ensemble": "StackingClassifier VotingClassifier",
    "sklearn.feature_extraction.text": "CountVectorizer TfidfTransformer TfidfVectorizer",
    "sklearn.feature_selection": "VarianceThreshold",
    "sklearn.impute": "MissingIndicator SimpleImputer",
    "sklearn.linear_model": "LogisticRegression",
    "sklearn.model_selection": "KFold StratifiedKFold",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing": "FunctionTransformer KBinsDiscretizer LabelEncoder MaxAbsScaler MinMaxScaler Normalizer "
    "OneHotEncoder OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer RobustScaler StandardScaler",
}
# Names of classes in files, and their modules. A class of ours has no module in its name: files outlive moves.
NAMES = {
    f"{'mgce' if module.startswith('mgce.') else module}.{name}": module
    for module, names in CLASSES.items()
    for name in names.split()
}


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Save an estimator to a file that :func:`load` reads; no partial file remains if this fails.

    The bytes of the file depend only on the estimator and on the version of mgce.

    Args:
        estimator: an estimator of this package, alone or in a Pipeline, ColumnTransformer, vote or stack of
            scikit-learn, with its scalers, encoders and imputers. Of a search, save `best_estimator_`. scikit-learn's
            own trees, forests and nearest neighbours are refused: their data are compiled objects.
        path: the file to write; an existing file is replaced.

    Raises:
        ValueError: if :func:`load` would not accept a part of the estimator, for instance a function of your own or a
            forest of scikit-learn; or if the estimator has too many parts for `load`.

    Example:
        >>> import tempfile
        >>> from mgce.estimators import MGCEClassifier
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["a", "a", "b", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(MGCEClassifier().fit(X, y), f"{folder}/model.mgce")
        ...     load(f"{folder}/model.mgce").predict([[0.5], [2.5]]).tolist()
        ['a', 'b']
    """
    content = to_bytes(estimator)
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(content)


def to_bytes(estimator: Any) -> bytes:
    """Return the content of the file that :func:`save` would write.

    Raises:
        ValueError: as :func:`save` does.
    """
    if not isinstance(estimator, BaseEstimator):
        raise ValueError(expected("estimator", "a scikit-learn estimator", type(estimator).__name__))
    writer = Writer()
    try:
        return pack(tree_of(estimator, writer), writer.arrays)
    except ValueError as error:
        raise ValueError(expected("estimator", "one that a file can hold", str(error))) from error


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator from a file that :func:`save` has written.

    Loading constructs only estimators of this package and of scikit-learn, with arrays and plain values in them. The
    size of the file is checked first, and no other file is opened. Use the loaded estimator only if you trust the
    author of the file: estimators of scikit-learn may read files that their settings name, and start processes. See
    SECURITY.md.

    Args:
        path: the file.

    Returns:
        The estimator.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file was not written by :func:`save`, is damaged, or holds a type of another library.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "notes.txt").write_text("no model")
        ...     load(f"{folder}/notes.txt")
        Traceback (most recent call last):
        ValueError: Expected `path` to be a file written by `save`, but got '...: BadZipFile: File is not a zip file'.
    """
    with Path(path).open("rb") as file:
        try:
            estimator = build(*unpack(read_at_most(file)))
        except Exception as error:  # zipfile, json and NumPy raise whatever they meet
            got = f"{os.fspath(path)}: {type(error).__name__}: {error}"
            raise ValueError(expected("path", "a file written by `save`", got)) from error
    if not isinstance(estimator, BaseEstimator):
        raise ValueError(expected("path", "a file with an estimator", type(estimator).__name__))
    return estimator


class Writer:
    """The state of writing a tree: the arrays so far, and the names of classes."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._numbers: dict[int, int] = {}

    def number(self, array: NDArray[Any]) -> int:
        """Return the number of an array in the file; an array that several parts share is stored once."""
        if array.dtype.kind not in KINDS:
            raise ValueError(f"an array of {array.dtype}")
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return self._numbers[id(array)]

    def name(self, cls: type) -> str:
        """Return the public name of a class of which a file may hold objects.

        Raises:
            ValueError: if a file may hold no object of the class.
        """
        name = name_of(cls)
        if name not in NAMES or _class(name) is not cls:
            raise ValueError(f"a part of type {cls.__module__}.{cls.__qualname__}")
        return name


def name_of(cls: type) -> str:
    """Return the name of a class in files."""
    module = cls.__module__.partition("._")[0]  # that of scikit-learn's users
    return f"{'mgce' if module.startswith('mgce.') else module}.{cls.__qualname__}"


def tree_of(value: Any, writer: Writer) -> Any:
    """Return the tree of a value: what `content.json` says of it.

    Raises:
        ValueError: if the value is not made of numbers, names and objects of `CLASSES`.
    """
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, list | UserList):  # of columns of a ColumnTransformer's remainder before scikit-learn 1.7
        return [tree_of(item, writer) for item in value]
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return {"array": writer.number(value)}
    for tag, (kind, taken, _) in FORMS.items():
        if isinstance(value, kind):
            return {tag: tree_of(taken(value), writer)}
    if isinstance(value, FunctionType):
        raise ValueError(f"the function {value.__module__}.{value.__qualname__}")
    name = writer.name(type(value))
    state = value.__getstate__() if isinstance(value, BaseEstimator) else vars(value)
    return {"object": [name, {key: tree_of(item, writer) for key, item in state.items()}]}


def build(tree: Any, arrays: Any) -> Any:
    """Return the value of a tree.

    Raises:
        ValueError: if the tree names a class or a function that no file may hold. Other exceptions if it is damaged.
    """
    if isinstance(tree, list):
        return [build(item, arrays) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ((tag, content),) = tree.items()
    if tag == "array":
        return arrays[content]
    if tag != "object":
        _, _, made = FORMS[tag]
        return made(build(content, arrays))
    name, attributes = content
    if name not in NAMES:
        raise ValueError(f"a part of type {name}")
    cls = _class(name)
    value = cls.__new__(cls)
    state = {key: build(item, arrays) for key, item in attributes.items()}
    if isinstance(value, BaseEstimator):
        value.__setstate__(state)  # which warns of another version of scikit-learn
    else:
        vars(value).update(state)
    return value


def _class(name: str) -> Any:
    return getattr(import_module(NAMES[name]), name.rpartition(".")[2])


def _pairs(value: dict[Any, Any]) -> list[list[Any]]:
    return [list(pair) for pair in value.items()]


def _objects(parts: Any) -> NDArray[Any]:
    shape, items = parts
    values = np.empty(len(items), dtype=object)
    for place, item in enumerate(items):
        values[place] = item
    return values.reshape(shape)


def _scalar(parts: Any) -> Any:
    name, item = parts
    if (dtype := np.dtype(str(name))).kind not in KINDS:
        raise ValueError(f"a number of {dtype}")
    return np.asarray(item, dtype)[()]


def _numpy_name(value: Any) -> str:
    name = str(value.__name__)
    if getattr(np, name, None) is not value:
        raise ValueError(f"the name {name}")
    return name


def _of_numpy(name: str) -> Any:
    """Return the type of numbers or the mathematical function of this name in NumPy."""
    found = getattr(np, name)
    if not (isinstance(found, np.ufunc) or (isinstance(found, type) and issubclass(found, np.generic))):
        raise ValueError(f"the name numpy.{name}")
    return found


def _random_state(parts: Any) -> np.random.RandomState:
    state, has_gauss, cached = parts
    made = np.random.RandomState(0)
    if not 0 <= state["pos"] <= len(made.get_state(legacy=False)["state"]["key"]):  # NumPy reads there unchecked
        raise ValueError(f"a generator of random numbers at position {state['pos']}")
    made.set_state(("MT19937", state["key"], state["pos"], has_gauss, cached))
    return made


# By tag: the type of a value, what it is taken apart into, and how it is made of that.
FORMS: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "scalar": (np.generic, lambda value: [value.dtype.str, value.item()], _scalar),  # NumPy's float64 is a float too
    "bunch": (Bunch, _pairs, lambda parts: Bunch(**dict(parts))),
    "dict": (dict, _pairs, dict),
    "dtype": (np.dtype, lambda value: value.str, np.dtype),
    "float": (float, repr, float),
    "numpy": ((np.ufunc, type), _numpy_name, _of_numpy),
    "objects": (np.ndarray, lambda value: [list(value.shape), value.ravel().tolist()], _objects),
    "random_state": (np.random.RandomState, lambda value: [*value.get_state(legacy=False).values()][1:], _random_state),
    "slice": (slice, lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)),
    "tuple": (tuple, list, tuple),
}
