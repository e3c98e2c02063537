"""The order of rows by what stands in them, against pandas, NumPy's lexsort and the dense twin of a sparse matrix."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from mgce._row_order import content_order

NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -1e300, 5e-324, np.inf, -np.inf, np.nan])
TABLES = arrays.arrays(np.float64, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=NUMBERS)


@given(TABLES)
def test_numbers_have_the_order_of_pandas(table):
    order = content_order(table)
    expected = pd.DataFrame(table).sort_values(list(range(table.shape[1])), kind="stable")
    np.testing.assert_array_equal(table[order], expected.to_numpy())


@given(TABLES, st.randoms(use_true_random=False))
def test_the_sorted_rows_do_not_depend_on_how_they_came(table, random):
    shuffled = table[random.sample(range(len(table)), len(table))]
    np.testing.assert_array_equal(shuffled[content_order(shuffled)], table[content_order(table)])


@given(TABLES)
@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array])
def test_a_sparse_matrix_has_the_order_of_the_dense_one(form, table):
    np.testing.assert_array_equal(content_order(form(table)), content_order(table))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble", "int8", "int64", "<i4", ">i4", ">f8"])
def test_the_type_of_numbers_does_not_matter(dtype):
    largest = 100 if dtype == "int8" else 2000  # float16 has the integers up to 2,048
    values = np.random.default_rng(0).integers(-largest, largest, (99, 2)) // [largest // 4, 1]
    expected = np.lexsort(values.T[::-1])
    np.testing.assert_array_equal(content_order(values.astype(dtype)), expected)
    np.testing.assert_array_equal(content_order(sparse.csr_matrix(values), values.astype(dtype)), expected)


def test_booleans_and_unsigned_numbers():
    assert content_order(np.array([True, False, True])).tolist() == [1, 0, 2]
    assert content_order(np.array([255, 0, 7], np.uint8)).tolist() == [1, 2, 0]
    assert content_order(np.array([2**64 - 1, 2**63, 7], np.uint64)).tolist() == [2, 1, 0]


def test_texts_dates_and_mixed_objects():
    assert content_order(np.array(["b", "", "ab"])).tolist() == [1, 2, 0]
    assert content_order(np.array(["2020-02-01", "2019-01-01"], "datetime64[s]")).tolist() == [1, 0]
    mixed = np.array([None, "b", 2.5, float("nan"), True, "a", pd.NA], object)
    assert mixed[content_order(mixed)].tolist()[:4] == [True, 2.5, "a", "b"]
    assert content_order(mixed).tolist() == [4, 2, 5, 1, 6, 3, 0]


def test_later_columns_decide_between_equal_ones():
    first, second = np.array([1, 0, 1, 0]), np.array(["b", "b", "a", "a"])
    assert content_order(first, second).tolist() == [3, 1, 2, 0]
    assert content_order(np.zeros((3, 0))).tolist() == [0, 1, 2]


def test_columns_of_different_lengths():
    with pytest.raises(ValueError, match=r"Expected `columns`"):
        content_order(np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match=r"Expected `columns`"):
        content_order()
