"""Copies of rows are told from rows that are equal by chance, in simulated tables of both kinds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from mgce.tables.copies import copies

LETTERS = np.array(list("abcdefghij"))


def categories(rng, n, k, d):
    return pd.DataFrame({f"c{i}": LETTERS[rng.integers(0, k, n)] for i in range(d)})


def noisy(rng, score):
    """Return labels by a score, of which a tenth is wrong."""
    return (score > np.median(score)) ^ (rng.random(len(score)) < 0.1)


def few_categories(rng):
    n = rng.choice([60, 300, 2000])
    frame = categories(rng, n, rng.choice([2, 3, 5]), rng.integers(1, 6))
    return frame.assign(y=frame["c0"] == "a" if rng.random() < 0.5 else rng.integers(0, 2, n))


def sparse_categories(rng):
    n = rng.choice([100, 300, 1000])
    return categories(rng, n, rng.choice([3, 5, 10]), rng.integers(4, 9)).assign(y=rng.integers(0, 2, n))


def dependent_categories(rng):
    """Categories that depend on a class of four, which is the label but for a tenth of the rows."""
    n, d, k = rng.choice([100, 500]), rng.integers(2, 9), rng.integers(2, 6)
    kind = rng.integers(0, 4, n)
    probs = rng.dirichlet(np.full(k, 0.3), (d, 4)).cumsum(-1)
    columns = {f"c{i}": (rng.random((n, 1)) > probs[i][kind]).sum(1).astype(str) for i in range(d)}
    return pd.DataFrame(columns).assign(y=np.where(rng.random(n) < 0.1, rng.integers(0, 4, n), kind))


def nearly_one_column(rng):
    """Truth values that are all the same one, each wrong in a twentieth of the rows."""
    n, d = rng.choice([100, 1000]), rng.integers(2, 6)
    same = rng.random(n) < 0.5
    columns = {f"c{i}": same ^ (rng.random(n) < 0.05) for i in range(d)}
    return pd.DataFrame(columns).assign(y=same ^ (rng.random(n) < 0.05))


def one_hot(rng):
    n = rng.choice([100, 1000])
    frame = pd.get_dummies(categories(rng, n, rng.choice([3, 4]), rng.integers(1, 5))).astype(float)
    return frame.assign(y=frame.iloc[:, 0].astype(bool) ^ (rng.random(n) < 0.1 * rng.integers(0, 2)))


def cities(rng):
    """A category whose values are rare, most of them, beside one of two values."""
    n = rng.choice([200, 2000])
    city = (rng.pareto(1, n) * 20).astype(int).astype(str)
    return pd.DataFrame({"city": city, "sex": LETTERS[rng.integers(0, 2, n)]}).assign(y=rng.integers(0, 2, n))


def rounded(rng):
    """One or two columns of numbers with one decimal, and a label that they determine or nearly do."""
    n = rng.choice([100, 1000])
    x = rng.normal(size=(n, rng.integers(1, 3))).round(1)
    return pd.DataFrame(x, columns=["a", "b"][: x.shape[1]]).assign(
        y=x[:, 0] > 0.3 if rng.random() < 0.5 else noisy(rng, x[:, 0])
    )


def answers(rng):
    """A questionnaire: up to nine answers from 1 to 5 that depend on one opinion."""
    n = rng.choice([100, 1000])
    opinion = rng.normal(size=n)
    columns = {
        f"q{i}": np.clip(np.round(3 + opinion + 0.7 * rng.normal(size=n)), 1, 5) for i in range(rng.integers(3, 10))
    }
    return pd.DataFrame(columns).assign(y=noisy(rng, opinion))


def mostly_zeros(rng, n=1000):
    """Amounts that are zero in most rows, together or not, beside a category."""
    amounts = rng.exponential(size=(n, 4)).round(2)
    zero = (
        (rng.random((n, 4)) < 0.75) if rng.random() < 0.5 else (rng.random((n, 4)) < 0.3) | (rng.random((n, 1)) < 0.4)
    )
    frame = pd.DataFrame(np.where(zero, 0, amounts), columns=list("abcd"))
    return frame.assign(sex=LETTERS[rng.integers(0, 2, n)], y=noisy(rng, frame.sum(axis=1).to_numpy()))


def counts(rng):
    n = rng.choice([300, 1500])
    numbers = rng.poisson(rng.gamma(1, 1, (n, 1)) * rng.gamma(0.3, 1, 15))
    return pd.DataFrame(numbers).add_prefix("w").assign(y=noisy(rng, numbers.sum(1) + 0.1 * rng.random(n)))


def recoded(rng):
    """Education as words and as numbers, an age in steps of five, and a sex."""
    n = 500
    education = rng.integers(0, 10, n)
    frame = pd.DataFrame({"education": LETTERS[education], "number": education, "age": rng.integers(4, 16, n) * 5})
    return frame.assign(sex=LETTERS[rng.integers(0, 2, n)], y=education + 3 * rng.normal(size=n) > 5)


ORDINARY = [
    few_categories,
    sparse_categories,
    dependent_categories,
    nearly_one_column,
    one_hot,
    cities,
    rounded,
    answers,
    mostly_zeros,
    counts,
    recoded,
]


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
