"""List accuracies in percent that papers published under the protocols P1 and P2.

P1: tables 2 and 4 of Wang et al. 2024 (epsilon-softmax), means of three seeds after the last epoch. ANL-CE on CIFAR-10
at noise rate .8 is from Ye et al. 2023. P2: accuracies at the best epoch, from Wei et al. 2022 and Wang et al. 2024.
"""

from __future__ import annotations

from collections.abc import Mapping

_RATES = (0.0, 0.2, 0.4, 0.6, 0.8)
_CIFAR10: Mapping[str, tuple[float, ...]] = {  # symmetric at those rates, asymmetric at .4
    "ce": (90.50, 75.47, 58.46, 39.16, 18.95, 75.28),
    "focal": (89.70, 74.50, 58.23, 38.69, 19.47, 74.68),
    "gce": (89.42, 86.87, 82.24, 68.43, 25.82, 74.01),
    "sce": (91.30, 87.58, 79.47, 59.14, 25.88, 74.99),
    "nce+mae": (89.02, 86.79, 83.60, 75.93, 46.96, 74.98),
    "nce+rce": (91.03, 88.41, 85.13, 79.20, 55.28, 79.43),
    "nce+agce": (91.13, 89.00, 85.91, 80.36, 49.98, 79.28),
    "ce+logitclip": (90.06, 85.66, 79.18, 53.87, 21.04, 74.34),
    "ce_eps+mae": (91.40, 89.29, 85.93, 79.52, 58.96, 78.91),
}
_CIFAR100: Mapping[str, tuple[float, ...]] = {
    "ce": (70.79, 56.21, 39.31, 22.38, 7.33),
    "gce": (70.57, 64.55, 56.60, 45.19, 19.85),
    "nce+rce": (67.89, 64.60, 58.64, 45.25, 24.87),
    "nce+agce": (68.78, 65.30, 59.95, 47.63, 24.13),
    "ce_eps+mae": (70.83, 65.45, 59.20, 48.15, 26.30),
}
_HUMAN: Mapping[str, tuple[float | None, float | None]] = {  # CIFAR-10N worst, CIFAR-100N
    "ce": (77.69, 55.50),
    "ce+forward": (79.79, 57.01),
    "gce": (80.66, 56.73),
    "agce": (81.43, None),
    "ce_eps+mae": (83.74, 61.78),
}


def published(protocol: str, dataset: str, noise: str, method: str) -> float | None:
    """Return the published accuracy of a loss in percent; None if none was published.

    Args:
        protocol: "p1" or "p2".
        dataset: name of the data set, as for `load_images`.
        noise: name of the noise, as returned by `noise_name`.
        method: name of the loss.

    Example:
        >>> published("p1", "cifar10", "symmetric 0.4", "gce")
        82.24
    """
    if protocol == "p1" and dataset == "cifar10":
        if (noise, method) == ("symmetric 0.8", "anl-ce"):
            return 61.3
        return _at(_CIFAR10.get(method), (*(f"symmetric {rate:g}" for rate in _RATES), "asymmetric 0.4"), noise)
    if protocol == "p1" and dataset == "cifar100":
        return _at(_CIFAR100.get(method), [f"symmetric {rate:g}" for rate in _RATES], noise)
    if protocol == "p2":
        return _at(_HUMAN.get(method), ("cifar10n worst", "cifar100n noisy"), f"{dataset} {noise}")
    return None


def _at(row: tuple[float | None, ...] | None, columns: object, column: str) -> float | None:
    names = list(columns)  # type: ignore[call-overload]
    return None if row is None or column not in names else row[names.index(column)]
