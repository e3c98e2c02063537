"""Minimax generalized cross-entropy: a convex, noise-robust drop-in for cross-entropy."""

__version__ = "0.1.0"
