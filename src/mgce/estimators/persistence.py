"""Files for fitted estimators, alone or inside scikit-learn's Pipelines: skops, never pickle."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from mgce import _validation
from mgce._files import replacing

OWN_TYPES = frozenset(
    {
        "mgce.estimators.forest.MGCEForestClassifier",
        "mgce.estimators.fourier.MGCEFourierClassifier",
        "mgce.estimators.linear.MGCEClassifier",
        "mgce.estimators.linear_cv.MGCEClassifierCV",
        "mgce.estimators.mlp.MGCEMLPClassifier",
        "mgce.estimators.stochastic.AveragedAdaGrad",
        "mgce.estimators.stochastic.FeatureMoments",
        "mgce.tables.model.TablePipeline",
        "numpy.dtype",
    }
)


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file that :func:`load` reads; the file is whole or not there.

    Args:
        estimator: of this package or of scikit-learn, or a Pipeline or search made of such.
        path: the file; an earlier one is replaced.

    Raises:
        ImportError: if skops is not installed.
        ValueError: if a part of the estimator is of another library, for instance a function of your own.

    Example:
        >>> import tempfile
        >>> from mgce.estimators import MGCEClassifier
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["a", "a", "b", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(MGCEClassifier().fit(X, y), f"{folder}/model.skops")
        ...     load(f"{folder}/model.skops").predict([[0.5], [2.5]]).tolist()
        ['a', 'b']
    """
    if not isinstance(estimator, BaseEstimator):
        raise ValueError(_validation.expected("estimator", "a scikit-learn estimator", type(estimator).__name__))
    content = _skops_io().dumps(estimator)
    foreign = _foreign_types(content)
    if foreign:
        raise ValueError(_validation.expected("estimator", "made of scikit-learn, NumPy and mgce only", foreign))
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(content)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator from a file that :func:`save` has written.

    Nothing but types of this package, scikit-learn, NumPy and SciPy is ever constructed from it.

    Args:
        path: the file.

    Returns:
        The estimator.

    Raises:
        ImportError: if skops is not installed.
        FileNotFoundError: if there is no such file.
        ValueError: if it is no such file, is damaged, or holds a type of another library.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "notes.txt").write_text("no model")
        ...     load(f"{folder}/notes.txt")
        Traceback (most recent call last):
        ValueError: Expected `path` to be a file written by `save`, but got '...: BadZipFile: File is not a zip file'.
    """
    io = _skops_io()
    content = Path(path).read_bytes() or b"empty"  # skops takes empty bytes for none given
    try:
        foreign = _foreign_types(content)
        estimator = None if foreign else io.loads(content, trusted=io.get_untrusted_types(data=content))
    except Exception as error:  # skops and zipfile raise whatever they meet
        got = f"{os.fspath(path)}: {type(error).__name__}: {error}"
        raise ValueError(_validation.expected("path", "a file written by `save`", got)) from error
    if foreign:
        raise ValueError(_validation.expected("path", "a file of scikit-learn's, NumPy's and mgce's types", foreign))
    if not isinstance(estimator, BaseEstimator):
        raise ValueError(_validation.expected("path", "a file with an estimator", type(estimator).__name__))
    return estimator


def _foreign_types(content: bytes) -> list[str]:
    """Give the names of types in a file that are not to be trusted."""
    return [name for name in _skops_io().get_untrusted_types(data=content) if not _is_trusted(name)]


def _is_trusted(name: str) -> bool:
    return name in OWN_TYPES or _is_class_of_sklearn(name)


def _is_class_of_sklearn(name: str) -> bool:
    """Tell whether a name is a class that scikit-learn defines, not a function or something it imports."""
    module, _, attribute = name.rpartition(".")
    if not module.startswith("sklearn."):
        return False
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError):
        return False
    return isinstance(found, type) and found.__module__.startswith("sklearn.")


def _skops_io() -> Any:
    try:
        return import_module("skops.io")
    except ImportError as error:
        message = "Files of estimators need skops, which is not installed: run `pip install 'mgce[estimators]'`."
        raise ImportError(message) from error
