"""Load data sets by name, with their published training and test parts."""

from mgce_lab.data.registry import IMAGE_NAMES, NAMES, citation, load, load_images

__all__ = ["IMAGE_NAMES", "NAMES", "citation", "load", "load_images"]
