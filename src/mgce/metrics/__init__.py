"""Measure calibration by functions, or batch by batch by torchmetrics classes that compute the same numbers.

The classes need torchmetrics, an optional dependency, and are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgce._messages import not_installed
from mgce.metrics.calibration import (
    ReliabilityCurve,
    adaptive_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_curve,
    static_calibration_error,
)
from mgce.metrics.evaluation import Interval, bootstrap_interval

if TYPE_CHECKING:
    from mgce.metrics.streaming import (
        AdaptiveCalibrationError,
        ExpectedCalibrationError,
        MaximumCalibrationError,
        StaticCalibrationError,
    )

_STREAMING = (
    "AdaptiveCalibrationError",
    "ExpectedCalibrationError",
    "MaximumCalibrationError",
    "StaticCalibrationError",
)

__all__ = [
    "AdaptiveCalibrationError",
    "ExpectedCalibrationError",
    "Interval",
    "MaximumCalibrationError",
    "ReliabilityCurve",
    "StaticCalibrationError",
    "adaptive_calibration_error",
    "bootstrap_interval",
    "expected_calibration_error",
    "maximum_calibration_error",
    "reliability_curve",
    "static_calibration_error",
]


def __getattr__(name: str) -> Any:
    if name not in _STREAMING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from mgce.metrics import streaming
    except ModuleNotFoundError as error:
        if error.name != "torchmetrics":
            raise
        raise ImportError(not_installed(f"{name} needs", "torchmetrics", "lightning")) from error
    return getattr(streaming, name)


def __dir__() -> list[str]:
    return sorted(__all__)
