"""Format proved bounds as text, rounded such that the printed number is still proved.

Upper bounds are rounded up and lower bounds down, so intervals grow. A confidence and a coverage are rounded down. A
condition is rounded the other way: "if the rate is r or more" needs r rounded up. Estimates are rounded to the nearest,
with format specifications such as `.4f` and `.1%`; use these for estimates only. Numbers in JSON are not rounded.
"""

from __future__ import annotations

from decimal import MAX_PREC, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

DIGITS = 2  # significant digits kept of a number near 0, or of 1 minus a number near 1: 1.5e-5 is not 0.0000
RATE = 6  # decimals of a rate: more than users state
LONGEST = 8  # a number near 0 that needs more decimals than this is shown with an exponent, to stay readable
FEW = 100  # rows below which a share is known to ten percentage points at best
EXACT = Context(prec=MAX_PREC)  # sums and products of float64 have at most some thousand digits: none is rounded


def rounded_up(value: float, decimals: int = 4) -> str:
    """Format an upper bound: the least decimal number not below it, with more decimals near 0 and 1.

    >>> rounded_up(0.12341), rounded_up(0.0), rounded_up(1.51e-5), rounded_up(0.999951), rounded_up(1.2)
    ('0.1235', '0.0000', '0.000016', '0.999951', '1.2000')
    """
    return _shown(Decimal(repr(float(value))), decimals, ROUND_CEILING)


def rounded_down(value: float, decimals: int = 4) -> str:
    """Format a lower bound: the largest decimal number not above it, with more decimals near 0 and 1.

    >>> rounded_down(0.12349), rounded_down(1.59e-12)
    ('0.1234', '1.5e-12')
    """
    return _shown(Decimal(repr(float(value))), decimals, ROUND_FLOOR)


def percent_up(share: float) -> str:
    """Format an upper bound in percent.

    >>> percent_up(0.2651), percent_up(1.51e-5)
    ('26.6%', '0.0016%')
    """
    return _percent(share, ROUND_CEILING)


def percent_down(share: float) -> str:
    """Format a lower bound in percent.

    >>> percent_down(0.2659)
    '26.5%'
    """
    return _percent(share, ROUND_FLOOR)


def share_text(part: int, n: int, what: str = "") -> str:
    """Format a count and its share of n; of few, the share is rough and has no decimals, and none or all have none.

    >>> share_text(21, 28), share_text(28, 28), share_text(257, 269, "rows")
    ('21 of 28 (roughly 75%)', '28 of 28', '257 of 269 rows (95.5%)')
    """
    share = f" (roughly {part / n:.0%})" if 0 < part < n else ""
    return f"{part:,} of {n:,}{f' {what}' if what else ''}{share if n < FEW else f' ({part / n:.1%})'}"


def confidence_text(confidence: float) -> str:
    """Format a confidence or coverage (1 minus a stated probability) without trailing zeros; "1" only for exactly 1.

    >>> confidence_text(1 - 0.05), confidence_text(1 - 0.07), confidence_text(1 - 1e-6)
    ('0.95', '0.93', '0.999999')
    """
    # 1 - 0.07 is 0.9299999999999999: the subtraction loses the sixteenth decimal.
    nearest = round(float(confidence), 15)
    return _without_zeros(rounded_down(confidence if nearest == 1 else nearest))


def rate_up(rate: float) -> str:
    """Format the smallest rate r in a condition "if r or more are wrong"; round up, but keep up to six decimals.

    >>> rate_up(0.2), rate_up(0.17654321)
    ('0.2', '0.176544')
    """
    return _without_zeros(rounded_up(rate, RATE))


def rate_down(rate: float) -> str:
    """Format the largest rate r in a condition "if at most r are wrong"; round down, but keep up to six decimals.

    >>> rate_down(0.0), rate_down(0.17654321)
    ('0', '0.176543')
    """
    return _without_zeros(rounded_down(rate, RATE))


def _without_zeros(shown: str) -> str:
    return shown.rstrip("0").rstrip(".") if "." in shown and "e" not in shown else shown


def _percent(share: float, rounding: str) -> str:
    percent = EXACT.multiply(Decimal(repr(float(share))), Decimal(100))
    return f"{_shown(percent, 1, rounding, one=Decimal(100))}%"


def _shown(number: Decimal, decimals: int, rounding: str, one: Decimal = Decimal(1)) -> str:
    """Format a number with enough decimals to show `DIGITS` digits of the number and of its distance to `one`."""
    lacking = EXACT.subtract(one, number)
    for rest in (number, lacking if 0 < lacking < one else Decimal(0)):
        if rest:
            decimals = max(decimals, DIGITS - 1 - rest.adjusted())
    rounded = number.quantize(Decimal(1).scaleb(-decimals), rounding, EXACT)
    if decimals > LONGEST and abs(number) < one / 2:
        return f"{rounded:.{DIGITS - 1}e}".replace("e-0", "e-")
    return f"{rounded:f}"
