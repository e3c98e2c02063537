"""Define the options that describe wrong labels, shared by the commands that certify a model."""

from __future__ import annotations

import re

from mgce._validation import expected, nearest

NOISE_RATE = (
    "Share of labels that are wrong: a lower bound with --noise-type symmetric, an upper bound with --noise-type any. "
    "auto: estimated from the rows where the model is most sure, on which it is assumed to be right."
)
NOISE_TYPE = (
    "symmetric: a wrong label is any of the other classes, with equal probability. any: nothing is assumed about which "
    "labels are wrong."
)


def parse_rate(text: str) -> float | str:
    """Parse a noise rate: return a number, or "auto"."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        percent = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*%\s*", text)
        question = f" Did you mean {float(percent[1]) / 100:g}?" if percent else nearest(text, ["auto"])
        raise ValueError(expected("noise_rate", "a number or 'auto'", text) + question) from None
