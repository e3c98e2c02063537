import itertools

import pytest

from grids import covering, grid, pairs


@pytest.mark.parametrize("sizes", [(3, 2, 2), (5, 8, 2), (3, 5, 2, 2), (4, 4), (3,)])
def test_each_pair_of_values_stands_in_a_case(sizes):
    values = [[f"{name}{i}" for i in range(size)] for name, size in zip("abcd", sizes, strict=False)]
    cases = covering(*values)
    for one, other in itertools.combinations(range(len(sizes)), 2):
        assert {(case[one], case[other]) for case in cases} == set(itertools.product(values[one], values[other]))
    assert len(set(cases)) == len(cases) < max(2, len(list(itertools.product(*values)))) + (len(sizes) < 3)


def test_what_is_not_kept_is_nightly_and_nothing_is_lost():
    for mark in (
        pairs("a, b, c", "xyz", "uv", "pq"),
        grid("a, b, c", "xyz", "uv", "pq", keep=lambda a, b, c: a == "x"),
    ):
        cases = mark.args[1]
        assert [case.values for case in cases] == list(itertools.product("xyz", "uv", "pq"))
        kept = [case.values for case in cases if not case.marks]
        assert {one for case in kept for one in case} >= {"x", "u", "v", "p", "q"} and len(kept) < len(cases)
        assert all(mark.name == "nightly" for case in cases for mark in case.marks)
