"""Simulated tables of independent draws in which many rows are equal by chance."""

import numpy as np
import pandas as pd

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
