"""Prediction sets: the classes whose score is below a threshold."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce import _validation
from mgce.linear.arrays import FloatArray
from mgce.risk.sample import checked_probs

SCORES = ("least_ambiguous", "adaptive")


@dataclass(frozen=True)
class ConformalSets:
    """Thresholds on the scores of the classes; the set of an example is every class within its threshold."""

    thresholds: tuple[float, ...]  # (k,); infinite where a class is in every set
    score: str
    coverage: float  # probability with which a set holds the right class, at least
    per_class: bool  # whether that is so given each right class, or on average
    confidence: float | None  # that of the coverage over calibration samples; None if it is an average over them
    n: int  # calibration examples
    assumptions: tuple[str, ...]  # clauses that complete "This assumes that"

    def predict(self, probs: Any) -> NDArray[np.bool_]:
        """Give the sets of examples from their probabilities (n, k), as truth values (n, k).

        A class of the largest probability is always in: a set is never empty.
        """
        h = checked_probs(probs)
        if h.shape[1] != len(self.thresholds):
            raise ValueError(_validation.expected("probs", f"of {len(self.thresholds)} classes", h.shape[1]))
        sets = conformal_scores(h, self.score) <= np.array(self.thresholds)
        sets[np.arange(len(h)), h.argmax(1)] = True
        return np.asarray(sets)

    def __str__(self) -> str:
        """Say what is proved, and what it assumes."""
        where = "whichever it is" if self.per_class else "on average over examples"
        how = (
            "and calibration samples"
            if self.confidence is None
            else f"with confidence {self.confidence:.4g} over the calibration sample"
        )
        return (
            f"A set holds the right class with probability at least {self.coverage:.4g} {where}, {how} "
            f"of n = {self.n}. This assumes that {'; '.join(self.assumptions)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain values; an infinite threshold is None."""
        thresholds = [None if np.isinf(t) else t for t in self.thresholds]
        return {**asdict(self), "thresholds": thresholds, "assumptions": list(self.assumptions)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ConformalSets:
        """Give the sets of what :meth:`to_dict` gave."""
        thresholds = tuple(np.inf if t is None else float(t) for t in fields["thresholds"])
        return cls(**{**fields, "thresholds": thresholds, "assumptions": tuple(fields["assumptions"])})


def conformal_scores(probs: Any, score: str = "least_ambiguous") -> FloatArray:
    r"""Give how little every class suits an example, in [0, 1].

    .. math:: s_y = 1 - p_y \ \text{(least ambiguous)}, \qquad
        s_y = \sum_{j: p_j > p_y} p_j \ \text{(adaptive)}

    The least ambiguous sets are the smallest on average; the adaptive ones are larger for hard examples and smaller for
    easy ones, so that both are covered alike. The published adaptive score counts p_y itself, or a random part of it:
    the score of every sure and right answer is then 1, that of all classes with probability zero.

    Classes of one score are in a set together. MGCE's h and p are zero for many classes; where more than alpha of the
    right classes are among those, sets have to hold them all. The softmax of the margins orders them.

    Args:
        probs: probabilities, shape (n, k), array or tensor.
        score: `"least_ambiguous"` or `"adaptive"`.

    Returns:
        Scores, shape (n, k).

    Raises:
        ValueError: if `probs` are no probabilities, or there is no such score.

    Example:
        >>> conformal_scores([[0.5, 0.3, 0.2]], "adaptive").round(3).tolist()
        [[0.0, 0.5, 0.8]]

    Reference: Sadinle, Lei and Wasserman (2019), JASA 114; Romano, Sesia and Candes (2020), NeurIPS, with 0 in
    place of the random part.
    """
    _validation.check_choice("score", score, SCORES)
    p = checked_probs(probs)
    if score == "least_ambiguous":
        return np.asarray(1 - p)
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, 1)
    above = np.zeros_like(p)
    above[:, 1:] = ranked.cumsum(1)[:, :-1]
    # Equal probabilities share the least of their sums.
    for j in range(1, p.shape[1]):
        tied = ranked[:, j] == ranked[:, j - 1]
        above[tied, j] = above[tied, j - 1]
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, np.minimum(above, 1.0), 1)
    return scores
