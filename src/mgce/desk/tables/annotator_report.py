"""Write the section of the report on annotators, for tables with several labels a row."""

from __future__ import annotations

from mgce._text import printable
from mgce.desk.pages.web_page import paragraph, table
from mgce.labels.annotator_table import CAUTION
from mgce.labels.consensus import Consensus


def annotator_section(consensus: Consensus) -> str:
    """Return HTML with a line for each annotator, and whether annotators err independently."""
    rows = [
        [
            printable(one.name),
            f"{one.n_labels:,}",
            f"{one.estimated_accuracy:.1%}",
            " to ".join(f"{end:.1%}" for end in one.estimated_range),
            ", ".join(printable(f"{right} as {given} ({share:.0%})") for right, given, share in one.confused),
            ", ".join(printable(f"{name} ({share:.0%})") for name, share in one.together),
        ]
        for one in consensus.annotators
    ]
    head = [
        "annotator",
        "labels",
        "right, estimated",
        "estimated range",
        "most frequent wrong labels",
        "errs together with",
    ]
    caption = "What the labels and a model of the features say of each annotator."
    return table(caption, head, rows) + paragraph(CAUTION) + paragraph(str(consensus.independence))
