"""Run the program `mgce-lab COMMAND`."""

from mgce.desk.cli.main import run


def main() -> None:
    """Run the command line of `mgce-lab`."""
    run("mgce_lab.cli.commands")
