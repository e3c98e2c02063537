"""Turn logits into the normalizer or into probabilities of MGCE, by a kernel if one can run, with all derivatives."""
