"""The entry point: `mgce COMMAND`."""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    """Run the command line; a mistake in the input is one sentence and exit code 2."""
    try:
        for package in ("pandas", "rich", "skops", "typer"):
            import_module(package)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"Error: the command line needs {error.name}: run `pip install 'mgce[cli]'`.\n")
        sys.exit(2)
    import typer

    from mgce._text import printable
    from mgce.cli import benchmark, certify, compare, env, fit, predict, report, reproduce

    app = typer.Typer(
        help="Train classifiers on labels that are partly wrong.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.command()(compare.compare)
    app.command()(reproduce.reproduce)
    app.command()(benchmark.benchmark)
    app.command()(report.report)
    app.command()(fit.fit)
    app.command()(predict.predict)
    app.command()(certify.certify)
    app.command()(env.env)
    try:
        app()
    except (ValueError, OSError) as error:
        sys.stderr.write(f"Error: {printable(str(error))}\n")
        sys.exit(2)
