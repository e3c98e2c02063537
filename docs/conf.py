"""Sphinx configuration: `.ci/docs` builds the site with it, and runs the examples."""

import ast
import importlib.metadata
import importlib.util
import sys
import urllib.request
from pathlib import Path
from typing import Any

import mgce

PAGES_ALONE = tags.has("pages")  # noqa: F821 - Sphinx defines it: `.ci/docs --pages` asks for no examples and no network
HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
sys.path.insert(0, str(HERE))  # for mathml, command_pages and the table of losses

project = "mgce"
author = "The mgce developers"
copyright = author
release = version = mgce.__version__

extensions = [
    "command_pages",
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "matplotlib.sphinxext.plot_directive",
]
# No button on what a command prints; the prompts of doctests are not copied.
copybutton_selector = "div:not(.highlight-text):not(.highlight-none):not(.sphx-glr-script-out) > div.highlight > pre"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_math_renderer = "mathml"
default_role = "code"  # a single backtick is code, not emphasis
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

# The address of the repository, once `pyproject.toml` states one.
_URLS = dict(pair.split(", ", 1) for pair in importlib.metadata.metadata("mgce").get_all("Project-URL") or [])
_REPOSITORY = next((_URLS[name] for name in ("Repository", "Source", "Homepage") if name in _URLS), None)

html_theme = "pydata_sphinx_theme"
html_title = "mgce"
html_static_path = ["_static"]
html_favicon = "_static/logo.svg"
html_css_files = ["site.css"]
html_theme_options = {
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo.svg", "text": f"mgce {release}"},
    "icon_links": [
        {"name": "Repository", "url": url, "icon": "fa-solid fa-code-branch"}
        for url in (_REPOSITORY,)
        if url is not None
    ],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}  # the landing page is its own table of contents
html_context = {"default_mode": "auto"}

autosummary_generate = True
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
# Large libraries of integrations that may be missing: their pages need the signatures of ours alone.
autodoc_mock_imports = [name for name in ("lightgbm", "xgboost") if importlib.util.find_spec(name) is None]
python_maximum_signature_line_length = 88
plot_formats = ["svg"]
plot_html_show_formats = plot_html_show_source_link = False
suppress_warnings = ["config.cache"]  # of functions among the settings of sphinx-gallery


def _is_reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


# Links into the documentation of others, where there is a network when the site is built.
_INVENTORIES = {
    "python": "https://docs.python.org/3/",
    "torch": "https://docs.pytorch.org/docs/stable/",
    "numpy": "https://numpy.org/doc/stable/",
    "sklearn": "https://scikit-learn.org/stable/",
    "torchmetrics": "https://lightning.ai/docs/torchmetrics/stable/",
}
intersphinx_mapping = {
    name: (url, None) for name, url in _INVENTORIES.items() if not PAGES_ALONE and _is_reachable(url + "objects.inv")
}


def _lacks(path: Path) -> list[str]:
    imports = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [getattr(node, "module", None) or node.names[0].name for node in imports]
    return sorted({name.split(".")[0] for name in names if importlib.util.find_spec(name.split(".")[0]) is None})


_LACKING = {path.stem: _lacks(path) for path in sorted(EXAMPLES.glob("*.py"))}
for _stem, _names in _LACKING.items():
    if _names and not PAGES_ALONE:
        print(f"examples/{_stem}.py is shown without its output: needs {', '.join(_names)}.", file=sys.stderr)

# The order in which a reader meets them; one that is not named comes last.
_ORDER = (
    "noisy_images",
    "noisy_csv",
    "noisy_pictures",
    "choosing_a_loss",
    "h_against_p",
    "certificates_and_sets",
    "wrong_labels",
)


def _rank(file: str) -> tuple[int, str]:
    stem = Path(file).stem
    return (_ORDER.index(stem) if stem in _ORDER else len(_ORDER), stem)


sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "plot_gallery": not PAGES_ALONE,
    "filename_pattern": rf"/({'|'.join(stem for stem, names in _LACKING.items() if not names)})\.py$",
    "within_subsection_order": _rank,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "reference_url": {"mgce": None},
    "backreferences_dir": None,
    "remove_config_comments": True,
}


def setup(app: Any) -> None:
    """Make the table of losses when its page is read."""
    import losses_table

    app.connect("source-read", losses_table.fill)
