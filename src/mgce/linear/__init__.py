"""Minimising MGCE over margins that are linear in the features: the convex problem that risk and estimators share."""

from mgce.linear.progress import EmptyUncertaintySetError, LinearFit
from mgce.linear.solver import fit_linear

__all__ = ["EmptyUncertaintySetError", "LinearFit", "fit_linear"]
