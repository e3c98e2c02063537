"""Solve the equation of the normalizer, and compute probabilities and derivatives from its root."""
