"""Tables as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With what a spreadsheet begins to calculate."""


def write_csv(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a line of names and one for each row, as RFC 4180 has them.

    Text that a spreadsheet would take for a formula begins with an apostrophe: people choose names. Numbers stay.
    """
    text = io.StringIO()
    csv.writer(text).writerows([columns, *([_make_safe(value) for value in row] for row in rows)])
    return text.getvalue()


def _make_safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
