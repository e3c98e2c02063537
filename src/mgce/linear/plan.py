"""Choose the methods that minimise linear MGCE, by the size of the problem and the time that a fit may take."""

from __future__ import annotations

from dataclasses import dataclass

# A core multiplies and adds about 2e10 float64 numbers in a second, in a product of matrices. The times below are of
# that.
#
# Largest n k d for the interior-point method, so that it fits into memory: it holds some thirty arrays of shape (n, k)
# and one or two of shape (n, d). From 30 features on these are about as many numbers as n k d, and 2e7 are 160 MB; with
# fewer features it takes more, up to thirty times that with one.
INTERIOR_ENTRIES = 2e7
# Multiplications in a step of the interior-point method. Above 1e9, a twentieth of a second, L-BFGS-B is
# tried before it, since it may close the gap in less time. Below beta = 1.4 it never does.
FIRST_ORDER_WORK = 1e9
FIRST_ORDER_BETA = 1.4


@dataclass(frozen=True)
class Patience:
    """Upper limits on the size of a problem for the exact methods.

    Attributes:
        interior_work: largest number of multiplications in a step of the interior-point method, which takes 10 to 150
            steps.
        program_entries: largest number of entries (rows times classes times features) in the matrix of the linear
            program for beta = 1. HiGHS takes seconds for 2e5 and minutes for 2e6 entries.
    """

    interior_work: float
    program_entries: float


# For an estimator, which cross-validation fits hundreds of times: steps of at most a hundredth of a second.
QUICK = Patience(interior_work=2e8, program_entries=2e5)
# For a minimax risk, which is asked for once and whose gap matters: steps of at most a second.
THOROUGH = Patience(interior_work=2e10, program_entries=2e6)


@dataclass(frozen=True)
class Size:
    """The numbers of rows n, classes k, features d and coefficients without L1 term (`free`) of a problem."""

    n: int
    k: int
    d: int
    free: int = 0

    @property
    def entries(self) -> int:
        """The number n k d of combinations of a row, a class and a feature."""
        return self.n * self.k * self.d

    @property
    def work_by_coefficients(self) -> int:
        """The multiplications needed for equations in the k d coefficients: n (k d)^2 + (k d)^3 / 3."""
        return self.n * (self.k * self.d) ** 2 + (self.k * self.d) ** 3 // 3

    @property
    def work_by_margins(self) -> int:
        """The multiplications needed for equations in the n k logits (margins): k d n^2 + 2 (n k + free)^3 / 3."""
        return self.k * self.d * self.n**2 + 2 * (self.n * self.k + self.free) ** 3 // 3

    @property
    def interior_work(self) -> int:
        """The number of multiplications in a step of the interior-point method."""
        return min(self.work_by_coefficients, self.work_by_margins)


def interior_is_affordable(size: Size, patience: Patience) -> bool:
    """Return whether the interior-point method is fast enough and fits into memory."""
    return size.interior_work <= patience.interior_work and size.entries <= INTERIOR_ENTRIES


def plan(size: Size, beta: float, patience: Patience) -> tuple[str, ...]:
    """Return the names of the methods to try in turn, until the gap between objective and lower bound is closed.

    Example:
        >>> plan(Size(n=150, k=3, d=5), 1.0, QUICK)
        ('lp', 'interior', 'lbfgs')
        >>> plan(Size(n=10**6, k=10, d=100), 1.4, QUICK)
        ('lbfgs',)
    """
    methods: tuple[str, ...] = ("lbfgs",)
    if interior_is_affordable(size, patience):
        first_order_first = size.interior_work > FIRST_ORDER_WORK and beta >= FIRST_ORDER_BETA
        methods = ("lbfgs", "interior") if first_order_first else ("interior", "lbfgs")
    return ("lp", *methods) if beta == 1 and size.entries <= patience.program_entries else methods
