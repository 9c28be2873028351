"""Cache folders made once, named by the hash of their inputs."""

import fcntl
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from dev.cluster.paths import report

MIB = 1024 * 1024


def make_once(folder: Path, make: Callable[[Path], None]) -> None:
    """Let `make` fill `folder` unless it exists, under a lock; print the cost."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            fill(folder, make)


def fill(folder: Path, make: Callable[[Path], None]) -> None:
    began = time.monotonic()
    report(f"Building {folder.name} ...", end=" ")
    new = folder.with_name(f"new-{folder.name}")
    shutil.rmtree(new, ignore_errors=True)  # of a killed run
    new.mkdir()
    try:
        make(new)
    except BaseException:
        report("failed")
        shutil.rmtree(new, ignore_errors=True)
        raise
    new.rename(folder)
    report(f"{time.monotonic() - began:.0f} s, {size_of(folder) / MIB:.0f} MiB")


def size_of(folder: Path) -> int:
    """Sum file sizes below a folder, in bytes."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
