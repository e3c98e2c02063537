"""Logits in, the normalizer or probabilities out, with all derivatives: by a kernel where one can run."""
