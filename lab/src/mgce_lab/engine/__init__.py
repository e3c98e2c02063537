"""Run experiments in five steps: plan, run, store records, select among them, render tables and figures.

A plan is a list of specifications (`specification.py`). Each describes a training run of networks on a table
(`tables.py`) or on images (`images.py`). `sweep.py` executes the runs whose records the store (`store.py`) does not
have yet. A place (`place.py`) names the data and the device. `select.py` selects among the records of the runs. A
study (`study.py`) renders records into results (`result.py`). `report.py` writes the results and an HTML page.
"""
