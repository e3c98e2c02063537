import pytest

from mgce.linear.objective import FIRST_ORDER_WORK, INTERIOR_ENTRIES, QUICK, THOROUGH, Size, plan

SMALL = Size(100, 3, 5)
MIDDLE = Size(10_000, 10, 30)  # 9e8 multiplications: too many where cross-validation waits
LARGE = Size(20_000, 10, 30)  # 1.8e9: worth an attempt at first order
HUGE = Size(10**6, 10, 100)
WIDE = Size(100, 3, 10_000)  # 3e8 multiplications by its 300 margins, 9e12 by its 30,000 coefficients
FREE = Size(100, 3, 10_000, free=30_000)  # no coefficient has an l1 term, and each is one more equation
LONG = Size(10**7, 2, 2)  # 1.6e8 multiplications, but 4e7 numbers


@pytest.mark.parametrize(
    ("size", "beta", "patience", "methods"),
    [
        (SMALL, 1.4, QUICK, ("interior", "lbfgs")),
        (SMALL, 1.0, QUICK, ("lp", "interior", "lbfgs")),
        (SMALL, 1.4, THOROUGH, ("interior", "lbfgs")),
        (MIDDLE, 1.4, QUICK, ("lbfgs",)),
        (MIDDLE, 1.4, THOROUGH, ("interior", "lbfgs")),
        (LARGE, 1.4, THOROUGH, ("lbfgs", "interior")),
        (LARGE, 1.3, THOROUGH, ("interior", "lbfgs")),
        (WIDE, 1.3, THOROUGH, ("interior", "lbfgs")),
        (FREE, 1.3, THOROUGH, ("lbfgs",)),
        (HUGE, 1.0, THOROUGH, ("lbfgs",)),
        (LONG, 1.4, THOROUGH, ("lbfgs",)),
        (LONG, 1.4, QUICK, ("lbfgs",)),
    ],
)
def test_the_methods_that_a_size_allows(size, beta, patience, methods):
    assert plan(size, beta, patience) == methods


def test_the_sizes_are_on_the_sides_of_the_limits_that_they_stand_for():
    assert MIDDLE.interior_work < FIRST_ORDER_WORK < LARGE.interior_work < THOROUGH.interior_work
    assert WIDE.interior_work == WIDE.work_by_margins < THOROUGH.interior_work < WIDE.work_by_coefficients
    assert LONG.interior_work < QUICK.interior_work and LONG.entries > INTERIOR_ENTRIES


def test_the_work_of_a_step_is_that_of_its_products_and_its_factorisation():
    assert SMALL.entries == 1500 and SMALL.work_by_coefficients == 100 * 15**2 + 15**3 // 3
    assert SMALL.work_by_margins == 15 * 100**2 + 2 * 300**3 // 3  # every coefficient has an l1 term
    assert Size(100, 3, 5, free=15).work_by_margins == 15 * 100**2 + 2 * 315**3 // 3
    assert SMALL.interior_work == SMALL.work_by_coefficients < SMALL.work_by_margins
