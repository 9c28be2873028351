"""The reference of the command line: every command of `tessera` with its arguments and options."""

from importlib import import_module
from typing import Any

import typer.main

from cli.main import COMMANDS

OF_ALL = {"output", "quiet", "server"}


def describe_commands() -> str:
    groups = {
        module: typer.main.get_group(import_module(f"cli.commands.{module}").commands)
        for module, _ in COMMANDS.values()
    }
    lines = [
        "# Every command and option",
        "",
        "Written from the command itself; `tessera COMMAND --help` says the same. What belongs together, exit codes",
        "and output: [The `tessera` command](../cli.md).",
        "",
        "Every command that asks the platform has these, too:",
        "",
        *_table(groups["account"].commands["whoami"], of_all=True),
    ]
    for name, (module, words) in COMMANDS.items():
        lines += _describe(groups[module].commands[name], f"tessera {name}", words, 2)
    return "\n".join(lines)


def _describe(command: Any, name: str, words: str, level: int) -> list[str]:
    """Return the section of a command, and those of the commands below it."""
    title = f"{'#' * level} `{name}` {{ #{name.removeprefix('tessera ').replace(' ', '-')} }}"
    said = " ".join((command.help or words or "").split())
    below = getattr(command, "commands", {})
    lines = [title, "", _escape(said), ""]
    if not below:
        lines += ["```", " ".join([name, *_usage(command)]), "```", "", *_table(command)]
    for inner, each in below.items():
        lines += _describe(each, f"{name} {inner}", each.short_help or "", level + 1)
    return lines


def _usage(command: Any) -> list[str]:
    """Return its arguments as they are written, optional ones in brackets."""
    names = [
        (one.metavar or one.name.upper().rstrip("_")) + ("..." if one.nargs != 1 else "") for one in _arguments(command)
    ]
    needed = [one.required for one in _arguments(command)]
    return [name if is_needed else f"[{name}]" for name, is_needed in zip(names, needed, strict=True)]


def _arguments(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "argument"]


def _table(command: Any, of_all: bool = False) -> list[str]:
    """of_all: the options that nearly all commands have, else the command's own."""
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    options = [one for one in options if (one.name in OF_ALL) == of_all]
    rows = [f"| {_names(one)} | {_escape(' '.join((one.help or '').split()))}{_usual(one)} |" for one in options]
    return ["| Option | Does |", "|---|---|", *rows, ""] if rows else []


def _names(option: Any) -> str:
    kind = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    return ", ".join(f"`{name}{kind}`" for name in [*option.opts, *option.secondary_opts])


def _usual(option: Any) -> str:
    usual = option.default
    return f" Usually `{usual}`." if isinstance(usual, str | int | float) and usual and not option.is_flag else ""


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
