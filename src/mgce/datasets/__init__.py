"""Load data sets by name, with their published training and test parts, and preprocess tables for a classifier."""

from mgce.datasets.registry import IMAGE_NAMES, NAMES, citation, load, load_images
from mgce.datasets.tables import Table, preprocessor, read_table

__all__ = ["IMAGE_NAMES", "NAMES", "Table", "citation", "load", "load_images", "preprocessor", "read_table"]
