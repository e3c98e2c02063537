r"""Compute calibration errors and the reliability curve of predicted probabilities.

Bin b of B contains the confidences c with b/B <= c < (b+1)/B. The last bin also contains 1. So confidences of exactly
0 or 1, which MGCE often predicts, are counted. Confidences and edges are compared in float64. Example: 0.6 in float64
equals the edge 3/5 and is in the bin above it, while 0.7 in float32 is 0.69999999 and lies below 7/10.

A *confidence* is the predicted probability of a class. Its *hit* is 1 if the class is the label, else 0. Both have the
shape (N,) for the top label, the most probable class of each sample, and (k, N) for all classes. The classes in
`streaming` take the same steps: check the inputs, select probabilities, sum over bins, compute the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mgce._messages import check_count, expected
from mgce._validation import check_labels, check_probs, has_float64


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Accuracy and mean confidence of the top label in B bins; both are NaN in an empty bin.

    Args:
        confidence: mean top-label confidence of each bin, float64, shape (B,).
        accuracy: fraction of right top labels in each bin, float64, shape (B,).
        count: number of samples in each bin, int64, shape (B,).
        edges: edges of the bins from 0 to 1, float64, shape (B + 1,).
    """

    confidence: Tensor
    accuracy: Tensor
    count: Tensor
    edges: Tensor

    def plot(self, ax: Any = None) -> Any:
        """Draw the reliability diagram: a bar for the accuracy of each bin, and the diagonal of perfect calibration.

        The more samples a bin has, the darker its bar. A dot marks the mean confidence of the bin.

        Args:
            ax: the matplotlib axes to draw on; None creates new axes.

        Returns:
            The axes.

        Raises:
            ImportError: if matplotlib is not installed.
        """
        if ax is None:
            ax = _new_axes()
        count, edges = self.count.cpu().numpy(), self.edges.cpu().numpy()
        full = count > 0
        accuracy, confidence = self.accuracy.cpu().numpy()[full], self.confidence.cpu().numpy()[full]
        bars = ax.bar(edges[:-1][full], accuracy, np.diff(edges)[full], align="edge", color="C0", edgecolor="white")
        for bar, share in zip(bars, count[full] / count.max(), strict=True):
            bar.set_alpha(0.25 + 0.75 * float(share))
        ax.plot([0, 1], [0, 1], color="0.4", linestyle="--", linewidth=1)
        ax.plot(confidence, accuracy, "o", color="C1", markersize=4)
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
        return ax


def expected_calibration_error(
    probs: Tensor,  # (N, k)
    target: Tensor,  # (N,)
    n_bins: int = 15,
    *,
    validate_args: bool = True,
) -> Tensor:
    r"""Compute the expected calibration error (ECE) of the top label, with bins of equal width.

    .. math:: \mathrm{ECE} = \sum_{b=1}^{B} \frac{n_b}{N} \, |\mathrm{acc}(b) - \mathrm{conf}(b)|

    Of the n_b samples whose largest probability lies in bin b, acc(b) is the fraction whose most
    probable class (the first, at ties) is the label, and conf(b) is the mean largest probability.

    Args:
        probs: probabilities of k classes, not logits; shape (N, k), any floating-point dtype.
            Rows sum to one and entries lie in [0, 1], up to 3.5e-4. The tolerance is 2^-10 if float16
            can represent all values, and 2^-7 if bfloat16 can. Entries are clamped to [0, 1].
        target: labels in [0, k), any integer dtype, shape (N,).
        n_bins: number B of bins, at least 1; with B = 1 the error is abs(accuracy - mean confidence).
        validate_args: whether to check the values of `probs` and `target`, which synchronises a GPU.

    Returns:
        The error in [0, 1], a float64 scalar without a graph.

    Raises:
        TypeError: if an argument has the wrong Python type.
        ValueError: if a shape, a dtype or a value is not as above, or if there are no rows.

    Example:
        >>> probs = torch.tensor([[0.75, 0.25], [1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
        >>> expected_calibration_error(probs, torch.tensor([0, 1, 0, 1]), n_bins=2)
        tensor(0., dtype=torch.float64)
        >>> expected_calibration_error(probs, torch.tensor([0, 1, 0, 1]), n_bins=4)
        tensor(0.2500, dtype=torch.float64)

    Reference: Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian
    binning", AAAI 2015; Guo et al., "On calibration of modern neural networks", ICML 2017, section 2.
    """
    probs, target = _prepared(probs, target, n_bins, validate_args)
    return calibration_error(equal_width_sums(*top_label(probs, target), n_bins))


def static_calibration_error(
    probs: Tensor,  # (N, k)
    target: Tensor,  # (N,)
    n_bins: int = 15,
    *,
    validate_args: bool = True,
) -> Tensor:
    r"""Compute the static calibration error (SCE): the mean over classes of class-wise errors.

    .. math:: \mathrm{SCE} = \frac{1}{k} \sum_{c=1}^{k} \sum_{b=1}^{B} \frac{n_{bc}}{N} \,
              |\mathrm{acc}(b, c) - \mathrm{conf}(b, c)|

    Of the n_bc samples whose probability of class c lies in bin b, acc(b, c) is the fraction with
    label c, and conf(b, c) is the mean probability of c. Every sample counts for every class.

    Compare SCE only between problems with the same number k of classes: with many classes it is always small. For any
    classifier SCE <= (2/k)(1 - mean of probs[i, target[i]]) <= 2/k, since a sample adds at most its distance from the
    one-hot label, sum_c abs(1[c = y] - p_c) = 2 (1 - p_y).

    Args:
        probs: as :func:`expected_calibration_error`.
        target: as :func:`expected_calibration_error`.
        n_bins: as :func:`expected_calibration_error`; with B = 1 the error is the mean, over classes, of the distance
            between mean probability and class frequency.
        validate_args: as :func:`expected_calibration_error`.

    Returns:
        The error in [0, 2/k], a float64 scalar without a graph.

    Raises:
        TypeError, ValueError: as :func:`expected_calibration_error`.

    Example:
        >>> probs = torch.tensor([[0.75, 0.25], [1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
        >>> static_calibration_error(probs, torch.tensor([0, 1, 0, 1]), n_bins=4)
        tensor(0.4375, dtype=torch.float64)

    Reference: Nixon et al., "Measuring calibration in deep learning", CVPR workshops 2019.
    """
    probs, target = _prepared(probs, target, n_bins, validate_args)
    return calibration_error(equal_width_sums(*class_wise(probs, target), n_bins))


def adaptive_calibration_error(
    probs: Tensor,  # (N, k)
    target: Tensor,  # (N,)
    n_bins: int = 15,
    *,
    validate_args: bool = True,
) -> Tensor:
    r"""Compute the calibration error of the top label, with bins of equal numbers of samples (equal mass).

    .. math:: \mathrm{ACE} = \sum_{b=1}^{B} \frac{n_b}{N} \, |\mathrm{acc}(b) - \mathrm{conf}(b)|

    This is :func:`expected_calibration_error` with other bins. Sort the samples by confidence and number them from 0 to
    N-1. Bin b contains the samples whose number r has floor(r B / N) = b, so the sizes n_b of the bins differ by one at
    most. If samples of equal confidence fall into several bins, their mean accuracy is used in each. So the order of
    the rows does not matter.

    Args:
        probs: as :func:`expected_calibration_error`.
        target: as :func:`expected_calibration_error`.
        n_bins: number B of bins, at least 1; from B = N on, each sample has a bin of its own.
        validate_args: as :func:`expected_calibration_error`.

    Returns:
        The error in [0, 1], a float64 scalar without a graph.

    Raises:
        TypeError, ValueError: as :func:`expected_calibration_error`.

    Example:
        >>> probs = torch.tensor([[0.75, 0.25], [1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
        >>> adaptive_calibration_error(probs, torch.tensor([0, 1, 0, 1]), n_bins=2)
        tensor(0.3750, dtype=torch.float64)

    Reference: Nguyen and O'Connor, "Posterior calibration and exploratory analysis for natural language
    processing models", EMNLP 2015, for bins of equal mass; Nixon et al. 2019 for the name (their
    ACE averages over classes as SCE does; this is its form for the top label).
    """
    probs, target = _prepared(probs, target, n_bins, validate_args)
    return calibration_error(equal_mass_sums(*top_label(probs, target), n_bins))


def maximum_calibration_error(
    probs: Tensor,  # (N, k)
    target: Tensor,  # (N,)
    n_bins: int = 15,
    *,
    validate_args: bool = True,
) -> Tensor:
    r"""Compute the maximum calibration error (MCE) of the top label, with bins of equal width.

    .. math:: \mathrm{MCE} = \max_{b:\, n_b > 0} |\mathrm{acc}(b) - \mathrm{conf}(b)|

    acc(b) is the accuracy and conf(b) the mean confidence of the n_b samples in bin b. The result is the error of the
    worst bin, however few samples this bin has. With many bins the worst bin often has one sample.

    Args:
        probs: as :func:`expected_calibration_error`.
        target: as :func:`expected_calibration_error`.
        n_bins: as :func:`expected_calibration_error`.
        validate_args: as :func:`expected_calibration_error`.

    Returns:
        The error in [0, 1], a float64 scalar without a graph.

    Raises:
        TypeError, ValueError: as :func:`expected_calibration_error`.

    Example:
        >>> probs = torch.tensor([[0.75, 0.25], [1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
        >>> maximum_calibration_error(probs, torch.tensor([0, 1, 0, 1]), n_bins=4)
        tensor(0.5000, dtype=torch.float64)

    Reference: Naeini, Cooper and Hauskrecht, AAAI 2015.
    """
    probs, target = _prepared(probs, target, n_bins, validate_args)
    return maximum_error(equal_width_sums(*top_label(probs, target), n_bins))


def reliability_curve(
    probs: Tensor,  # (N, k)
    target: Tensor,  # (N,)
    n_bins: int = 15,
    *,
    validate_args: bool = True,
) -> ReliabilityCurve:
    r"""Compute the accuracy and the mean confidence of the top label in bins of equal width.

    .. math:: \mathrm{acc}(b) = \frac{1}{n_b} \sum_{i \in b} 1[\hat y_i = y_i], \qquad
              \mathrm{conf}(b) = \frac{1}{n_b} \sum_{i \in b} \max_c p_{ic}

    with y_i the label of row i, :math:`\hat y_i` its predicted class and p_ic the probability of class c.

    Args:
        probs: as :func:`expected_calibration_error`.
        target: as :func:`expected_calibration_error`.
        n_bins: as :func:`expected_calibration_error`.
        validate_args: as :func:`expected_calibration_error`.

    Returns:
        A :class:`ReliabilityCurve`. The mean of `abs(accuracy - confidence)` weighted by `count`,
        empty bins left out, is the expected calibration error.

    Raises:
        TypeError, ValueError: as :func:`expected_calibration_error`.

    Example:
        >>> probs = torch.tensor([[0.75, 0.25], [1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
        >>> curve = reliability_curve(probs, torch.tensor([0, 1, 0, 1]), n_bins=4)
        >>> curve.confidence
        tensor([   nan,    nan, 0.5000, 0.8333], dtype=torch.float64)
        >>> curve.accuracy
        tensor([   nan,    nan, 1.0000, 0.6667], dtype=torch.float64)
        >>> curve.count
        tensor([0, 0, 1, 3])

    Reference: Niculescu-Mizil and Caruana, "Predicting good probabilities with supervised learning",
    ICML 2005; Guo et al. 2017, section 2.
    """
    probs, target = _prepared(probs, target, n_bins, validate_args)
    sums = equal_width_sums(*top_label(probs, target), n_bins)
    return ReliabilityCurve(
        confidence=sums.confidence / sums.samples,
        accuracy=sums.hits / sums.samples,
        count=sums.samples.long(),
        edges=bin_edges(n_bins, probs.device),
    )


def _new_axes() -> Any:
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        message = "plot needs matplotlib, which is not installed: run `pip install matplotlib`."
        raise ImportError(message) from error
    return pyplot.subplots()[1]


def _prepared(probs: Tensor, target: Tensor, n_bins: int, validate_args: bool) -> tuple[Tensor, Tensor]:
    check_count("n_bins", n_bins)
    return prepared(probs, target, validate_args)


class BinSums(NamedTuple):
    """The number of samples and the sums of confidences and hits in each of B bins, in float64.

    The sums of several batches or processes can be added.
    """

    samples: Tensor  # (..., B), their number
    confidence: Tensor  # (..., B)
    hits: Tensor  # (..., B)


def prepared(probs: Tensor, target: Tensor, validate_args: bool) -> tuple[Tensor, Tensor]:
    """Return `probs` in float64, detached and clamped to [0, 1] to remove rounding errors, and `target`.

    Both are moved to the CPU if their device has no float64. The inputs are checked first if `validate_args` is true.
    """
    given: tuple[Any, Any] = (probs, target)
    probs, target = (x.cpu() if isinstance(x, Tensor) and not has_float64(x.device) else x for x in given)
    if validate_args:
        check_inputs(probs, target)
    return probs.detach().double().clamp(0, 1), target


def check_inputs(probs: Tensor, target: Tensor) -> None:
    """Require `probs` to be N rows of k probabilities that sum to one, and `target` to be N labels in [0, k)."""
    check_probs(probs)
    check_labels(target, probs.shape[1])
    if len(target) != len(probs):
        raise ValueError(expected("target", f"as long as `probs`, {len(probs)}", len(target)))


def top_label(probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest probability of each row, and 1 if its class (at ties the first) is the label, else 0."""
    confidence, predicted = probs.max(1)
    return confidence, (predicted == target).double()


def class_wise(probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probability of each class in each row, and 1 if the class is the label, else 0; shapes (k, N)."""
    classes = torch.arange(probs.shape[1], device=probs.device)
    return probs.T, (target == classes[:, None]).double()


def bin_edges(n_bins: int, device: torch.device) -> Tensor:
    """Return the B + 1 edges b/B of B = `n_bins` bins of equal width between 0 and 1, rounded to float64."""
    return torch.arange(n_bins + 1, dtype=torch.float64, device=device) / n_bins


def equal_width_sums(confidence: Tensor, hits: Tensor, n_bins: int) -> BinSums:
    """Sum confidences and hits (1 if right, else 0) over B bins [b/B, (b+1)/B) of confidence; the last includes 1."""
    inner = bin_edges(n_bins, confidence.device)[1:-1]
    # Not floor(c * B): that product may be rounded across an edge, as 0.29 * 100 is.
    return _sums(torch.bucketize(confidence.contiguous(), inner, right=True), confidence, hits, n_bins)


def equal_mass_sums(confidence: Tensor, hits: Tensor, n_bins: int) -> BinSums:
    """Sum confidences and hits (1 if right, else 0) over B bins with equal numbers of samples.

    The sample with the r-th smallest confidence is in bin floor(r B / N), where r counts from 0 and N is the number of
    samples. `confidence` and `hits` have shape (N,).
    """
    _, group, size = torch.unique(confidence, return_inverse=True, return_counts=True)
    # Samples of equal confidence each take the mean of their hits, since their order decides which bin each falls into.
    shared = (torch.zeros_like(size, dtype=torch.float64).index_add_(0, group, hits) / size)[group]
    ordered, order = confidence.sort()
    rank = torch.arange(len(confidence), device=confidence.device)
    return _sums(rank * n_bins // len(confidence), ordered, shared[order], n_bins)


def calibration_error(sums: BinSums) -> Tensor:
    """Return sum_b n_b/N |acc(b) - conf(b)|; of N samples bin b has n_b, with accuracy acc and mean confidence conf.

    The result is averaged over the leading dimensions if there are any.
    """
    gap = (sums.hits - sums.confidence).abs().sum(-1)
    return (gap / sums.samples.sum(-1)).mean()


def maximum_error(sums: BinSums) -> Tensor:
    """Return max_b |acc(b) - conf(b)| over all bins with samples, averaged over the leading dimensions.

    acc(b) is the accuracy and conf(b) the mean confidence in bin b.
    """
    gap = (sums.hits - sums.confidence).abs() / sums.samples.clamp(min=1)  # 0 in an empty bin
    return gap.amax(-1).mean()


def _sums(index: Tensor, confidence: Tensor, hits: Tensor, n_bins: int) -> BinSums:
    zeros = confidence.new_zeros((*confidence.shape[:-1], n_bins))
    one = torch.ones_like(confidence)
    return BinSums(*(zeros.scatter_add(-1, index, values) for values in (one, confidence, hits)))
