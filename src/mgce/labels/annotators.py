"""Estimate the right labels of rows that several annotators labelled, and describe the errors of each annotator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats
from scipy.special import gammaln, softmax

from mgce._arrays import FloatArray, IntArray
from mgce._messages import expected
from mgce.labels.mixture import even_noise


class Estimation(NamedTuple):
    """The settings of expectation maximisation.

    Attributes:
        prior: number of labels added to each class of the pooled matrix, with the mean share of wrong labels. Also the
            number of wrong labels by which one annotator's accuracy is drawn to the pooled one: two say next to
            nothing.
        prior_labels: candidates for the number of labels in each class that the prior of one annotator's matrix counts
            as. The candidate with the largest likelihood is used.
        most_wrong: largest share of wrong labels of one class in the prior of one annotator's matrix.
        pair_prior: number of expected wrong labels by which the copying of one pair is drawn to that of all pairs.
        steps: numbers of steps, before copying is estimated, and after each of two estimates of copying. No probability
            changed by more than 0.01 after 20 steps on CIFAR-10N. An estimate at each step would feed on itself:
            smaller weights leave more labels in doubt, and labels in doubt look like common errors.
        step: factor by which one step may change the sharpness of the classifier.
        sharpness: range of the sharpness. Beyond its ends, the classifier would say nothing, or be certain.
        least: is added to each probability of the classifier, which may be wrong without a warning on one row in 1,000.
    """

    prior: float = 2.0
    prior_labels: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
    most_wrong: float = 0.98
    pair_prior: float = 10.0
    steps: tuple[int, ...] = (20, 10, 10)
    step: float = 1.1
    sharpness: tuple[float, float] = (0.5, 3.0)
    least: float = 1e-3


class Listing(NamedTuple):
    """The settings of what :class:`Annotator` says.

    Attributes:
        mass: posterior probability of the range of an accuracy.
        confused: largest number of pairs of classes that are listed.
        fewest_confused: expected number of labels below which a confusion is not listed: one or two are chance.
        copies: share of common wrong labels from which a pair is listed: unrelated pairs stay below 0.15.
        fewest_errors: expected number of wrong labels of a pair below which nothing is said of copying.
    """

    mass: float = 0.95
    confused: int = 3
    fewest_confused: float = 3.0
    copies: float = 0.3
    fewest_errors: float = 5.0


ESTIMATION = Estimation()
LISTING = Listing()


@dataclass(frozen=True)
class Annotations:
    """Labels of n rows by m annotators, in k classes: one entry for each label.

    Attributes:
        row, annotator, label: indices of row, annotator and class, of equal length, sorted by row.
        shape: n, m and k.
    """

    row: IntArray
    annotator: IntArray
    label: IntArray
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, labels: NDArray[np.integer[Any]], n_classes: int) -> Annotations:
        """Return the entries of a matrix of labels (n, m) in 0..k-1, in which -1 stands for no label."""
        row, annotator = np.nonzero(labels >= 0)
        label = labels[row, annotator].astype(np.int64)
        if label.size and label.max() >= n_classes:
            raise ValueError(expected("labels", f"of -1 and classes below {n_classes}", int(label.max())))
        return cls(row, annotator, label, (*labels.shape, n_classes))

    def votes(self) -> FloatArray:
        """Return the number of labels of each class, shape (n, k)."""
        n, _, k = self.shape
        return np.bincount(self.row * k + self.label, minlength=n * k).reshape(n, k).astype(np.float64)

    def only(self, rows: IntArray) -> Annotations:
        """Return the labels of some rows, numbered in the order of `rows`."""
        place = np.full(self.shape[0], -1)
        place[rows] = np.arange(len(rows))
        kept = np.flatnonzero(place[self.row] >= 0)
        kept = kept[np.argsort(place[self.row[kept]], kind="stable")]
        return Annotations(place[self.row[kept]], self.annotator[kept], self.label[kept], (len(rows), *self.shape[1:]))

    def matrix(self, weight: FloatArray | None = None) -> Any:
        """Return a sparse matrix (n, m k): the weight of each label, in the column of annotator and class."""
        n, m, k = self.shape
        values = np.ones(len(self.row)) if weight is None else weight
        return sparse.csr_array((values, (self.row, self.annotator * k + self.label)), shape=(n, m * k))


@dataclass(frozen=True)
class AnnotatorModel:
    r"""What labels of several annotators say of the right class of each row.

    .. math:: P_{ic} \propto q_{ic}^{a} \prod_{j} T_j[c, y_{ij}]^{w_{ij}}, \qquad
              w_{ij} = \frac{1}{1 + \sum_{l \ne j,\ y_{il} = y_{ij}} \rho_{jl}}

    Attributes:
        probs: P, probabilities of the right class of each row, shape (n, k).
        transitions: T, the probability that each annotator labels class c as l, shape (m, k, k).
        pooled: T of an annotator of whom nothing is known, shape (k, k).
        copying: :math:`\rho`, the share of wrong labels that each pair of annotators has in common beyond chance,
            shape (m, m).
        sharpness: a, the factor of the model's log probabilities.
        weight: w of each label.
        annotations: the labels.
        has_classifier: whether q are the probabilities of a classifier; else they are the class shares.
    """

    probs: FloatArray
    transitions: FloatArray
    pooled: FloatArray
    copying: FloatArray
    sharpness: float
    weight: FloatArray
    annotations: Annotations
    has_classifier: bool


def annotator_model(annotations: Annotations, probs: FloatArray | None = None) -> AnnotatorModel:
    r"""Estimate the right class of each row, with the probabilities of a classifier as its prior.

    Expectation maximisation alternates between P and three estimates. The matrix of an annotator is a mean of the
    counts and of a prior: the matrix that is pooled over all annotators, with as many wrong labels as the annotator
    has. The weight of the prior has the largest likelihood. Each step moves the sharpness a to a larger likelihood.
    Annotators with more equal wrong labels than by chance count less where they agree: two annotators of whom one
    copies the other count about once.

    Args:
        annotations: the labels. A row may be without any label.
        probs: q, shape (n, k), by a classifier that was not trained on the labels of the row. None: the class shares.

    Reference: Dawid and Skene, Maximum likelihood estimation of observer error-rates using the EM algorithm, 1979.

    Example:
        >>> labels = np.array([[0, 0, 1], [1, 1, -1], [0, -1, -1], [1, 1, 0]] * 20)
        >>> found = annotator_model(Annotations.of(labels, 2))
        >>> found.probs[:4].argmax(1)
        array([0, 1, 0, 1])
    """
    n, _, k = annotations.shape
    votes = annotations.votes()
    total = votes.sum(1, keepdims=True)
    if probs is None:
        share = (votes.sum(0) + 1) / (votes.sum() + k)
        log_prior = np.tile(np.log(share), (n, 1))
        posterior = np.where(total > 0, (votes + share) / (total + 1), share)
    else:
        log_prior = np.log(probs + ESTIMATION.least)
        posterior = softmax(log_prior + votes, axis=1)
    weight, sharpness = np.ones(len(annotations.row)), 1.0
    given = annotations.matrix()
    copying = np.zeros((annotations.shape[1],) * 2)
    transitions, pooled = transitions_of(given, posterior, annotations.shape)
    for turn, steps in enumerate(ESTIMATION.steps):
        if turn:
            copying = _copying(annotations, posterior, transitions)
            weight = _weights(annotations, copying)
        weighted = annotations.matrix(weight)
        for _ in range(steps):
            evidence = np.asarray(weighted @ np.log(transitions).transpose(0, 2, 1).reshape(-1, k))
            if probs is None:
                log_prior[:] = np.log((posterior.sum(0) + 1) / (n + k))
            else:
                sharpness = _sharper(log_prior, evidence, total[:, 0] > 0, sharpness)
            posterior = softmax(sharpness * log_prior + evidence, axis=1)
            transitions, pooled = transitions_of(given, posterior, annotations.shape)
    return AnnotatorModel(posterior, transitions, pooled, copying, sharpness, weight, annotations, probs is not None)


def transitions_of(given: Any, posterior: FloatArray, shape: tuple[int, int, int]) -> tuple[FloatArray, FloatArray]:
    """Return each annotator's matrix (m, k, k), shrunk towards the pooled one, and the pooled matrix (k, k).

    Args:
        given: the labels, as :meth:`Annotations.matrix` returns them.
        posterior: probabilities of the right class of each row, shape (n, k).
        shape: n, m and k.
    """
    _, m, k = shape
    counts = np.asarray(given.T @ posterior).reshape(m, k, k).transpose(0, 2, 1)
    pooled = counts.sum(0)
    wrong = min(max(1 - np.trace(pooled) / max(pooled.sum(), 1), 1 / max(pooled.sum(), 2)), 1 - 1 / k)
    pooled = pooled + ESTIMATION.prior * even_noise(k, wrong)
    pooled /= pooled.sum(1, keepdims=True)
    own = _scaled(pooled, counts)
    sizes = counts.sum(2)
    # The logarithm of the probability of the counts, when each row of a matrix is drawn from a Dirichlet distribution.
    gain = [
        (gammaln(counts + s * own) - gammaln(s * own)).sum() - (gammaln(sizes + s) - gammaln(s)).sum()
        for s in ESTIMATION.prior_labels
    ]
    prior = ESTIMATION.prior_labels[int(np.argmax(gain))] * own
    return np.asarray((counts + prior) / (counts + prior).sum(2, keepdims=True)), pooled


def _scaled(pooled: FloatArray, counts: FloatArray) -> FloatArray:
    """Return for each annotator the pooled matrix, its wrong labels scaled to the annotator's number, (m, k, k)."""
    rates = 1 - np.diag(pooled)
    observed = counts.sum((1, 2)) - np.trace(counts, axis1=1, axis2=2)
    factor = (observed + ESTIMATION.prior) / (counts.sum(2) @ rates + ESTIMATION.prior)
    wrong = np.minimum(factor[:, None] * rates, ESTIMATION.most_wrong)
    own = pooled * (wrong / rates)[:, :, None]
    k = np.arange(len(pooled))
    own[:, k, k] = 1 - wrong
    return np.asarray(own)


def _sharper(log_prior: FloatArray, evidence: FloatArray, labelled: NDArray[np.bool_], sharpness: float) -> float:
    """Return the most likely sharpness of three: the current one, one step below and one step above."""
    prior, evidence = log_prior[labelled], np.exp(evidence[labelled] - evidence[labelled].max(1, keepdims=True))

    def likelihood(a: float) -> float:
        return float(np.log((softmax(a * prior, axis=1) * evidence).sum(1) + np.finfo(float).tiny).sum())

    step = ESTIMATION.step
    near = [float(np.clip(sharpness * factor, *ESTIMATION.sharpness)) for factor in (1 / step, 1, step)]
    return max(near, key=likelihood)


def _joint_errors(
    annotations: Annotations, posterior: FloatArray, transitions: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for each two annotators how many equal wrong labels are expected, by chance, and possible; each (m, m)."""
    n, m, k = annotations.shape
    observed, by_chance, most = np.zeros((3, m, m))
    ones = np.ones(len(annotations.row))
    labelled: Any = sparse.csr_array((ones, (annotations.row, annotations.annotator)), shape=(n, m))
    for c in range(k):
        own = annotations.label == c
        said = sparse.csr_array((ones[own], (annotations.row[own], annotations.annotator[own])), shape=(n, m))
        observed += (said.T @ (said * (1 - posterior[:, [c]]))).toarray()
        both = (labelled.T @ (labelled * posterior[:, [c]])).toarray()
        others = np.delete(transitions[:, c], c, axis=1)
        wrong = others.sum(1)
        by_chance += both * (others @ others.T)
        most += both * np.minimum(wrong[:, None], wrong[None])
    for values in (observed, by_chance, most):
        np.fill_diagonal(values, 0)
    return observed, by_chance, most


def _copying(annotations: Annotations, posterior: FloatArray, transitions: FloatArray) -> FloatArray:
    """Return the share of common wrong labels beyond chance of each two annotators, shrunk to that of all pairs."""
    observed, by_chance, most = _joint_errors(annotations, posterior, transitions)
    excess, room = observed - by_chance, np.maximum(most - by_chance, 0)
    all_pairs = float(np.clip(excess.sum() / (room.sum() + ESTIMATION.pair_prior), 0, 1))
    return np.asarray(np.clip((excess + ESTIMATION.pair_prior * all_pairs) / (room + ESTIMATION.pair_prior), 0, 1))


def _weights(annotations: Annotations, copying: FloatArray) -> FloatArray:
    """Return the weight of each label: below 1 if annotators with common errors gave the row the same label."""
    n, m, k = annotations.shape
    copying = copying * (1 - np.eye(m))
    shared = np.zeros(len(annotations.row))
    for c in range(k):
        own = np.flatnonzero(annotations.label == c)
        pairs = (annotations.row[own], annotations.annotator[own])
        said = sparse.csr_array((np.ones(len(own)), pairs), shape=(n, m))
        shared[own] = np.asarray(said @ copying)[pairs]
    return np.asarray(1 / (1 + shared))


CAUTION = (
    "These accuracies and ranges are estimates without a guarantee. In made tables every range missed the truth where "
    "annotators copied one another, or followed a wrong guideline."
)


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

    The range of the accuracy a is Jeffreys' interval for a binomial share, with an effective number of labels. It is
    wrong where the probabilities r of the model are wrong. n labels whose right class is known only with the
    probabilities r count as :math:`n (1 - \overline{r(1-r)} / a(1-a))` labels (the missing information of Louis).

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
        right = model.probs[annotations.row[own], annotations.label[own]]
        ends = estimated_range(right)
        confused = _confused(model, own, classes)
        others = tuple((names[other], float(together[j, other])) for other in np.argsort(-together[j]).tolist())
        others = tuple(pair for pair in others if pair[1] >= LISTING.copies)
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
    tail = (1 - LISTING.mass) / 2
    posterior = stats.beta(mean * known + 0.5, (1 - mean) * known + 0.5)
    return float(posterior.ppf(tail)), float(posterior.ppf(1 - tail))


def _confused(
    model: AnnotatorModel, own: NDArray[np.bool_], classes: NDArray[np.generic]
) -> tuple[tuple[object, object, float], ...]:
    annotations, k = model.annotations, len(classes)
    counts = np.zeros((k, k))
    np.add.at(counts.T, annotations.label[own], model.probs[annotations.row[own]])
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    wrong = np.where((counts >= LISTING.fewest_confused) & ~np.eye(k, dtype=bool), counts, 0)
    most = np.argsort(-wrong, axis=None, kind="stable")[: LISTING.confused]
    pairs = [divmod(int(place), k) for place in most if wrong.flat[place] > 0]
    return tuple((classes[right].item(), classes[given].item(), float(share[right, given])) for right, given in pairs)


def _together(model: AnnotatorModel) -> FloatArray:
    """Return the share of wrong labels that each pair has in common beyond chance; 0 where few labels are wrong."""
    _, _, most = _joint_errors(model.annotations, model.probs, model.transitions)
    return np.asarray(np.where(most >= LISTING.fewest_errors, model.copying, 0) * (1 - np.eye(len(most))))
