"""The engine of experiments, and the one way through it: plan -> run -> records -> select -> render.

A plan is a list of specifications (`specification.py`), of networks on tables (`tables.py`) or on images (`images.py`).
`sweep.py` runs at a place (`place.py`) those that the store (`store.py`) has no records of. `select.py` chooses among
records, a study (`study.py`) renders them into results (`result.py`), and `report.py` writes these with a page.
"""
