"""Define the group of all commands. A command is imported only when it is called, so `mgce --help` starts quickly."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import mgce
from mgce.cli.interrupt import INTERRUPTED, one_line_if_interrupted

# From the name of a command to the first sentence of its help. The command is the function of this name in the module
# of this name.
COMMANDS = {
    "demo": "Run mgce fit on a table with some labels made wrong, and compare the results with the right labels.",
    "fit": "Fit a classifier to a table whose labels may be partly wrong, and bound how often it disagrees with them.",
    "review": "Write an HTML page on which you review suspect labels with the keyboard.",
    "clean": "Say which labels to look up, and write the mended table once few of its labels can be wrong.",
    "train": "Train a small network on images whose labels may be partly wrong, and list the suspect labels.",
    "embed": "Turn pictures or texts into features by a pretrained encoder.",
    "predict": "Predict the classes of the rows of a table.",
    "certify": "Bound the errors of a model on future rows, from labelled rows that it has not seen.",
    "compare": "Train a network with each loss on rows with wrong labels, and compare the networks on right test "
    "labels.",
    "benchmark": "Compare all robust losses under a published experimental protocol, or a smaller one of this package.",
    "reproduce": "Reproduce a table or figure of the paper, and show the paper's numbers beside the reproduced ones.",
    "report": "Write every table and figure for which the folder has all finished runs; nothing is trained.",
    "env": "Print the versions and the devices that results depend on.",
}

# At the end of the help of a command: what a person types first.
EXAMPLES = {
    "demo": "mgce demo",
    "fit": "mgce fit customers.csv --target churned",
    "review": "mgce review customers.suspects.csv",
    "clean": "mgce clean customers.suspects.csv --at-most 0.05",
    "train": "mgce train photos",
    "embed": "mgce embed photos --out photos.npz",
    "predict": "mgce predict customers.skops new.csv",
    "certify": "mgce certify customers.skops labelled.csv",
    "compare": "mgce compare digits --noise-rate 0.4 --methods ce,gce,mgce",
    "benchmark": "mgce benchmark P1 --smoke",
    "reproduce": "mgce reproduce table3 --dataset letter --smoke",
    "report": "mgce report mgce-reproduce",
    "env": "mgce env",
}

# The headings under which a help lists options, by name; an option that is not here stands first, under "Options".
PANELS = {
    "The model": ("model", "beta", "metric", "budget", "seed"),
    "The losses and their networks": ("methods", "betas", "trims", "seeds", "epochs", "hidden", "batch_size", "lr"),
    "Wrong labels": ("noise_rate", "noise_type", "transition"),
    "The review": ("checked", "anytime", "to_check", "width", "mended", "random", "image"),
    "The certificate": ("delta", "at_most", "drop_share", "coverage", "bounds", "by", "holdout", "groups", "time"),
    "Reading the table": (
        "prediction",
        "id",
        "column",
        "embeddings",
        "target_file",
        "label_columns",
        "annotations",
        "drop",
        "text",
        "category",
        "sep",
        "decimal",
        "encoding",
        "sheet",
    ),
    "The images": ("size", "as_they_are"),
    "The encoder": ("encoder", "batch", "half", "shard"),
    "Where and how it runs": (
        "data_dir",
        "download",
        "threads",
        "device",
        "precision",
        "jobs",
        "smoke",
        "backend",
        "scheduler",
    ),
    "Writing the results": (
        *(
            "out",
            "out_dir",
            "probabilities",
            "clean_probs",
            "sets",
            "suspects",
            "cleaned",
            "formulas",
            "json_file",
            "quiet",
        ),
    ),
}


class Commands(TyperGroup):
    """A group of the commands in `COMMANDS` that imports only the command that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order in which the help lists them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with only a name and a help sentence, without importing it: `mgce --help` needs no more."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def invoke(self, ctx: Any) -> Any:
        """Run a command; on Ctrl-C print one line, and exit with the code of it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("Interrupted. No file is half written.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the arguments call; return its name, the command, and the arguments that remain."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}.{_nearest(args[0])}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else load_command(str(command.name)), rest


def _nearest(name: str) -> str:
    """Return a sentence that suggests the command with the most similar name; "" if no name is similar."""
    from mgce._validation import nearest

    return nearest(name, COMMANDS)


def load_command(name: str) -> Any:
    """Import a command of `COMMANDS`; group the options in its help under headings, and append an example."""
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    with one_line_if_interrupted():
        called = getattr(import_module(f"mgce.cli.{name}"), name)
    alone.command(name, epilog=f"Example: `{EXAMPLES[name]}`")(called)
    command: Any = typer.main.get_command(alone)
    under = {option: heading for heading, options in PANELS.items() for option in options}
    for option in command.params:
        if option.param_type_name == "option":
            option.rich_help_panel = under.get(option.name)
    return command


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"mgce {mgce.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Train classifiers on labels that are partly wrong."""


app = typer.Typer(
    cls=Commands,
    callback=_options,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
