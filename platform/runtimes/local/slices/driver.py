"""Find all copies of the NVIDIA driver's libraries."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runtimes.slice_library import SHIMS

FOLDERS = (
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/i386-linux-gnu"),
    *("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib", "/run/opengl-driver/lib"),
)
GLOBS = ("usr/local/cuda*/compat", "usr/lib/*/nvidia/*", "opt/cuda*/compat")


@dataclass(frozen=True)
class Driver:
    """Driver libraries. real: by name, the loader's choice. copies: (file, name)."""

    real: dict[str, str]
    copies: tuple[tuple[str, str], ...]


def find_driver(root: str = "/") -> Driver | None:
    """Return the libraries, None if one is missing. LD_LIBRARY_PATH first, as the loader."""
    given = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    folders = [*given, *_cached_folders(), *_usual_folders(root)]
    copies = list(dict.fromkeys(_copies(folders)))
    real: dict[str, str] = {}
    for path, name in copies:
        if name not in real and _is_native(path):
            real[name] = path
    return Driver(real, tuple(copies)) if set(real) == set(SHIMS) else None


def _cached_folders() -> Iterator[str]:
    """Yield the loader cache's folders. Source: ldconfig(8)."""
    command = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if command is None:
        return
    try:
        done = subprocess.run([command, "-p"], env={}, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.split(" ")[0] in SHIMS and path:
            yield os.path.dirname(path)


def _usual_folders(root: str) -> Iterator[str]:
    yield from (os.path.join(root, folder.lstrip("/")) for folder in FOLDERS)
    for pattern in GLOBS:
        yield from map(str, sorted(Path(root).glob(pattern)))


def _copies(folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (real file, name) of all versions."""
    for folder in dict.fromkeys(folders):
        for name in SHIMS:
            for path in sorted(Path(folder).glob(f"{name.removesuffix('.1')}*")):
                if path.is_file():
                    yield os.path.realpath(path), name


def _is_native(path: str) -> bool:
    """Return whether a library fits this Python's processor. Source: elf(5)."""
    try:
        with open(sys.executable, "rb") as mine, open(path, "rb") as file:
            wanted, found = mine.read(20), file.read(20)
    except OSError:
        return False
    return found[:4] == b"\x7fELF" and (found[4], found[18:20]) == (wanted[4], wanted[18:20])
