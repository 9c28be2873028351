"""The reference of settings: each variable that platform/config/settings.py reads, with what it is without one."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

SETTINGS = Path(__file__).resolve().parents[2] / "platform/config/settings.py"
SECRETS = ("env_secret", "env_optional_secret")
READER = re.compile(r"env_\w+")
ENGINE = ("URL", "TOKEN", "USER", "PASSWORD", "CA")


@dataclass(frozen=True)
class Setting:
    """A variable. default: as a person would write it. words: the comment of its line. about: that of its paragraph."""

    name: str
    reader: str
    default: str
    words: str
    about: str


def describe_settings() -> str:
    lines = [
        "# Settings",
        "",
        "Environment variables, written from `platform/config/settings.py`. Every process of an installation reads the",
        "same. A secret can be in a file instead, which the variable with `_FILE` names. How to use them:",
        "[Running Tessera for others](../admin.md).",
        "",
    ]
    for about, settings in groupby(find_settings(SETTINGS.read_text()), key=lambda one: one.about):
        lines += [_escape(about), "", *_table(list(settings)), ""]
    return "\n".join(lines)


def _table(settings: list[Setting]) -> list[str]:
    """Return the lines of a table, without a column that would be empty."""
    cells = [(_names(one), one.default and f"`{one.default}`", _escape(one.words)) for one in settings]
    head = ("Variable", "Without it", "Is")
    kept = [column for column in range(3) if column < 2 or any(row[column] for row in cells)]
    rows = [head, ("---",) * 3, *cells]
    return [f"| {' | '.join(row[column] for column in kept)} |" for row in rows]


def find_settings(source: str) -> list[Setting]:
    """Return the settings in the order of the file."""
    comments, lines = _read_comments(source), source.splitlines()
    calls = sorted(_find_calls(ast.parse(source)), key=lambda call: (call.lineno, call.col_offset))
    return [_build(call, comments, lines) for call in calls]


def _find_calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and READER.fullmatch(ast.unparse(node.func))
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node


def _build(node: ast.Call, comments: dict[int, str], lines: list[str]) -> Setting:
    [name, *more] = node.args
    reader, line = node.func.id, node.lineno  # type: ignore[attr-defined]
    default = _show(more[0]) if more else {"env_bool": "0"}.get(reader, "")
    return Setting(name.value, reader, default, _sentence(comments.get(line, "")), _about(lines, line))  # type: ignore[attr-defined]


def _read_comments(source: str) -> dict[int, str]:
    """{line: the comment behind its code}."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = [token for token in tokens if token.type == tokenize.COMMENT and not token.line.lstrip().startswith("#")]
    return {token.start[0]: token.string.lstrip("# ") for token in found}


def _about(lines: list[str], line: int) -> str:
    """Return the comment at the head of the line's paragraph, or above the line in it; "" without one."""
    row = line - 2
    while row >= 0 and lines[row].strip() and not lines[row].startswith("#"):
        row -= 1
    words: list[str] = []
    while row >= 0 and lines[row].startswith("#"):
        words.insert(0, lines[row].lstrip("# "))
        row -= 1
    return _sentence(" ".join(words))


def _show(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return (
            {True: "1", False: "0"}.get(node.value, str(node.value))
            if isinstance(node.value, bool)
            else str(node.value)
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.right, ast.BinOp):
        return (
            f"{ast.literal_eval(node.left) * ast.literal_eval(node.right.left) ** ast.literal_eval(node.right.right)}"
        )
    text = re.sub(r"str\((\w+) / '([\w.]+)'\)", r"\1/\2", ast.unparse(node))
    return re.sub(r"str\((\w+)\)", r"\1", text)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _names(one: Setting) -> str:
    if one.reader == "env_engine":
        return ", ".join(f"`{one.name}_{part}`" for part in ENGINE)
    return f"`{one.name}`" + (f", `{one.name}_FILE`" if one.reader in SECRETS else "")
