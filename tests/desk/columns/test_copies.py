"""Copies of rows are told from rows that are equal by chance, in simulated tables of both kinds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from mgce.desk.columns.copies import _density, copies
from mgce.desk.files.vectors import Vector
from ordinary_tables import LETTERS, ORDINARY, categories, mostly_zeros


def numbers_of(decimals, d):
    return lambda rng: pd.DataFrame(rng.normal(size=(300, d)).round(decimals)).add_prefix("x")


def one_number_and_categories(rng):
    return categories(rng, 300, 2, 5).assign(x=rng.normal(size=300).round(3))


def pairs_of_integers(rng):
    return pd.DataFrame({"age": rng.integers(18, 80, 300), "income": rng.integers(100, 900, 300) * 100})


ORIGINALS = {
    "float": numbers_of(16, 3),
    "one float": numbers_of(16, 1),
    "3 decimals": numbers_of(3, 5),
    "1 decimal": numbers_of(1, 5),
    "a number, categories": one_number_and_categories,
    "integers": pairs_of_integers,
    "twelve categories": lambda rng: categories(rng, 300, 4, 12),
    "integers of 16 columns": lambda rng: pd.DataFrame(rng.integers(0, 16, (300, 16))).add_prefix("p"),
    "with a number of the row": lambda rng: numbers_of(3, 3)(rng).assign(row=np.arange(300)),
}


def n_copies(frame):
    same = copies(frame.drop(columns="y"), frame["y"].astype(str))
    return len(same) - len(np.unique(same))


@pytest.mark.parametrize("draw", ORDINARY)
def test_equal_rows_of_ordinary_draws_are_no_copies(draw):
    frames = [draw(np.random.default_rng(seed)) for seed in range(8)]
    assert sum(frame.duplicated().sum() for frame in frames) > 50  # there is something to be mistaken for copies
    assert [n_copies(frame) for frame in frames] == [0] * 8


@pytest.mark.nightly
@pytest.mark.parametrize("draw", ORDINARY)
def test_of_many_tables_of_ordinary_draws_hardly_any_has_copies(draw):
    """Among 100 tables, three would be surprising if a share of .4 % were mistaken."""
    assert sum(n_copies(draw(np.random.default_rng(seed))) > 0 for seed in range(100)) <= 2


@pytest.mark.parametrize("times", [2, 10])
@pytest.mark.parametrize("share", [0.1, 1.0])
@pytest.mark.parametrize("kind", ORIGINALS)
def test_copies_are_found(kind, share, times):
    """Rows that are drawn again and again, of all or of a tenth of them, as oversampling does."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        frame = ORIGINALS[kind](rng).assign(y=rng.integers(0, 2, 300))
        some = rng.choice(300, round(300 * share), replace=False)
        added = rng.choice(some, (times - 1) * len(some))
        table = frame.iloc[rng.permutation(np.r_[np.arange(300), added])].reset_index(drop=True)
        assert 0.8 * len(added) <= n_copies(table) <= table.duplicated().sum()


def test_the_density_of_a_column_is_the_share_of_its_grid_that_occurs():
    assert _density(pd.Series([*range(9), 17.0])) == pytest.approx(10 / 19)  # 18 points, and one for missing values
    assert _density(pd.Series(np.random.default_rng(0).normal(size=20))) == 0


def test_two_equal_rows_of_continuous_numbers_are_a_copy_and_the_row_says_of_which():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)), columns=list("abc"))
    same = copies(pd.concat([frame, frame.iloc[[7]]]), pd.Series(["p", "q"] * 50 + ["q"]))
    assert same.tolist() == [*range(100), 7]


def test_copies_are_found_among_rows_that_are_equal_by_chance():
    """Rows of zeros are ordinary draws, and stay so beside copied ones."""
    rng = np.random.default_rng(0)
    frame = mostly_zeros(rng)
    rich = frame[(frame[list("abcd")] > 0).sum(axis=1) >= 2]
    table = pd.concat([frame, rich.sample(400, replace=True, random_state=0)])
    same = copies(table.drop(columns="y"), table["y"].astype(str))
    kept = np.unique(same, return_index=True)[1]
    assert n_copies(table) >= 390
    assert (table[list("abcd")].iloc[kept] == 0).all(axis=1).sum() == (frame[list("abcd")] == 0).all(axis=1).sum()


def test_the_order_of_rows_and_the_type_of_numbers_do_not_matter():
    rng = np.random.default_rng(0)
    frame = ORIGINALS["integers"](rng).assign(kind=LETTERS[rng.integers(0, 3, 300)])
    table = pd.concat([frame, frame.iloc[:40]], ignore_index=True)
    labels = pd.Series(np.r_[np.arange(300), np.arange(40)] % 2)
    assert sum(copies(table, labels) < 40) == 80
    order = rng.permutation(340)
    first = np.unique(copies(table.iloc[order], labels.iloc[order]), return_index=True)[1]
    assert sorted(order[first] % 300) == list(range(300))
    for types in ({"age": float}, {"age": "Int64", "income": np.int32}, {"kind": "category"}):
        np.testing.assert_array_equal(copies(table.astype(types), labels), copies(table, labels))


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_data_sets_of_scikit_learn_have_no_copies(load):
    """Iris has two equal rows, whose numbers have one decimal: many others differ from them in one number alone."""
    data = load(as_frame=True)
    assert n_copies(data.data.assign(y=data.target)) == 0


def test_embeddings_that_are_all_equal_tell_no_rows_apart():
    vectors = pd.DataFrame({"features": [Vector(np.ones(8, np.float32).tobytes())] * 6})
    assert copies(vectors, pd.Series([*"ababab"])).tolist() == [*range(6)]
