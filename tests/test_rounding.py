"""What is printed of a proved number is still proved: parsed back, it is on the right side, and not far from it."""

import ast
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgce._rounding import confidence_text, percent_down, percent_up, rate_down, rate_up, rounded_down, rounded_up
from mgce.risk import certify
from mgce.sets import ConformalSets

ROOT = Path(__file__).parents[1]
LAB = ROOT / "lab" / "src" / "mgce_lab"
SHARES = st.floats(0, 1) | st.sampled_from([1e-4, 1.5e-5, 1e-6, 0.05, 0.95, 1 - 1e-6, 1 - 1e-16, 5e-324])
NUMBERS = SHARES | st.floats(-20, 20)
PROVED = {"argmax_error", "randomized_error", "alpha_risk", "coverage", "delta", "low", "high", "lower",
          "upper", "noise_rate"}  # fmt: skip
# What is left: ranges and values that were given, in messages on them, estimates, and the published pages on the paper.
ALLOWED = {
    ("_messages.py", "{low:g}"),
    ("_messages.py", "{high:g}"),
    ("concentration.py", "{low:g}"),
    ("concentration.py", "{high:g}"),
    ("archive.py", "{low:g}"),
    ("archive.py", "{high:g}"),
    ("uncertainty.py", "{low[j]:g}"),
    ("uncertainty.py", "{high[j]:g}"),
    ("agreement.py", "{found.low:+.1f}"),
    ("agreement.py", "{found.high:+.1f}"),
    ("class_report.py", "{fit.certificate.noise_rate:.3g}"),
    ("report.py", "{fit.plan.delta:g}"),
    ("advantage.py", "{cell.noise_rate:g}"),
    ("compared.py", "{self.plan.noise_rate:g}"),
    ("comparison.py", "{row.noise_rate:g}"),
}
EXACT = certify([0, 1] * 50, np.eye(2)[[0, 1] * 50] * 0.8 + 0.1, beta=1.4)


def as_written(value):
    """Return the decimal number that stands for a float64, the shortest that is nearest to it."""
    return Decimal(repr(value))


def numbers(text):
    return [Decimal(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", text)]


@given(NUMBERS)
def test_bounds_are_rounded_outward(value):
    exact = as_written(value)
    low, high = Decimal(rounded_down(value)), Decimal(rounded_up(value))
    assert low <= exact <= high
    assert high - low <= min(Decimal("1e-4"), abs(exact) / 10)  # at least two digits are left
    assert Decimal(rate_down(value)) <= exact <= Decimal(rate_up(value))


@given(SHARES)
def test_percentages_are_rounded_outward(value):
    low, high = (Decimal(text.removesuffix("%")) / 100 for text in (percent_down(value), percent_up(value)))
    assert low <= as_written(value) <= high
    assert high - low <= min(Decimal("1e-3"), as_written(value) / 10)


@given(SHARES)
def test_a_confidence_is_rounded_down_and_never_to_one(value):
    shown = Decimal(confidence_text(value))
    assert shown <= as_written(value) + Decimal("1e-15")  # the rounding of 1 - delta
    assert as_written(value) - shown <= Decimal("1e-4")
    assert (shown == 1) == (value == 1)


@pytest.mark.parametrize("delta", [0.05, 0.07, 0.1, 0.01, 0.001, 1e-6, 1e-9])
def test_a_stated_probability_is_shown_as_it_was_stated(delta):
    assert Decimal(confidence_text(1 - delta)) == 1 - Decimal(repr(delta))
    assert rate_up(delta) == rate_down(delta) or delta < 1e-6


@given(SHARES, SHARES, st.floats(0, 1.4), SHARES)
def test_a_certificate_prints_what_is_proved(argmax, randomized, alpha, delta):
    text = str(replace(EXACT, argmax_error=argmax, randomized_error=randomized, alpha_risk=alpha, delta=delta))
    confidence, n, *shares, beta, risk = numbers(text.partition(". This assumes")[0])
    assert confidence <= as_written(1 - delta) + Decimal("1e-15")
    assert n == 100 and beta == Decimal("1.4")
    # Shares of examples are in percent, two that are equal stand once; the mean of the loss is a number.
    bounds = (argmax, alpha) if argmax == randomized else (argmax, randomized, alpha)
    finest = [*[Decimal("1e-3")] * len(shares), Decimal("1e-4")]  # a tenth of a percent, and four decimals
    for printed, bound, step in zip((*(share / 100 for share in shares), risk), bounds, finest, strict=True):
        assert printed >= as_written(bound)
        assert printed - as_written(bound) <= step


@given(SHARES, SHARES)
def test_sets_print_what_is_proved(coverage, delta):
    text = str(ConformalSets((0.5, 0.5), "adaptive", coverage, False, delta, 10, ("all is well",)))
    shown = numbers(text)
    assert shown[0] <= as_written(coverage) + Decimal("1e-15")
    assert shown[1] <= as_written(1 - delta) + Decimal("1e-15")


def test_small_bounds_and_large_confidences_are_not_printed_as_none_and_all():
    right = np.arange(200_000) % 2
    text = str(certify(right, np.eye(2)[right], bounds=["argmax"]))
    assert "at most 0.00% " not in text and "at most 0.0015% of" in text
    assert "With confidence 0.999999 over" in str(certify([0, 1], np.eye(2), delta=1e-6))


def test_no_proved_number_is_printed_but_by_this_module():
    found = []
    rooms = [ROOT / "src" / "mgce", *(LAB / name for name in ("cli", "compare", "engine", "paper", "protocols"))]
    for path in (path for room in rooms for path in room.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                names = {part.attr for part in ast.walk(node.value) if isinstance(part, ast.Attribute)}
                names |= {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
                if names & PROVED:
                    found.append((path.name, node.lineno, ast.unparse(node)))
    assert {(name, shown) for name, _, shown in found} == ALLOWED, found
