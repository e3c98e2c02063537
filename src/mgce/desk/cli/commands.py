"""List the commands of `mgce`."""

from __future__ import annotations

import mgce
from mgce.desk.cli.first import check_first
from mgce.desk.cli.group import Commands, program

# From the name of a command to the first sentence of its help. The command is the function of this name in the module
# of this name.
COMMANDS = {
    "demo": "Run mgce fit on a table with some labels made wrong, and compare the results with the right labels.",
    "fit": "Fit a classifier to a table whose labels may be partly wrong, and bound how often it disagrees with them.",
    "review": "Write an HTML page on which you review suspect labels with the keyboard.",
    "clean": "Say which labels to look up, and write the mended table once few of its labels can be wrong.",
    "embed": "Turn pictures or texts into features by a pretrained encoder.",
    "predict": "Predict the classes of the rows of a table.",
    "certify": "Bound the errors of a model on future rows, from labelled rows that it has not seen.",
    "env": "Print the versions and the devices that results depend on.",
}

# At the end of the help of a command: what a person types first.
EXAMPLES = {
    "demo": "mgce demo",
    "fit": "mgce fit customers.csv --target churned",
    "review": "mgce review customers.suspects.csv",
    "clean": "mgce clean customers.suspects.csv --at-most 0.05",
    "embed": "mgce embed photos --out photos.npz",
    "predict": "mgce predict customers.mgce new.csv",
    "certify": "mgce certify customers.mgce labelled.csv",
    "env": "mgce env",
}

# The headings under which a help lists options, by name; an option that is not here stands first, under "Options".
PANELS = {
    "The model": ("model", "metric", "seed"),
    "Wrong labels": ("noise_rate", "noise_type", "transition"),
    "The review": ("checked", "anytime", "share", "to_check", "width", "mended", "random", "image"),
    "The certificate": ("delta", "at_most", "drop_share", "coverage", "bounds", "by", "holdout", "groups", "time"),
    "Reading the table": (
        "prediction",
        "id",
        "column",
        "embeddings",
        "target_file",
        "label_columns",
        "annotations",
        "row",
        "annotator",
        "label",
        "drop",
        "text",
        "category",
        "number",
        "apart",
        "sep",
        "decimal",
        "encoding",
        "sheet",
        "header",
    ),
    "The encoder": ("encoder", "batch", "half", "shard"),
    "Where and how it runs": ("threads", "device"),
    "Writing the results": (
        "out",
        "out_dir",
        "probabilities",
        "sets",
        "suspects",
        "cleaned",
        "formulas",
        "json_file",
        "quiet",
    ),
}


class Program(Commands):
    """The group of the commands of `mgce`."""

    package = "mgce.desk.cli"
    sentences = COMMANDS
    examples = EXAMPLES
    panels = PANELS
    check = staticmethod(check_first)


app = program(f"mgce {mgce.__version__}", "Train classifiers on labels that are partly wrong.", Program)
