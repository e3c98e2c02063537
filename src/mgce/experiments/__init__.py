"""Experiments: what to train, training it, choosing among the records, and tables and figures of the chosen ones.

Specifications, `select` and `render` compute from their arguments alone. `compare.run`, the `run` of a specification
and `paper.sweep` train; `store` and `paper.report` read and write files.
"""
