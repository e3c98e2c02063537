"""Every function of logits and probabilities: the losses, the normalizer, the links."""

from mgce.losses.functional import alpha_loss, gce_loss, mgce_loss
from mgce.losses.linear import linear_mgce_loss
from mgce.losses.vocab_parallel import vocab_parallel_mgce_loss
from mgce.numerics.link import minimax_probs, minimax_to_worst_case, worst_case_probs, worst_case_to_minimax
from mgce.numerics.normalizer import normalized_logits, normalizer

__all__ = [
    "alpha_loss",
    "gce_loss",
    "linear_mgce_loss",
    "mgce_loss",
    "minimax_probs",
    "minimax_to_worst_case",
    "normalized_logits",
    "normalizer",
    "vocab_parallel_mgce_loss",
    "worst_case_probs",
    "worst_case_to_minimax",
]
