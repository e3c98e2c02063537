r"""Test an assumption on wrong labels by the labels of the examples on which the classifier is most confident."""

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
    """The result of a test of an assumption on wrong labels."""

    tested: bool  # whether any labels could have refuted it
    refuted: str | None = None  # completes "the labels refute"


def examine_noise(sample: Sample, most_agreement: FloatArray | None, delta: float) -> Finding:
    r"""Test whether noise depends on the class alone, by how often labels agree with the most confident predictions.

    .. math:: P(\text{given label} = j \mid x) = \sum_y P(y \mid x)\, T_{yj} \le \max_y T_{yj} = c_j

    for every example x, if the right label y alone determines the noise: T_yj is the probability that y becomes j.
    Among m examples that are chosen by the predicted probabilities alone, the agreements with predictions j_i are then
    independent, each with probability `c_{j_i}` at most. So the number A of agreements has, with c the mean of the
    `c_{j_i}`,

    .. math:: P(A \ge a) \le P\big(\mathrm{Bin}(m, c) \ge a\big), \qquad a \ge m c + 1

    (Hoeffding). The assumption is refuted if one of five parts of the examples refutes it, each tested with a fifth of
    delta. People err less on easy examples. There the classifier agrees with more labels than noise that depends on the
    class alone allows.

    Args:
        sample: independent examples.
        most_agreement: c, shape (k,) for k classes; None if nothing can be tested.
        delta: probability with which a true assumption may be refuted.

    Returns:
        The result.

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
