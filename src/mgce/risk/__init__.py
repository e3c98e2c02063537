"""Guarantees on the errors of classifiers: certificates, concentration bounds, uncertainty sets, minimax risk."""

from mgce.linear import EmptyUncertaintySetError, LinearFit, fit_linear
from mgce.risk.alpha_loss import (
    argmax_factor,
    asymmetric_noise_bounds,
    clean_risk_bound,
    composite_losses,
    loss_sum_bounds,
    mae_bounds,
    optimal_margins,
    symmetric_noise_bounds,
)
from mgce.risk.betting import betting_intervals, betting_upper, betting_upper_sequence, drift_upper_sequence
from mgce.risk.certificate import Bounds, RiskCertificate
from mgce.risk.certifying import certify
from mgce.risk.concentration import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    hoeffding_bentkus_upper,
    hoeffding_radius,
    hoeffding_upper,
    maurer_pontil_radius,
    maurer_pontil_upper,
)
from mgce.risk.looks import Looks, looked_up_upper_sequence, rows_to_check, share_looks
from mgce.risk.minimax import MinimaxRisk, linear_risk_bound, minimax_risk, stochastic_gradient
from mgce.risk.noise_rate import (
    NoiseRateInterval,
    TransitionEstimate,
    estimate_transition,
    repeated_labels_interval,
)
from mgce.risk.parts import certify_each, certify_model
from mgce.risk.stratified import stratified_upper
from mgce.risk.uncertainty import UncertaintySet

__all__ = [
    "Bounds",
    "EmptyUncertaintySetError",
    "LinearFit",
    "Looks",
    "MinimaxRisk",
    "NoiseRateInterval",
    "RiskCertificate",
    "TransitionEstimate",
    "UncertaintySet",
    "argmax_factor",
    "asymmetric_noise_bounds",
    "betting_intervals",
    "betting_upper",
    "betting_upper_sequence",
    "certify",
    "certify_each",
    "certify_model",
    "clean_risk_bound",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "composite_losses",
    "drift_upper_sequence",
    "estimate_transition",
    "fit_linear",
    "hoeffding_bentkus_upper",
    "hoeffding_radius",
    "hoeffding_upper",
    "linear_risk_bound",
    "looked_up_upper_sequence",
    "loss_sum_bounds",
    "mae_bounds",
    "maurer_pontil_radius",
    "maurer_pontil_upper",
    "minimax_risk",
    "optimal_margins",
    "repeated_labels_interval",
    "rows_to_check",
    "share_looks",
    "stochastic_gradient",
    "stratified_upper",
    "symmetric_noise_bounds",
]
