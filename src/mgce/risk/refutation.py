r"""A test of what is assumed of wrong labels, by the labels of the examples on which the classifier is most sure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mgce._arrays import FloatArray
from mgce._rounding import rounded_up
from mgce.risk.sample import Sample

# Shares of the examples, the surest first, whose agreements are counted: a few rows that people hardly get wrong, or
# many that they get wrong a little less often. Chosen by one trial on labels of CIFAR-10N.
SURE = (0.05, 0.1, 0.2, 0.4, 0.7)
SAME = 1e-12  # probabilities that differ by no more are tied, as in `noise_rate`
TEST_SHARE = 1 / 50  # of delta, for the test: bounds become about half a per cent wider


@dataclass(frozen=True)
class Finding:
    """What a test of the assumed noise found."""

    tested: bool  # whether any labels could have refuted it
    refuted: str | None = None  # completes "the labels refute"


def examine_noise(sample: Sample, most_agreement: FloatArray | None, delta: float) -> Finding:
    r"""Test that labels are wrong whatever the example, by how often the surest predictions agree with them.

    .. math:: P(\text{given label} = j \mid x) = \sum_y P(y \mid x)\, T_{yj} \le \max_y T_{yj} = c_j

    for every example x, if the right label alone determines the noise. Among m examples that are chosen by the
    probabilities alone, the agreements with predictions j_i are then independent, each with probability `c_{j_i}` at
    most. So their number A has, with c the mean of these,

    .. math:: P(A \ge a) \le P\big(\mathrm{Bin}(m, c) \ge a\big), \qquad a \ge m c + 1

    (Hoeffding). Refuted is what the labels of any of five parts refute, each at a fifth of delta. People err less where
    an example is easy: there the classifier agrees with more labels than any noise that ignores the example allows.

    Args:
        sample: independent examples.
        most_agreement: c, shape (k,); None if nothing can be tested.
        delta: probability with which noise as assumed is refuted, at most.

    Returns:
        What was found.

    Reference: Hoeffding (1956), Annals of Mathematical Statistics 27, theorem 5.
    """
    from scipy import special

    if most_agreement is None or sample.clusters is not None:
        return Finding(False)
    predicted, top = sample.probs.argmax(1), sample.probs.max(1)
    ordered, tested = np.sort(top), False
    for share in SURE:
        sure = top >= ordered[-math.ceil(share * top.size)] - SAME
        m, c = int(sure.sum()), float(np.minimum(1, most_agreement)[predicted[sure]].mean())
        tested = tested or c**m <= delta / len(SURE)
        agree = int((sample.labels[sure] == predicted[sure]).sum())
        if agree >= m * c + 1 and float(special.bdtrc(agree - 1, m, c)) <= delta / len(SURE):
            return Finding(
                True,
                "that labels are wrong as assumed whatever the example: the classifier agrees with "
                f"{agree:,} of {m:,} labels where it is most sure, and a share of {rounded_up(c - SAME)} at most is "
                "expected",
            )
    return Finding(tested)
