"""Save fitted estimators, alone or inside scikit-learn's Pipelines, to files of skops and load them; never pickle."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from mgce import _validation
from mgce._files import replacing
from mgce._limits import read_at_most
from mgce.estimators.archive import canonical

MADE_OF = "estimators of mgce, or of scikit-learn without compiled parts"
# What skops does not trust by itself. What it does, for its part, are the estimators of scikit-learn, all written in
# Python; their attributes may be of the types below. Classes of compiled code, such as the trees of forests and of
# nearest neighbours, are not among them: they follow the indices of a file wherever these point.
TRUSTED = frozenset(
    {
        "mgce.estimators.boosting.MGCEBoostingClassifier",
        "mgce.estimators.embedding.MGCEEmbeddingClassifier",
        "mgce.estimators.forest.MGCEForestClassifier",
        "mgce.estimators.fourier.MGCEFourierClassifier",
        "mgce.estimators.linear.MGCEClassifier",
        "mgce.estimators.linear_cv.MGCEClassifierCV",
        "mgce.estimators.mlp.MGCEMLPClassifier",
        "mgce.estimators.stochastic.AveragedAdaGrad",
        "mgce.estimators.stochastic.FeatureMoments",
        "mgce.estimators.trees.Trees",
        "mgce.estimators.voting.MGCEVotingClassifier",
        "mgce.tables.model.TablePipeline",
        "mgce.tables.text_features.TextEncoder",
        "mgce.tables.text_features.TextTransformer",
        "mgce.tables.text_features.VectorTransformer",
        "numpy.dtype",
        # Of CalibratedClassifierCV, ColumnTransformer, searches, VotingClassifier and StackingClassifier.
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.compose._column_transformer._RemainderColsList",  # a list that ColumnTransformer has before 1.7
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.utils._bunch.Bunch",
        # What a scorer is to be given; a part of it before 1.7.
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
    }
)


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Save an estimator to a file that :func:`load` reads; no partial file remains if this fails.

    The bytes of the file depend only on the estimator and on the version of skops.

    Args:
        estimator: an estimator of this package, alone or in a Pipeline, search or ensemble of scikit-learn.
            scikit-learn's own trees, forests and nearest neighbours are refused: their data are compiled objects.
        path: the file to write; an existing file is replaced.

    Raises:
        ImportError: if skops is not installed.
        ValueError: if :func:`load` would not accept a part of the estimator, for instance a function of your own or a
            forest of scikit-learn; or if the estimator has too many parts for `load`.

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
    try:
        content = canonical(content)
    except ValueError as error:
        raise ValueError(_validation.expected("estimator", "one that a file can hold", str(error))) from error
    untrusted = _untrusted_types(content)
    if untrusted:
        raise ValueError(_validation.expected("estimator", f"made of {MADE_OF}", untrusted))
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(content)


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
        ImportError: if skops is not installed.
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
    io = _skops_io()
    with Path(path).open("rb") as file:
        try:
            content = canonical(read_at_most(file))
            untrusted = _untrusted_types(content)
            estimator = None if untrusted else io.loads(content, trusted=sorted(TRUSTED))
        except Exception as error:  # skops and zipfile raise whatever they meet
            got = f"{os.fspath(path)}: {type(error).__name__}: {error}"
            raise ValueError(_validation.expected("path", "a file written by `save`", got)) from error
    if untrusted:
        raise ValueError(_validation.expected("path", f"a file of {MADE_OF}", untrusted))
    if not isinstance(estimator, BaseEstimator):
        raise ValueError(_validation.expected("path", "a file with an estimator", type(estimator).__name__))
    return estimator


def _untrusted_types(content: bytes) -> list[str]:
    """Return the names of the types in a file that neither skops nor this package trusts."""
    return [name for name in _skops_io().get_untrusted_types(data=content) if name not in TRUSTED]


def _skops_io() -> Any:
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise ImportError(_validation.not_installed("Files of estimators need", "skops", "estimators")) from error
