"""Export all functions of logits and of probabilities: losses, the normalizer of MGCE, and maps to probabilities."""

from mgce.link.probs import minimax_probs as minimax_probs
from mgce.link.probs import minimax_to_worst_case as minimax_to_worst_case
from mgce.link.probs import normalized_logits as normalized_logits
from mgce.link.probs import normalizer as normalizer
from mgce.link.probs import worst_case_probs as worst_case_probs
from mgce.link.probs import worst_case_to_minimax as worst_case_to_minimax
from mgce.losses import agce_loss as agce_loss
from mgce.losses import nce_loss as nce_loss
from mgce.losses import rce_loss as rce_loss
from mgce.losses.forward import forward_corrected_logits as forward_corrected_logits
from mgce.losses.functional import alpha_loss as alpha_loss
from mgce.losses.functional import gce_loss as gce_loss
from mgce.losses.functional import mgce_loss as mgce_loss
from mgce.losses.linear import linear_mgce_loss as linear_mgce_loss

__all__ = sorted(name for name, value in globals().items() if callable(value) and not name.startswith("_"))
