"""Every function of logits and probabilities: the losses, the normalizer, the links."""

from mgce.link.normalizer import normalized_logits, normalizer
from mgce.link.probs import minimax_probs, minimax_to_worst_case, worst_case_probs, worst_case_to_minimax
from mgce.losses.asymmetric import agce_loss, amse_loss
from mgce.losses.capped import capped_mgce_loss
from mgce.losses.clipped import clip_logits
from mgce.losses.forward import forward_corrected_logits
from mgce.losses.functional import alpha_loss, gce_loss, mgce_loss
from mgce.losses.linear import linear_mgce_loss
from mgce.losses.normalized import nce_loss, nnce_loss
from mgce.losses.reweighted import epsilon_softmax_loss, focal_loss, taylor_ce_loss
from mgce.losses.symmetric import rce_loss, unhinged_loss
from mgce.losses.tempered import bi_tempered_loss
from mgce.losses.vocab_parallel import vocab_parallel_mgce_loss

__all__ = [
    "agce_loss",
    "alpha_loss",
    "amse_loss",
    "bi_tempered_loss",
    "capped_mgce_loss",
    "clip_logits",
    "epsilon_softmax_loss",
    "focal_loss",
    "forward_corrected_logits",
    "gce_loss",
    "linear_mgce_loss",
    "mgce_loss",
    "minimax_probs",
    "minimax_to_worst_case",
    "nce_loss",
    "nnce_loss",
    "normalized_logits",
    "normalizer",
    "rce_loss",
    "taylor_ce_loss",
    "unhinged_loss",
    "vocab_parallel_mgce_loss",
    "worst_case_probs",
    "worst_case_to_minimax",
]
