"""What in a log looks like an error: one list, for the jump to the first one.

A program writes what it wants, so each pattern takes time in proportion to a line's length: nothing without a limit
stands before what must follow, for it would be tried anew from each place of the line.
"""

import re
from dataclasses import dataclass

from runtimes.log_reading import line_end, number_lines, strip_colours


@dataclass(frozen=True)
class Sign:
    """literal: what a line must have in any case, found fast. pattern: what decides, if that alone does not."""

    literal: bytes
    pattern: re.Pattern[bytes] | None = None


def _sign(literal: bytes, pattern: bytes = b"") -> Sign:
    return Sign(literal, re.compile(pattern, re.MULTILINE) if pattern else None)


SIGNS = (
    _sign(b"Traceback (most recent call last)"),
    _sign(b"Error", rb"(?:\b|[A-Z]\w{0,20})Error(?::|$)|\bUnhandled Error\b"),  # RuntimeError: …, Error: …
    _sign(b"Exception", rb"Exception(?::|$)"),
    _sign(b"ERROR", rb"(?<![\w-])ERROR(?![\w-])"),
    _sign(
        b"error: ", rb"(?:^|[\w.)] |: )(?:fatal |internal )?error: (?!\s*-?[\d.])"
    ),  # of compilers and tools; no metric
    _sign(b"FATAL", rb"(?<![\w-])FATAL(?![\w-])"),
    _sign(b"CRITICAL", rb"(?<![\w-])CRITICAL(?![\w-])"),
    _sign(b"panic: "),
    _sign(b"out of memory", rb"CUDA|HIP|GPU"),
    _sign(b"Out of memory"),
    _sign(b"OOM", rb"\bOOM-?[Kk]ill"),
    _sign(b"NCCL WARN", rb"NCCL WARN (?!NCCL_|Missing|MAX_)"),
    _sign(b"NCCL", rb"NCCL (?:error|ERROR|failure)|timeout|timed out"),
    _sign(b"nccl", rb"nccl(?:System|Internal|Remote|UnhandledCuda|InvalidArgument)Error"),
    _sign(b"Watchdog caught collective operation timeout"),
    _sign(b"device-side assert triggered"),
    _sign(b"Killed", rb"(?:^|[\s:])Killed(?:\s\s|\s*$)"),
    _sign(b"Segmentation fault"),
    _sign(b"Bus error"),
    _sign(b"core dumped"),
    _sign(b"No space left on device"),
    _sign(b"command not found"),
    _sign(b"xit", rb"\b[Ee]xit(?:ed)?(?: with)?(?: (?:code|status))?(?::| =|=)? ?(?:[1-9]\d*|-\d+)\b"),
    _sign(b"signal", rb"\bSIG(?:KILL|TERM)\b"),
    _sign(b"SIG", rb"\bSIG(?:SEGV|ABRT|BUS)\b"),
)


def find_errors(text: bytes) -> list[tuple[int, int]]:
    """Return the lines that look like an error, as log_reading.Places does. Colours are taken from few lines only."""
    found: set[int] = set()
    for sign in SIGNS:
        at = text.find(sign.literal)
        while at >= 0:
            begin, end = text.rfind(b"\n", 0, at) + 1, line_end(text, at)
            if begin not in found and (sign.pattern is None or sign.pattern.search(strip_colours(text[begin:end]))):
                found.add(begin)
            at = text.find(sign.literal, end)
    return number_lines(text, text, sorted(found))
