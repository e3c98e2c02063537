"""Experiments: what to train, training it, choosing among the records, and tables and figures of the chosen ones.

A *run* is one training, of one or more networks. Its *specification* says everything that its outcome depends on. It
gives *records*: for each network a dict of plain numbers, such as method, beta, seed and test accuracy.

`select` and `render` compute from their arguments alone. `compare.run`, the `run` of a specification and `paper.sweep`
train; `store` and `paper.report` read and write files.
"""
