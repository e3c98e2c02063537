"""Compute conformal prediction sets, which contain the right class with a stated probability, from noisy labels too."""

from mgce.sets.calibration import calibrate
from mgce.sets.conformal import ConformalSets, conformal_scores

__all__ = ["ConformalSets", "calibrate", "conformal_scores"]
