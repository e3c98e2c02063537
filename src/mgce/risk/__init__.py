"""Guarantees: uncertainty sets, the minimax risk V_beta, concentration bounds and certificates."""

from mgce.linear import EmptyUncertaintySetError, LinearFit, fit_linear
from mgce.risk.alpha_loss import argmax_factor
from mgce.risk.any_model import certify_model
from mgce.risk.audit import transition_region
from mgce.risk.breakdown import certify_each
from mgce.risk.certificate import RiskCertificate, certify
from mgce.risk.concentration import (
    betting_intervals,
    betting_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    hoeffding_radius,
    hoeffding_upper,
    maurer_pontil_radius,
    maurer_pontil_upper,
)
from mgce.risk.linear_bound import linear_risk_bound
from mgce.risk.minimax import MinimaxRisk, minimax_risk
from mgce.risk.noise_rate import (
    NoiseRateInterval,
    TransitionEstimate,
    estimate_transition,
    noise_rate_interval,
    repeated_labels_interval,
)
from mgce.risk.uncertainty import UncertaintySet

__all__ = [
    "EmptyUncertaintySetError",
    "LinearFit",
    "MinimaxRisk",
    "NoiseRateInterval",
    "RiskCertificate",
    "TransitionEstimate",
    "UncertaintySet",
    "argmax_factor",
    "betting_intervals",
    "betting_upper",
    "certify",
    "certify_each",
    "certify_model",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "estimate_transition",
    "fit_linear",
    "hoeffding_radius",
    "hoeffding_upper",
    "linear_risk_bound",
    "maurer_pontil_radius",
    "maurer_pontil_upper",
    "minimax_risk",
    "noise_rate_interval",
    "repeated_labels_interval",
    "transition_region",
]
