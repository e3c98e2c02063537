"""Describe each annotator: estimated accuracy with a range, the classes that are confused, and who errs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mgce._arrays import FloatArray
from mgce.labels.annotators import AnnotatorModel

MASS = 0.95  # of the posterior of an accuracy, within the range that is shown
CAUTION = (
    "These accuracies and ranges are estimates without a guarantee. In made tables every range missed the truth where "
    "annotators copied one another, or followed a wrong guideline."
)
CONFUSED = 3  # pairs of classes that are listed of an annotator
FEWEST_CONFUSED = 3.0  # expected labels below which a confusion is not listed: one or two are chance
COPIES = 0.3  # share of common wrong labels from which a pair is listed: unrelated pairs stay below 0.15
FEWEST_ERRORS = 5.0  # expected wrong labels of a pair below which nothing is said of copying


@dataclass(frozen=True)
class Annotator:
    """What the labels say of one annotator.

    Attributes:
        name: the name of the annotator.
        n_labels: number of labels.
        estimated_accuracy: estimated probability that a label of this annotator is right.
        estimated_range: likely values of the accuracy, if annotators err independently: not a confidence interval.
        confused: pairs of classes and a share: of the rows of the first class, the share labelled as the second.
        together: names of annotators who make the same wrong labels, each with the share of these beyond chance.
    """

    name: str
    n_labels: int
    estimated_accuracy: float
    estimated_range: tuple[float, float]
    confused: tuple[tuple[object, object, float], ...]
    together: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        """Return a sentence or two on the annotator."""
        labels = "1 label" if self.n_labels == 1 else f"{self.n_labels:,} labels"
        ends = " to ".join(f"{end:.1%}" for end in self.estimated_range)
        said = f"{self.name}: {labels}, an estimated {self.estimated_accuracy:.1%} right ({ends})."
        if self.confused:
            pairs = ", ".join(f"{right} as {given} ({share:.0%})" for right, given, share in self.confused)
            said += f" Most frequent wrong labels: {pairs}."
        if self.together:
            names = ", ".join(f"{name} ({share:.0%})" for name, share in self.together)
            said += f" Shares wrong labels beyond chance with {names}."
        return said


def annotator_table(model: AnnotatorModel, names: Sequence[str], classes: NDArray[np.generic]) -> list[Annotator]:
    r"""Return what the labels say of each annotator, in the order of `names`.

    The range of the accuracy a is Jeffreys' interval for a binomial share, of as many labels as are worth knowing. It
    takes the probabilities r of the model for right, and is wrong where they are. n labels whose right class is known
    only with the probabilities r are worth :math:`n (1 - \overline{r(1-r)} / a(1-a))`
    labels (the missing information of Louis).

    Args:
        model: the estimates.
        names: names of the annotators.
        classes: the classes by index.

    Reference: Louis, Finding the observed information matrix when using the EM algorithm, 1982.
    """
    annotations = model.annotations
    n_labels = np.bincount(annotations.annotator, minlength=len(names))
    together = _together(model)
    found = []
    for j, name in enumerate(names):
        own = annotations.annotator == j
        right = model.label_right[own]
        ends = estimated_range(right)
        confused = _confused(model, own, classes)
        others = tuple((names[other], float(together[j, other])) for other in np.argsort(-together[j]).tolist())
        others = tuple(pair for pair in others if pair[1] >= COPIES)
        mean = float(right.mean()) if right.size else float("nan")
        found.append(Annotator(str(name), int(n_labels[j]), mean, ends, confused, others))
    return found


def estimated_range(right: FloatArray) -> tuple[float, float]:
    """Return likely values of an accuracy, from the probabilities that each of n labels is right, shape (n,).

    Example:
        >>> lower, upper = estimated_range(np.repeat([1.0, 0.0], [90, 10]))
        >>> round(lower, 3), round(upper, 3)
        (0.83, 0.947)
    """
    if not right.size:
        return 0.0, 1.0
    mean = float(right.mean())
    spread = max(mean * (1 - mean), 1e-12)
    known = len(right) * max(1 - float((right * (1 - right)).mean()) / spread, 1 / len(right))
    tail = (1 - MASS) / 2
    posterior = stats.beta(mean * known + 0.5, (1 - mean) * known + 0.5)
    return float(posterior.ppf(tail)), float(posterior.ppf(1 - tail))


def _confused(
    model: AnnotatorModel, own: NDArray[np.bool_], classes: NDArray[np.generic]
) -> tuple[tuple[object, object, float], ...]:
    annotations, k = model.annotations, len(classes)
    counts = np.zeros((k, k))
    np.add.at(counts.T, annotations.label[own], model.probs[annotations.row[own]])
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    wrong = np.where((counts >= FEWEST_CONFUSED) & ~np.eye(k, dtype=bool), counts, 0)
    most = np.argsort(-wrong, axis=None, kind="stable")[:CONFUSED]
    pairs = [divmod(int(place), k) for place in most if wrong.flat[place] > 0]
    return tuple((classes[right].item(), classes[given].item(), float(share[right, given])) for right, given in pairs)


def _together(model: AnnotatorModel) -> FloatArray:
    """Return the share of wrong labels that pairs have in common beyond chance; 0 where few labels are wrong."""
    _, _, most = model.joint_errors()
    return np.asarray(np.where(most >= FEWEST_ERRORS, model.copying, 0) * (1 - np.eye(len(most))))
