"""Rows in several files: their sums and coordinates against those of one array, and two workers against one."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mgce import MGCEEmbeddingClassifier
from mgce.estimators import shards
from mgce.estimators.directions import coordinates, fitted_directions
from mgce.estimators.shards import shard_coordinates


@pytest.fixture(scope="module", params=["signed", "never negative"])
def rows(request):
    rng = np.random.default_rng(0)
    y = np.arange(270) % 3
    X = (rng.normal(size=(3, 70))[y] + rng.normal(size=(270, 70)) + 5 * rng.normal(size=70)).astype(np.float32)
    X[:, 7] = 1.0
    return (np.maximum(X, 0) if request.param == "never negative" else X), y


@pytest.fixture
def paths(rows, tmp_path):
    np.save(tmp_path / "0.npy", rows[0][:150])
    np.save(tmp_path / "1.npy", rows[0][150:190].astype(np.float64))
    pq.write_table(pa.table({"features": list(rows[0][190:])}), tmp_path / "2.parquet")
    return [tmp_path / name for name in ("0.npy", "1.npy", "2.parquet")]


def test_coordinates_are_those_of_one_array(rows, paths, monkeypatch):
    monkeypatch.setattr(shards, "BLOCK_ROWS", 64)  # files of several blocks, the last one shorter
    one, z = fitted_directions(rows[0], np.ones(270, np.float32))
    space = coordinates(z, np.ones(270, np.float32))
    directions, found = shard_coordinates(paths)
    assert directions.rooted == one.rooted == (rows[0].min() >= 0)
    for name in ("means", "scales", "center"):
        np.testing.assert_allclose(getattr(directions, name), getattr(one, name), rtol=1e-5, atol=1e-6)  # float32
    np.testing.assert_allclose(found.spread, space.spread, rtol=1e-3, atol=1e-6)
    # Eigenvectors have no sign, and those of near eigenvalues are turned by rounding: products of rows are unique.
    np.testing.assert_allclose(found.rows @ found.rows.T, space.rows @ space.rows.T, atol=1e-4)
    np.testing.assert_allclose(found.axes @ found.axes.T, space.axes @ space.axes.T, atol=1e-3)


@pytest.mark.parametrize("rows", ["signed"], indirect=True)
def test_a_classifier_of_files_predicts_as_that_of_one_array(rows, paths):
    X, y = rows
    clf = MGCEEmbeddingClassifier(random_state=0).fit_shards(paths, y)
    assert clf.oof_proba_.shape == (270, 3) and clf.n_features_in_ == 70
    np.testing.assert_allclose(
        clf.predict_proba(X), MGCEEmbeddingClassifier(random_state=0).fit(X, y).predict_proba(X), atol=0.1
    )  # the folds are others, and so may be the penalties


@pytest.mark.parametrize("rows", ["signed"], indirect=True)
def test_two_threads_add_the_same_sums_as_one(paths):
    _, one = shard_coordinates(paths, 1)
    with pytest.importorskip("joblib").parallel_config("threading"):
        _, two = shard_coordinates(paths, 2)
    for name in ("rows", "spread", "axes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.nightly
@pytest.mark.parametrize("rows", ["signed"], indirect=True)
def test_two_dask_workers_fit_the_heads_of_one_process(rows, paths):
    joblib, distributed = pytest.importorskip("joblib"), pytest.importorskip("distributed")
    here = MGCEEmbeddingClassifier(random_state=0).fit_shards(paths, rows[1])
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config("dask", client=client),
    ):
        there = MGCEEmbeddingClassifier(random_state=0).fit_shards(paths, rows[1])
    np.testing.assert_allclose(there.coefs_, here.coefs_, atol=1e-6)


@pytest.mark.parametrize("rows", ["signed"], indirect=True)
@pytest.mark.parametrize(
    ("name", "values", "sentence"),
    [
        ("width.npy", np.ones((4, 69)), "Expected `shards` to be files of 70 features, as the first, but got"),
        ("nan.npy", np.full((4, 70), np.nan), "Expected `shards` to be files of finite numbers"),
        ("none.npy", np.ones((0, 70)), "Expected `shards` to be files that hold rows"),
    ],
)
def test_files_that_do_not_fit_are_named(rows, paths, tmp_path, name, values, sentence):
    np.save(tmp_path / name, values)
    with pytest.raises(ValueError, match=sentence) as error:
        MGCEEmbeddingClassifier().fit_shards([*paths, tmp_path / name], rows[1])
    assert name in str(error.value)


@pytest.mark.parametrize("rows", ["signed"], indirect=True)
def test_arguments_that_do_not_fit_are_named(rows, paths):
    clf = MGCEEmbeddingClassifier()
    with pytest.raises(ValueError, match="Expected `y` to be a label for each of 270 rows, but got '3 labels'"):
        clf.fit_shards(paths, [0, 1, 2])
    with pytest.raises(ValueError, match="Expected `y` to be of at least 2 classes"):
        clf.fit_shards(paths, np.zeros(270))
    with pytest.raises(ValueError, match="Expected `shards` to be at least one file, but got 'none'"):
        clf.fit_shards([], [0, 1])
    with pytest.raises(FileNotFoundError, match="Expected `shards`"):
        clf.fit_shards([Path("nowhere.npy")], [0, 1])
