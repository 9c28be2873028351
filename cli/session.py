"""What commands share: common options, output, and failures as exit codes."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from cli.failures import USAGE, Failure
from cli.http.credentials import find_server, read_token
from cli.http.transport import Client, compare_versions
from cli.output.safe_text import plain, width
from cli.output.table import Column, lay_out, terminal_width, write_csv


class Output(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"
    name = "name"
    csv = "csv"


@dataclass
class Session:
    """The context's `obj`: options and output. Results go to stdout, the rest to stderr.

    watching: output replaces the output before (cli/watching.py).
    """

    output: Output = Output.table
    quiet: bool = False
    server: str | None = None
    watching: bool = False
    _printed: list[str] = field(default_factory=list)
    _notes_printed: set[str] = field(default_factory=set)

    @property
    def wants_data(self) -> bool:
        return self.output in {Output.json, Output.yaml}

    def client(self) -> Client:
        server = find_server(self.server)
        return Client(server, read_token(server), quiet=self.quiet)

    def other_version(self) -> str:
        """Return a hint that versions differ, or ""."""
        try:
            return compare_versions(str(self.anonymous_client().get("/version")["version"]))
        except (Failure, KeyError, TypeError):
            return ""

    def anonymous_client(self) -> Client:
        """Return a client without token, for public addresses."""
        return Client(find_server(self.server), quiet=True, timeout_s=10.0, patient=False)

    def print_note(self, text: str) -> None:
        if self.quiet or (self.watching and text in self._notes_printed):
            return
        self._notes_printed.add(text)
        print(plain(text), file=sys.stderr, flush=True)

    def show(self, answer: Any, names: Sequence[str], lines: Sequence[str]) -> None:
        """Print the API's answer, its names, or lines, by -o."""
        if self.wants_data:
            self._print_lines(self._format_data(answer).split("\n"))
        else:
            self._print_lines([plain(line) for line in (names if self.output is Output.name else lines)])

    def show_next(self, data: Any, name: str, line: str) -> None:
        """Print one item of a stream, by -o."""
        if self.output is Output.json:
            line = json.dumps(data, ensure_ascii=sys.stdout.encoding.lower() != "utf-8", separators=(",", ":"))
        elif self.output is Output.yaml:
            line = f"---\n{self._format_data(data)}"
        else:
            line = plain(name if self.output is Output.name else line)
        print(line, flush=True)

    def _format_data(self, answer: Any) -> str:
        ascii_only = sys.stdout.encoding.lower() != "utf-8"
        if self.output is Output.yaml:
            return import_module("cli.output.yaml_output").dump(answer, ascii_only=ascii_only)
        return json.dumps(answer, indent=2, ensure_ascii=ascii_only)

    def _print_lines(self, lines: list[str]) -> None:
        """Print lines; while watching, replace those before."""
        if self.watching and lines == self._printed:
            return
        if self._printed and self.watching and sys.stdout.isatty():
            rows = sum(max(1, -(-width(line) // (terminal_width() or 80))) for line in self._printed)
            print(f"\x1b[{rows}F\x1b[J", end="")
        self._printed = lines
        for line in lines:
            print(line)
        sys.stdout.flush()

    def show_table(
        self, answer: Any, names: Sequence[str], columns: Sequence[Column], rows: Sequence[Sequence[str]], empty: str
    ) -> None:
        if self.output is Output.csv:
            self._print_lines(write_csv([[column.title for column in columns], *rows]))
            return
        lines = lay_out(columns, rows, terminal_width()) if rows else []
        self.show(answer, names, lines)
        if not rows and self.output is Output.table:
            self.print_note(empty)


def _common(
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="What to print: json and yaml are what the API answers.")
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


class LightReader:
    """Reads texts and lists; leaves the rest to typer's reader, whose pydantic takes as long to import as all else."""

    def __init__(self, usual: Callable[[], Any]):
        self.usual = usual

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(kind, type) and isinstance(value, kind):
            return value
        if kind == list[str]:
            return list(value)
        return self.usual().coerce(value, param=param, ctx=ctx)


def use_light_reader(param: Any) -> Any:
    if "get_runtime_param" not in vars(param):
        reader = LightReader(param.get_runtime_param)
        param.get_runtime_param = lambda: reader
    return param


class WithCommonOptions:
    """Mixin that adds the common options, and has typer read parameters without its slow lookup."""

    def __init__(self, *args: Any, params: list | None = None, **others: Any):
        super().__init__(*args, params=[*(params or []), *COMMON], **others)  # type: ignore[call-arg]

    def get_params(self, ctx: Any) -> list:
        return [use_light_reader(param) for param in super().get_params(ctx)]  # type: ignore[misc]

    def invoke(self, ctx: Any) -> Any:
        read_common_options(ctx)
        return super().invoke(ctx)  # type: ignore[misc]


class Command(WithCommonOptions, TyperCommand):
    pass


class Group(WithCommonOptions, TyperGroup):
    """Commands under one noun, such as `nb start`."""


def read_common_options(ctx: Any) -> None:
    """Move common options to the session; the innermost win."""
    session = ctx.ensure_object(Session)
    for option in COMMON:
        value = ctx.params.pop(option.name)
        if value:
            setattr(session, option.name, value)


def new_commands() -> typer.Typer:
    """Return a group to register commands on."""
    return typer.Typer(cls=Group, add_completion=False, rich_markup_mode=None, no_args_is_help=True)


def fail(failure: Failure) -> typer.Exit:
    for line in failure.lines:
        print(plain(line), file=sys.stderr)
    return typer.Exit(failure.exit_code)


def split_setting(pair: str) -> tuple[str, str]:
    """Split KEY=VALUE. Raises Failure."""
    key, equals, value = pair.partition("=")
    if not equals or not all(key.split(".")):
        raise Failure(USAGE, f"{plain(pair)}: write it as KEY=VALUE, such as gpu=1/2")
    return key, value
