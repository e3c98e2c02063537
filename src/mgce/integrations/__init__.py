"""MGCE inside other libraries: a module for each, which needs that library and is imported only by its own name."""
