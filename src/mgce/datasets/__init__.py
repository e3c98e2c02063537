"""Data sets by name: rows, classes and published parts; and a preprocessor that learns from training rows only."""

from mgce.datasets.registry import IMAGE_NAMES, NAMES, citation, load, load_images
from mgce.datasets.tables import Table, preprocessor, read_table

__all__ = ["IMAGE_NAMES", "NAMES", "Table", "citation", "load", "load_images", "preprocessor", "read_table"]
