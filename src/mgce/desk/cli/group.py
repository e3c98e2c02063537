"""Make a program of commands. A command is imported only when it is called, so `mgce --help` starts quickly."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from mgce.desk.cli.main import exit_code, interrupted_by


class Commands(TyperGroup):
    """A group of commands that imports only the command that is called, from the package named by `package`."""

    package: ClassVar[str]
    sentences: ClassVar[Mapping[str, str]]
    examples: ClassVar[Mapping[str, str]]
    panels: ClassVar[Mapping[str, Sequence[str]]]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order in which the help lists them."""
        return list(self.sentences)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with only a name and a help sentence, without importing it: `mgce --help` needs no more."""
        return TyperCommand(cmd_name, help=self.sentences[cmd_name]) if cmd_name in self.sentences else None

    def invoke(self, ctx: Any) -> Any:
        """Run a command; on Ctrl-C or SIGTERM print one line, and exit with the signal's code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            typer.echo("Interrupted. No file is half written.", err=True)
            raise typer.Exit(exit_code(error)) from None

    @staticmethod
    def check(command: str, words: Sequence[str]) -> None:
        """Raise errors in the words typed after a command's name that can be found before it imports its libraries."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the arguments call; return its name, the command, and the arguments that remain."""
        if args and args[0] not in self.sentences and not args[0].startswith("-"):
            from mgce._messages import nearest

            ctx.fail(f"No such command {args[0]!r}.{nearest(args[0], self.sentences)}")
        name, command, rest = super().resolve_command(ctx, args)
        if not {"-h", "--help"} & {*rest}:
            with interrupted_by():
                self.check(str(name), rest)
        return name, None if command is None else self.load(str(command.name)), rest

    @classmethod
    def load(cls, name: str) -> Any:
        """Import and return a command; in its help, put the options under headings and an example at the end."""
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        with interrupted_by():
            called = getattr(import_module(f"{cls.package}.{name}"), name)
        alone.command(name, epilog=f"Example: `{cls.examples[name]}`")(called)
        command: Any = typer.main.get_command(alone)
        under = {option: heading for heading, options in cls.panels.items() for option in options}
        for option in command.params:
            if option.param_type_name == "option":
                option.rich_help_panel = under.get(option.name)
        return command


def program(version: str, sentence: str, group: type[Commands]) -> typer.Typer:
    """Return the program of a group of commands, with the text that `--version` prints and the sentence of its help."""

    def print_version(asked: bool) -> None:
        if asked:
            typer.echo(version)
            raise typer.Exit

    def options(
        version: Annotated[
            bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
        ] = False,
    ) -> None: ...

    options.__doc__ = sentence
    return typer.Typer(
        cls=group,
        callback=options,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
