"""Read tables from files, and preprocess them for a classifier."""

from mgce.datasets.tables import Table, preprocessor, read_table

__all__ = ["Table", "preprocessor", "read_table"]
