"""Independent truth: the root by bisection in 50-digit arithmetic, and what follows from it."""

import math

import mpmath

mpmath.mp.dps = 50


def normalizer(logits, beta):
    """Solve sum_y ((f_y + phi)/beta + 1)_+^beta = 1 for phi in mpmath; -inf is a class that is not there."""
    f = [mpmath.mpf(v) for v in logits if v != -math.inf]
    if math.isinf(beta):
        return -mpmath.log(mpmath.fsum(mpmath.exp(v) for v in f))
    beta = mpmath.mpf(beta)

    def excess(phi):
        return mpmath.fsum(max(0, (v + phi) / beta + 1) ** beta for v in f) - 1

    low, high = -max(f) + beta * (mpmath.mpf(len(f)) ** (-1 / beta) - 1), -max(f)
    for _ in range(170):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return (low + high) / 2


def probabilities(logits, beta):
    """Return (h, p) of a row, from the equation, in mpmath."""
    phi = normalizer(logits, beta)
    if math.isinf(beta):
        h = [mpmath.exp(v + phi) if v != -math.inf else mpmath.mpf(0) for v in logits]
        return h, h
    v = [max(mpmath.mpf(0), (f + phi) / mpmath.mpf(beta) + 1) if f != -math.inf else mpmath.mpf(0) for f in logits]
    h = [u ** mpmath.mpf(beta) for u in v]
    w = [u ** (mpmath.mpf(beta) - 1) if u > 0 else mpmath.mpf(0) for u in v]
    return h, [u / mpmath.fsum(w) for u in w]
