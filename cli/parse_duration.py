"""Durations."""

import re

from cli.failures import USAGE, Failure
from cli.output.safe_text import plain

_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s?)?", re.ASCII)
_SECONDS = (86_400, 3_600, 60, 1)


def read_duration(text: str | None) -> int | None:
    """Parse "90s" or "1h30m" to seconds. Raises Failure."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip().lower())
    if not found or not any(found.groups()):
        raise Failure(USAGE, f"{plain(text)} is no time. Write one such as 90s, 10m or 1h30m.")
    return sum(int(count or 0) * seconds for count, seconds in zip(found.groups(), _SECONDS, strict=True))
