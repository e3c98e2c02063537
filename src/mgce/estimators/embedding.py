r"""Define a classifier of embeddings with wrong labels: a mean of heads with robust losses and a noise matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from mgce._limits import CHUNK_ROWS
from mgce._threads import threads_for
from mgce.estimators.base import FloatArray, IntArray, RobustClassifier, check_single
from mgce.estimators.directions import (
    Coordinates,
    Directions,
    MeanSoftmax,
    SingleArray,
    coordinates,
    fit_head,
    fitted_directions,
    margins,
    softmax,
)
from mgce.estimators.parameters import Interval, checked
from mgce.functional import forward_corrected_logits, gce_loss
from mgce.labels.choosing import most_predicted
from mgce.labels.mixture import fitted_transition, right_class
from mgce.labels.out_of_fold import folds_of, out_of_fold
from mgce.losses.learned_forward import LEARNING


class Settings(NamedTuple):
    """The settings of the heads, and of the path of penalties that are tried for a head.

    Attributes:
        l2s: penalties of the path. With the first, all rows have nearly the same margins. The last hardly matters: rows
            have length 1.
        patience: number of penalties in a row without a new best accuracy that ends a path.
        robust_beta: beta of GCE, at which the loss gives up rows that a head cannot fit.
        weaker: divides the penalty for corrected labels, which need less penalty: 1, 2 and 4 differ by .2 points.
        rounds: number of times that the noise matrix is estimated anew, from the last head. On asymmetric noise the
            first two gain 2.8 and .2 points, the next two .2 in all.
    """

    l2s: tuple[float, ...] = tuple(np.geomspace(4e-4, 1e-6, 8).round(9).tolist())
    patience: int = 2
    robust_beta: float = 1.2
    weaker: float = 4
    rounds: int = 3


SETTINGS = Settings()


def folds(target: IntArray, cv: int, random_state: np.random.RandomState) -> IntArray:
    """Return the fold of each row, in 0..cv-1: the rows of each class are dealt out in random order, in turn."""
    fold = np.empty(len(target), np.int64)
    order = random_state.permutation(len(target))
    order = order[np.argsort(target[order], kind="stable")]
    fold[order] = np.arange(len(target)) % cv
    return fold


class Search:
    """Fits a head to all rows, and to all folds but one, along a path of penalties.

    Attributes:
        space: the training rows in coordinates.
        results: the columns of `cv_results_`.
        known: by the name of a head, the penalty that another model has chosen: no other penalty is tried for the head.
    """

    def __init__(self, space: Coordinates, target: IntArray, weight: SingleArray, fold: IntArray, k: int) -> None:
        self.space, self._target, self._weight, self._fold, self._k = space, target, weight, fold, k
        self.known: dict[str, float] = {}
        self.results: dict[str, list[Any]] = {"head": [], "l2": [], "accuracy": []}
        self._folds = [(part, others) for part, others in folds_of(fold) if part.size]

    def zeros(self) -> list[SingleArray]:
        """Return zero coefficients as starts: one for each fold, whose head learns from all other folds."""
        return [np.zeros((len(self.space.spread) + 1, self._k), np.float32) for _ in self._folds]

    def choose(
        self,
        name: str,
        make: Callable[[IntArray], Callable[[Tensor], Tensor]],
        starts: list[SingleArray],
        penalties: Sequence[float],
        noisy: NDArray[np.float64] | None = None,
    ) -> tuple[float, FloatArray, list[SingleArray]]:
        """Choose the penalty by accuracy on noisy left-out labels; return it, its probabilities and the folds' heads.

        No fit starts from the head of another penalty. With a large penalty, a head with a loss that is not convex may
        never predict a class, and fits that start from it stay so: on CIFAR-10 two classes were never predicted, at the
        best accuracy on noisy folds.

        Args:
            name: name of the head in the results.
            make: from row numbers to the loss of the logits of these rows.
            starts: coefficients to start from, for each fold.
            penalties: the penalties to try, the largest first.
            noisy: the noise matrix that turns probabilities into those of noisy labels; None for none.
        """

        def tried(l2: float) -> tuple[float, tuple[float, FloatArray, list[SingleArray]]]:
            probs, heads = self.out_of_fold(make, l2, starts)
            predicted = (probs if noisy is None else probs @ noisy).argmax(1)
            accuracy = float(np.average(predicted == self._target, weights=self._weight))
            for column, value in zip(self.results.values(), (name, l2, accuracy), strict=True):
                column.append(value)
            return accuracy, (l2, probs, heads)

        return most_predicted(map(tried, [self.known[name]] if name in self.known else penalties), SETTINGS.patience)

    def out_of_fold(
        self, make: Callable[[IntArray], Callable[[Tensor], Tensor]], l2: float, starts: list[SingleArray]
    ) -> tuple[FloatArray, list[SingleArray]]:
        """Return the probabilities of each row by a head that was fitted without its fold, and these heads."""
        heads: list[SingleArray] = []

        def predicted(part: IntArray, others: IntArray) -> FloatArray:
            heads.append(self.fit(make(part), l2, starts[len(heads)], part))
            return softmax(margins(self.space.rows[others], heads[-1]))

        return out_of_fold(predicted, self._folds, (len(self._target), self._k), unseen=1 / self._k), heads

    def transition(self, probs: FloatArray) -> FloatArray:
        """Return the noise matrix under which the noisy labels are most probable."""
        return fitted_transition(probs, self._target, self._weight)

    def likelihood(self, probs: FloatArray, noise: FloatArray) -> float:
        """Return the mean log likelihood of the noisy labels, given probabilities of right classes and T, `noise`."""
        labels = np.einsum("ij,ij->i", probs, noise[:, self._target].T)
        return float(np.average(np.log(labels + np.finfo(np.float64).tiny), weights=self._weight))

    def fit(
        self, loss: Callable[[Tensor], Tensor], l2: float, start: SingleArray, part: IntArray | None = None
    ) -> SingleArray:
        """Return the head that is fitted to the rows `part`, or to all rows."""
        rows, weight = self.space.rows, self._weight
        if part is not None:
            rows, weight = rows[part], weight[part]
        return fit_head(rows, self.space.spread, loss, weight, l2, start)


Heads = dict[str, tuple[float, SingleArray]]  # penalty, and W and b, by the name of the head


def fitted_heads(search: Search, target: IntArray) -> tuple[Heads, FloatArray, FloatArray]:
    """Return each head with its penalty by name, the probabilities out of fold, and the noise matrix."""
    labels = torch.from_numpy(target)
    every = np.arange(len(target))

    def gce(wanted: Tensor, beta: float) -> Callable[[IntArray], Callable[[Tensor], Tensor]]:
        return lambda part: lambda logits: gce_loss(logits, wanted[torch.from_numpy(part)], reduction="none", beta=beta)

    def forward(noise: FloatArray) -> Callable[[IntArray], Callable[[Tensor], Tensor]]:
        transition = torch.from_numpy(noise.astype(np.float32))
        loss = gce(labels, LEARNING.beta)
        return lambda part: lambda logits: loss(part)(forward_corrected_logits(logits, transition))

    l2, _, starts = search.choose("logistic", gce(labels, np.inf), search.zeros(), SETTINGS.l2s)
    logistic = search.fit(gce(labels, np.inf)(every), l2, search.zeros()[0])
    robust_l2, robust_probs, _ = search.choose("robust", gce(labels, SETTINGS.robust_beta), starts, SETTINGS.l2s)
    noise = search.transition(robust_probs)
    near = SETTINGS.l2s[max(0, SETTINGS.l2s.index(robust_l2) - 1) : SETTINGS.l2s.index(robust_l2) + 2]
    forward_l2, forward_probs, _ = search.choose("forward", forward(noise), starts, near, noise)
    heads: Heads = {}
    if search.likelihood(forward_probs, noise) > search.likelihood(robust_probs, noise):
        noise, probs = _refined(
            search, noise, forward_probs, lambda T: search.out_of_fold(forward(T), forward_l2, starts)[0]
        )
        oof, best_l2 = probs, forward_l2
    else:
        probs, oof, best_l2 = robust_probs, (robust_probs + forward_probs) / 2, robust_l2
        heads["robust"] = robust_l2, search.fit(gce(labels, SETTINGS.robust_beta)(every), robust_l2, logistic)
    right = torch.from_numpy(right_class(probs, target, noise).astype(np.float32))
    weak_l2 = best_l2 / SETTINGS.weaker
    heads |= {
        "forward": (forward_l2, search.fit(forward(noise)(every), forward_l2, logistic)),
        "corrected": (best_l2, search.fit(gce(right, np.inf)(every), best_l2, logistic)),
        "corrected_robust": (weak_l2, search.fit(gce(right, SETTINGS.robust_beta)(every), weak_l2, logistic)),
    }
    return heads, oof, noise


def _refined(
    search: Search, noise: FloatArray, probs: FloatArray, refit: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Estimate T from probabilities, and probabilities with T, in turn while the likelihood rises; return both.

    Args:
        search: holds the noisy labels.
        noise: the first T, the noise matrix.
        probs: probabilities out of fold, by heads whose loss contains this T.
        refit: from a noise matrix to probabilities out of fold.
    """
    value = search.likelihood(probs, noise)
    for _ in range(SETTINGS.rounds):
        next_noise = search.transition(probs)
        next_probs = refit(next_noise)
        next_value = search.likelihood(next_probs, next_noise)
        if next_value <= value:
            break
        noise, probs, value = next_noise, next_probs, next_value
    return noise, probs


class MGCEEmbeddingClassifier(RobustClassifier):
    r"""Average linear heads on embeddings whose labels are partly wrong; nothing has to be known of the noise.

    .. math:: p(x) = \frac{1}{M} \sum_{m=1}^{M} \mathrm{softmax}(W_m z(x) + b_m)

    z(x) is the direction of the centred embedding; features that are never negative are replaced by their square roots
    first. Each head minimises a mean loss with an L2 penalty:

    - `robust`: generalised cross-entropy (:func:`mgce.functional.gce_loss`) at beta = 1.2, whose loss of a wrong label
      is bounded;
    - `forward`: generalised cross-entropy at beta = 3 of :math:`p\,T`, with T the noise matrix;
    - `corrected`: cross-entropy with the probabilities of the right classes instead of labels;
    - `corrected_robust`: the same with generalised cross-entropy, and a quarter of the penalty.

    The first two have their penalties chosen by accuracy on noisy left-out labels. All heads start at a cross-entropy
    head, `logistic`, whose penalty is chosen in the same way. T is estimated from out-of-fold predictions of `robust`.

    The probabilities of `robust` and of `forward`, times T, each give the noisy left-out labels a likelihood. The head
    with the larger likelihood corrects the labels, and `corrected` has its penalty. If that head is `forward`, T and
    `forward` are fitted anew to each other while the likelihood rises, and `robust` is left out of the mean.

    Rows and intermediate results are held in float32: fitting needs about 3 n d + 2 d^2 + 10 n k numbers of 4 bytes
    besides X, or n^2 for d^2 if n < d. One million rows of 1,280 features and 10 classes take some 16 GB.

    Args:
        cv: number of folds, at least 2.
        random_state: seed of the folds.

    Attributes:
        classes_: labels, shape (k,).
        beta_: inf, as the margins are logarithms of probabilities.
        head_: the L2 penalty of each head that is averaged, by its name.
        cv_results_: arrays `head`, `l2` and `accuracy`: the share of noisy left-out labels that was predicted.
        noise_matrix_: T, shape (k, k): the estimated probability that class i is labelled j.
        oof_proba_: out-of-fold probabilities of each training row, shape (n, k): the mean of those by `robust` and
            `forward`, or those by `forward` if `robust` is left out. They are not saved to files.
        coefs_, intercepts_: W, shape (M, k, d), and b, shape (M, k), of the heads in the order of `head_`.
        rooted_, means_, scales_, center_: the map from x to z, see :class:`mgce.estimators.directions.Directions`.
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> wrong = np.random.default_rng(0).random(len(y)) < 0.4
        >>> noisy = np.where(wrong, (y + 1) % 10, y)  # 40 % of the labels are those of the next digit
        >>> clf = MGCEEmbeddingClassifier(random_state=0).fit(X[:1200], noisy[:1200])
        >>> clf.score(X[1200:], y[1200:]) > 0.85
        True

    Reference: Zhang and Sabuncu, Generalized cross entropy loss, 2018; Patrini et al., Making deep neural networks
    robust to label noise: a loss correction approach, 2017.
    """

    _of_training = ("oof_proba_",)
    _domains: ClassVar[dict[str, Any]] = {
        "cv": [Interval(Integral, 2)],
        "random_state": ["random_state"],
    }

    def __init__(self, *, cv: int = 3, random_state: Any = None) -> None:
        self.cv = cv
        self.random_state = random_state

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEEmbeddingClassifier:
        """Choose and fit the heads.

        Args:
            X: embeddings, shape (n, d), in the range of float32.
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: not negative, shape (n,); rows of weight 0 are left out.

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described.
        """
        X, index, weight, order = self._sorted_training(X, y, sample_weight)
        check_single(X)
        kept = np.flatnonzero(weight > 0)
        rows, target = np.ascontiguousarray(X[kept], dtype=np.float32), index[kept]
        single = (weight[kept] / weight[kept].mean()).astype(np.float32)
        with threads_for(4.0 * rows.size * self.classes_.size):
            follows = self.__dict__.pop("follows_", None)  # what :func:`mgce.estimators.merged.for_chunk` has set
            directions, z = fitted_directions(rows, single) if follows is None else follows._directed(rows)
            space = coordinates(z, single)
            del rows, z  # of them the search needs nothing, and it takes the most time
            fold = folds(target, self.cv, check_random_state(self.random_state))
            search = Search(space, target, single, fold, self.classes_.size)
            search.known = {} if follows is None else follows._penalties()
            oof = self._searched(search, directions, target)
        self.oof_proba_ = np.full((len(index), self.classes_.size), np.nan)
        self.oof_proba_[order[kept]] = oof
        return self

    def _searched(self, search: Search, directions: Directions, target: IntArray) -> FloatArray:
        """Choose and fit the heads, and set all attributes, with `directions` among them; return `oof_proba_`."""
        heads, oof, self.noise_matrix_ = fitted_heads(search, target)
        self.beta_ = float("inf")
        self.head_ = {name: l2 for name, (l2, _) in heads.items()}
        self.cv_results_ = {name: np.array(values) for name, values in search.results.items()}
        solved = np.stack([head for _, head in heads.values()])  # (M, r + 1, k)
        self.coefs_ = np.stack([(search.space.axes @ head[:-1]).T for head in solved])
        self.intercepts_ = np.ascontiguousarray(solved[:, -1])
        self.rooted_ = directions.rooted
        for name in ("means", "scales", "center"):
            setattr(self, f"{name}_", getattr(directions, name).numpy().astype(np.float32))
        return oof

    def _penalties(self) -> dict[str, float]:
        """Return by the name of each head the penalty with the best accuracy in `cv_results_`."""
        head, l2, accuracy = (self.cv_results_[name] for name in ("head", "l2", "accuracy"))
        return {str(name): float(l2[head == name][accuracy[head == name].argmax()]) for name in np.unique(head)}

    def _directions(self) -> Directions:
        return Directions(self.rooted_, self.means_, self.scales_, self.center_)

    def _directed(self, rows: SingleArray) -> tuple[Directions, SingleArray]:
        directions, z = self._directions(), np.empty_like(rows)
        for first in range(0, len(rows), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            z[part] = directions(torch.tensor(rows[part], dtype=torch.float64)).numpy()
        return directions, z

    def _margin_modules(self) -> list[nn.Module]:
        return [self._directions(), MeanSoftmax(self.coefs_, self.intercepts_)]

    def _margins(self, X: Any) -> NDArray[np.floating[Any]]:
        module = nn.Sequential(*self._margin_modules())
        parts = [X[first : first + CHUNK_ROWS] for first in range(0, max(1, len(X)), CHUNK_ROWS)]
        with torch.no_grad():
            return np.concatenate([module(torch.tensor(part, dtype=torch.float64)).numpy() for part in parts])
