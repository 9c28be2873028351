"""Newest change in a folder. Standard library only: helpers of the shim import it."""

import os
from collections.abc import Iterator

MOST_ENTRIES = 10_000
"""Entries of a directory that are examined; its own mtime is the newest among added files."""


def find_newest_change(folder: str) -> float:
    """Return the newest mtime below a folder; 0.0 if missing or empty."""
    return max((changed for _, changed in zip(range(MOST_ENTRIES), _changes(folder), strict=False)), default=0.0)


def _changes(folder: str) -> Iterator[float]:
    """Yield mtimes of files and non-empty directories, following no links."""
    try:
        with os.scandir(folder) as entries:
            empty = True
            for entry in entries:
                empty = False
                if entry.is_dir(follow_symlinks=False):
                    yield from _changes(entry.path)
                else:
                    yield entry.stat(follow_symlinks=False).st_mtime
            if not empty:
                yield os.stat(folder).st_mtime
    except OSError:
        return
