"""When something in a folder changed last. Standard library only: a child of the shim looks with it too."""

import os
from collections.abc import Iterator

MOST_ENTRIES = 10_000
"""Of a directory with more only so many are looked at; its own time is the newest of those that were added."""


def newest_change(folder: str) -> float:
    """In seconds since the epoch; 0.0 where there is no such directory, or nothing in it."""
    return max((changed for _, changed in zip(range(MOST_ENTRIES), _changes(folder), strict=False)), default=0.0)


def _changes(folder: str) -> Iterator[float]:
    """When each file below was changed, and each directory that holds something. Links lead nowhere."""
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
        return  # not there yet, or moved away while we looked
