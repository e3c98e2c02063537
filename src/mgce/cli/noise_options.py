"""What the commands that certify ask about wrong labels."""

from __future__ import annotations

from mgce._validation import expected

NOISE_RATE = (
    "Share of labels that are wrong: a lower bound of it for --noise symmetric, an upper one for any. auto: estimated "
    "where the model is most sure, which is taken to be right there."
)
NOISE = "symmetric: a wrong label is any of the others, all alike. any: nothing is assumed of which labels are wrong."


def parse_rate(text: str) -> float | str:
    """Read a noise rate: a number, or "auto"."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(expected("noise_rate", "a number or 'auto'", text)) from None
