"""List the commands of `mgce-lab`."""

import mgce
from mgce.desk.cli import commands
from mgce.desk.cli.group import Commands, program

COMMANDS = {
    "reproduce": "Reproduce a table or figure of the paper, and show the paper's numbers beside the reproduced ones.",
    "benchmark": "Compare all robust losses under a published experimental protocol, or a smaller one of this package.",
    "report": "Write every table and figure for which the folder has all finished runs; nothing is trained.",
    "compare": "Train a network with each loss on rows with wrong labels, and compare the networks on right test "
    "labels.",
    "train": "Train a small network on images whose labels may be partly wrong, and list the suspect labels.",
}
EXAMPLES = {
    "reproduce": "mgce-lab reproduce table3 --dataset letter --smoke",
    "benchmark": "mgce-lab benchmark P1 --smoke",
    "report": "mgce-lab report mgce-reproduce",
    "compare": "mgce-lab compare digits --noise-rate 0.4 --methods ce,gce,mgce",
    "train": "mgce-lab train photos",
}
PANELS = {
    **commands.PANELS,
    "The losses and their networks": ("methods", "betas", "trims", "seeds", "epochs", "hidden", "batch_size", "lr"),
    "The images": ("size", "as_they_are"),
    "Where and how it runs": (
        *("data_dir", "download", "threads", "device", "precision", "jobs", "smoke", "backend", "scheduler"),
    ),
}


class Program(Commands):
    """The group of the commands of `mgce-lab`."""

    package = "mgce_lab.cli"
    sentences = COMMANDS
    examples = EXAMPLES
    panels = PANELS


app = program(f"mgce-lab with mgce {mgce.__version__}", "Measure what mgce claims.", Program)
