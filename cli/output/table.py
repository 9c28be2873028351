"""Aligned columns, cut to the terminal's width."""

import csv
import io
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cli.output.safe_text import cut, plain, width

GAP = 2


@dataclass(frozen=True)
class Column:
    """least: the width that it may be cut to; 0 = never cut."""

    title: str
    least: int = 0
    right: bool = False


def terminal_width() -> int:
    """Return the width of the terminal; 0 = no limit."""
    if os.environ.get("COLUMNS", "").isdecimal() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return 0


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], most: int) -> list[str]:
    cells = [[column.title for column in columns], *([plain(cell) for cell in row] for row in rows)]
    widths = [max(width(row[i]) for row in cells) for i in range(len(columns))]
    if most:
        widths = _squeeze(columns, widths, most - GAP * (len(columns) - 1))
    return [_line(columns, widths, row) for row in cells]


def write_csv(rows: Sequence[Sequence[str]]) -> list[str]:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([plain(cell) for cell in row] for row in rows)
    return text.getvalue().splitlines()


def _squeeze(columns: Sequence[Column], widths: list[int], room: int) -> list[int]:
    """Narrow the widest columns until all fit."""
    widths = list(widths)
    while sum(widths) > room:
        givers = [i for i, column in enumerate(columns) if column.least and widths[i] > column.least]
        if not givers:
            break
        widths[max(givers, key=lambda i: widths[i] - columns[i].least)] -= 1
    return widths


def _line(columns: Sequence[Column], widths: Sequence[int], row: Sequence[str]) -> str:
    cells = []
    for column, room, text in zip(columns, widths, row, strict=True):
        text = cut(text, room)
        space = " " * (room - width(text))
        cells.append(space + text if column.right else text + space)
    return (" " * GAP).join(cells).rstrip()
