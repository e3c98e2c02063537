"""Sphinx configuration: `sphinx-build -W docs docs/_build`."""

import mgce

project = "mgce"
author = "The mgce developers"
copyright = author
release = version = mgce.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "mgce"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
