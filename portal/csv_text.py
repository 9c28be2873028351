"""Tables as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence


def write_csv(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a line of names and one for each row, as RFC 4180 has them."""
    text = io.StringIO()
    csv.writer(text).writerows([columns, *rows])
    return text.getvalue()
