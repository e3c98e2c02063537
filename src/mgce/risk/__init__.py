"""Guarantees: uncertainty sets, the minimax risk V_beta, concentration bounds and certificates."""

from mgce.linear import EmptyUncertaintySetError, LinearFit, fit_linear
from mgce.risk.certificate import RiskCertificate, argmax_factor, certify
from mgce.risk.concentration import (
    betting_intervals,
    betting_upper,
    clopper_pearson_upper,
    hoeffding_radius,
    hoeffding_upper,
    maurer_pontil_radius,
    maurer_pontil_upper,
)
from mgce.risk.linear_bound import linear_risk_bound
from mgce.risk.minimax import MinimaxRisk, minimax_risk
from mgce.risk.uncertainty import UncertaintySet

__all__ = [
    "EmptyUncertaintySetError",
    "LinearFit",
    "MinimaxRisk",
    "RiskCertificate",
    "UncertaintySet",
    "argmax_factor",
    "betting_intervals",
    "betting_upper",
    "certify",
    "clopper_pearson_upper",
    "fit_linear",
    "hoeffding_radius",
    "hoeffding_upper",
    "linear_risk_bound",
    "maurer_pontil_radius",
    "maurer_pontil_upper",
    "minimax_risk",
]
