"""Fit a certified classifier to a table: columns, choice of the model, fit, suspect labels, report."""
