"""Guarantees on the errors of classifiers: certificates, concentration bounds, uncertainty sets, minimax risk."""

from mgce.linear import EmptyUncertaintySetError as EmptyUncertaintySetError
from mgce.linear import LinearFit as LinearFit
from mgce.linear import fit_linear as fit_linear
from mgce.risk.alpha_loss import argmax_factor as argmax_factor
from mgce.risk.alpha_loss import asymmetric_noise_bounds as asymmetric_noise_bounds
from mgce.risk.alpha_loss import clean_risk_bound as clean_risk_bound
from mgce.risk.alpha_loss import composite_losses as composite_losses
from mgce.risk.alpha_loss import loss_sum_bounds as loss_sum_bounds
from mgce.risk.alpha_loss import mae_bounds as mae_bounds
from mgce.risk.alpha_loss import optimal_margins as optimal_margins
from mgce.risk.alpha_loss import symmetric_noise_bounds as symmetric_noise_bounds
from mgce.risk.betting import betting_intervals as betting_intervals
from mgce.risk.betting import betting_upper as betting_upper
from mgce.risk.betting import betting_upper_sequence as betting_upper_sequence
from mgce.risk.betting import drift_upper_sequence as drift_upper_sequence
from mgce.risk.certificate import Bounds as Bounds
from mgce.risk.certificate import RiskCertificate as RiskCertificate
from mgce.risk.certifying import certify as certify
from mgce.risk.concentration import clopper_pearson_lower as clopper_pearson_lower
from mgce.risk.concentration import clopper_pearson_upper as clopper_pearson_upper
from mgce.risk.concentration import hoeffding_bentkus_upper as hoeffding_bentkus_upper
from mgce.risk.concentration import hoeffding_radius as hoeffding_radius
from mgce.risk.concentration import hoeffding_upper as hoeffding_upper
from mgce.risk.concentration import maurer_pontil_radius as maurer_pontil_radius
from mgce.risk.concentration import maurer_pontil_upper as maurer_pontil_upper
from mgce.risk.looks import Looks as Looks
from mgce.risk.looks import looked_up_upper_sequence as looked_up_upper_sequence
from mgce.risk.looks import rows_to_check as rows_to_check
from mgce.risk.looks import share_looks as share_looks
from mgce.risk.minimax import MinimaxRisk as MinimaxRisk
from mgce.risk.minimax import linear_risk_bound as linear_risk_bound
from mgce.risk.minimax import minimax_risk as minimax_risk
from mgce.risk.minimax import stochastic_gradient as stochastic_gradient
from mgce.risk.noise_rate import NoiseRateInterval as NoiseRateInterval
from mgce.risk.noise_rate import TransitionEstimate as TransitionEstimate
from mgce.risk.noise_rate import estimate_transition as estimate_transition
from mgce.risk.noise_rate import repeated_labels_interval as repeated_labels_interval
from mgce.risk.parts import certify_each as certify_each
from mgce.risk.parts import certify_model as certify_model
from mgce.risk.stratified import stratified_upper as stratified_upper
from mgce.risk.uncertainty import UncertaintySet as UncertaintySet

__all__ = sorted(name for name, value in globals().items() if callable(value) and not name.startswith("_"))
