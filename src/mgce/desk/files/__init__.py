"""Read tables from files, and preprocess them for a classifier."""

from mgce.desk.files.tables import Table, preprocessor, read_table

__all__ = ["Table", "preprocessor", "read_table"]
