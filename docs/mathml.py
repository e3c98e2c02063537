"""A Sphinx extension that shows formulas as MathML, which browsers draw by themselves: no script, no network."""

import re
from typing import Any

from docutils.nodes import Element, SkipNode, math_block
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

# What LaTeX knows and docutils does not, and what browsers do better in another way.
REWRITES = (
    # Browsers do not enlarge a bracket that has an exponent, but do enlarge a pair around its contents.
    (r"\\[bB]ig(?=\(|\[|\\\{)", r"\\left"),
    (r"\\[bB]ig(?=\)|\]|\\\})", r"\\right"),
    (r"\\[bB]ig(?=/)", ""),
    (r"\\dots\b", r"\\ldots"),
    # The thin space that LaTeX leaves after the name of a function.
    (r"(\\(?:arg|exp|log|max|min)) +(?=[A-Za-z\\])(?!\\left)", r"\1\\,"),
)


def convert(tex: str, *, is_block: bool) -> str:
    """Return the MathML of a formula; what is not understood raises, so that no page shows raw LaTeX."""
    for pattern, replacement in REWRITES:
        tex = re.sub(pattern, replacement, tex)
    return str(latex2mathml.tex2mathml(tex, as_block=is_block))


def visit(self: Any, node: Element) -> None:
    """Write one formula into the page."""
    is_block = isinstance(node, math_block)
    mathml = convert(node.astext(), is_block=is_block)
    self.body.append(f'<div class="formula">{mathml}</div>' if is_block else mathml)
    raise SkipNode


def setup(app: Sphinx) -> None:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
