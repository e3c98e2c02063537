"""Data sets by name, and tables from files: rows, classes, and a preprocessor that learns from training rows only."""

from mgce.datasets.registry import NAMES, load
from mgce.datasets.tables import Table, preprocessor, read_table

__all__ = ["NAMES", "Table", "load", "preprocessor", "read_table"]
