"""Measure what mgce claims: the paper's tables and figures, comparisons of losses, and attacks on the package."""
