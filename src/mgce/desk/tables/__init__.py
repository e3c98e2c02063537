"""Fit a classifier to a table: read columns, choose a model, certify it, find suspect labels, and report."""
