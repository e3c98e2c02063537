"""From a table to a certified model: columns, choice of model, fit, suspect labels, report."""
