"""Keep the losses that no page recommends, for comparison: one record and one function of scores each.

`scores(logits, wanted, **hyperparameters)` gives each class its score, minus the loss of its docstring.
:func:`mgce.losses.scored_module.by_scores` makes a function and a module of it. `presets.py` collects the records.
"""
