"""What every command shares: the options that all of them take, where output goes, and failures as exit codes."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cli.credentials import find_server, find_token
from cli.failures import Failure
from cli.table import Column, lay_out, terminal_width
from cli.text import plain
from cli.transport import Client


class Output(StrEnum):
    table = "table"
    json = "json"
    name = "name"


@dataclass
class Session:
    """The context's `obj`. Results go to stdout, what only accompanies them to stderr."""

    output: Output = Output.table
    quiet: bool = False
    server: str | None = None

    def client(self) -> Client:
        server = find_server(self.server)
        return Client(server, find_token(server), quiet=self.quiet)

    def note(self, text: str) -> None:
        if not self.quiet:
            print(plain(text), file=sys.stderr, flush=True)

    def show(self, answer: Any, names: Sequence[str], lines: Sequence[str]) -> None:
        """One of the three, by -o: what the API answered, the names in it, or lines for people."""
        if self.output is Output.json:
            print(json.dumps(answer, indent=2, ensure_ascii=sys.stdout.encoding.lower() != "utf-8"))
        else:
            for line in names if self.output is Output.name else lines:
                print(plain(line))

    def show_table(
        self, answer: Any, names: Sequence[str], columns: Sequence[Column], rows: Sequence[Sequence[str]], empty: str
    ) -> None:
        lines = lay_out(columns, rows, terminal_width()) if rows else []
        self.show(answer, names, lines)
        if not rows and self.output is Output.table:
            self.note(empty)


def _common(
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="What to print: json is what the API answers.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")] = False,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="Else TESSERA_URL, else that of the last login.")
    ] = None,
) -> None:
    """The options of every command, before or after its name."""


_options = typer.Typer(add_completion=False)
_options.command()(_common)
COMMON = typer.main.get_command(_options).params


class Command(TyperCommand):
    """A command that also takes the common options."""

    def __init__(self, *args: Any, params: list | None = None, **others: Any):
        super().__init__(*args, params=[*(params or []), *COMMON], **others)

    def invoke(self, ctx: Any) -> Any:
        take_common(ctx)
        return super().invoke(ctx)


def take_common(ctx: Any) -> None:
    """Move the common options from the command line to the session; what stands nearer to the command wins."""
    session = ctx.ensure_object(Session)
    for option in COMMON:
        value = ctx.params.pop(option.name)
        if value:
            setattr(session, option.name, value)


def new_commands() -> typer.Typer:
    """What a module of commands registers them on: `@commands.command("ps", cls=Command)`."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def fail(failure: Failure) -> typer.Exit:
    for line in failure.lines:
        print(plain(line), file=sys.stderr)
    return typer.Exit(failure.exit_code)
