import numpy as np
import pandas as pd
import pytest

from mgce.desk.columns.cells import (
    DECIMAL_COMMA,
    PLAIN,
    THOUSANDS,
    TRUTH,
    format_of_text,
    numbers_of_text,
    points_between_thousands,
)

RNG = np.random.default_rng(0)
VALUES = [*RNG.integers(-(10**9), 10**9, 50), *RNG.integers(0, 2000, 50), 0, 999, 1000, -1000]


@pytest.mark.parametrize("separator", [",", "'", "\u2019", " ", "\u00a0", "\u202f"])
@pytest.mark.parametrize("decimals", [0, 2])
def test_thousands_are_as_python_writes_them(separator, decimals):
    text = pd.Series([f"{value:,.{decimals}f}".replace(",", separator) for value in VALUES])
    assert format_of_text(text) == THOUSANDS
    np.testing.assert_array_equal(numbers_of_text(text, THOUSANDS), VALUES)


@pytest.mark.parametrize("separator", [".", "'", " ", "\u00a0", ""])
def test_decimal_commas_are_those_of_python_with_the_signs_exchanged(separator):
    values = RNG.normal(scale=10**4, size=50).round(2)
    text = pd.Series([f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", separator) for value in values])
    assert format_of_text(text) == DECIMAL_COMMA
    np.testing.assert_array_equal(numbers_of_text(text, DECIMAL_COMMA), values)
    assert format_of_text(pd.concat([text, pd.Series(["soon", None])])) == DECIMAL_COMMA
    assert format_of_text(pd.concat([text, pd.Series(["3.14"])])) == PLAIN


def test_thousands_of_india_are_read():
    text = pd.Series(["12,34,567", "1,23,45,678.5", "999", "1,000"])
    assert format_of_text(text) == THOUSANDS
    assert numbers_of_text(text, THOUSANDS).tolist() == [1234567, 12345678.5, 999, 1000]


@pytest.mark.parametrize("other", ["1,5", "0,123", "1234,567", ",5", "12,34"])
def test_a_comma_that_must_be_decimal_makes_no_thousands_of_the_others(other):
    text = pd.Series(["1,234", "5,678", "999"] * 20 + [other])
    assert format_of_text(text) == PLAIN
    assert numbers_of_text(text, PLAIN).notna().sum() == 20
    assert np.isnan(numbers_of_text(pd.Series([other]), THOUSANDS)[0])


def test_true_and_false_are_read_in_their_own_format_only():
    text = pd.Series(["True", "FALSE", " true", "false", "maybe", None, "1", "2.5"])
    np.testing.assert_array_equal(numbers_of_text(text, TRUTH), [1, 0, 1, 0, np.nan, np.nan, 1, 2.5])
    np.testing.assert_array_equal(numbers_of_text(text, PLAIN), [np.nan] * 6 + [1, 2.5])
    assert format_of_text(text) == TRUTH and format_of_text(pd.Series(["1", "2", "true"])) == PLAIN
    assert format_of_text(pd.Series(["0", "1", "x"])) == TRUTH and format_of_text(pd.Series(["x", "y"])) == PLAIN


def test_points_between_thousands_are_seen():
    for cells in (["1.234.567", "1.234", "999"], ["1.234,5", "999"]):
        assert points_between_thousands(pd.Series(cells))
    for cells in (["1.234", "999"], ["1.234.567", "3.14"], ["1.2.3", "1.20.300"], ["x"]):
        assert not points_between_thousands(pd.Series(cells))
