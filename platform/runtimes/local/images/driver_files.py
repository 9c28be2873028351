"""The driver's files that a task in an image gets from this machine: by CDI where there is a specification, else from
the linker's cache.

Tested by tables, not run on hardware yet. Sources: Container Device Interface 0.6; ldconfig(8).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from runtimes.local.shim.rootfs.task_image import DRIVER_FOLDER
from runtimes.slice_library import SHIMS

CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
KIND = "nvidia.com/gpu"
LIBRARY = re.compile(
    r"lib(cuda|nvcuvid|nvidia-(ml|ptxjitcompiler|nvvm|gpucomp|cfg|encode|opticalflow|allocator|pkcs11.*|cbl|fbc|sandboxutils))"
    r"\.so(\.\d+)*"
)
"""Of the driver's libraries, those that programs which compute load; the others draw."""
PROGRAMS = ("nvidia-smi", "nvidia-debugdump")


def find_driver_files(*, with_slice: bool) -> list[tuple[str, str]]:
    """Return (file of the machine, path in the task). with_slice: without those that our library stands in for."""
    hidden = SHIMS if with_slice else ()
    specified = list(list_specified(read_specifications(CDI_FOLDERS), hidden))
    return specified or [*list_cached(read_linker_cache(), hidden), *_list_programs()]


def list_specified(specifications: Iterable[dict[str, Any]], hidden: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the files that the specifications of NVIDIA's cards mount. Pure."""
    seen = set()
    for said in specifications:
        if said.get("kind") != KIND:
            continue
        edits = [
            said.get("containerEdits") or {},
            *(each.get("containerEdits") or {} for each in said.get("devices") or ()),
        ]
        for mount in (mount for edit in edits for mount in edit.get("mounts") or ()):
            source, target = mount["hostPath"], place_file(mount["containerPath"])
            if target is not None and target not in seen and not _is_hidden(source, hidden):
                seen.add(target)
                yield source, target


def list_cached(cache: str, hidden: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the driver's libraries by the text of `ldconfig -p`, the first of each name. Pure."""
    seen = set()
    for line in cache.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        name = name.split(" ")[0]
        if arrow and LIBRARY.fullmatch(name) and name not in seen and not _is_hidden(name, hidden):
            seen.add(name)
            yield path, f"{DRIVER_FOLDER}/lib64/{name}"


def place_file(path: str) -> str | None:
    """Return where a file of the driver lies in a task; None for what is neither library nor program."""
    name = os.path.basename(path)
    if LIBRARY.fullmatch(name):
        return f"{DRIVER_FOLDER}/lib64/{name}"
    return f"{DRIVER_FOLDER}/bin/{name}" if name in PROGRAMS else None


def read_specifications(folders: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield what CDI's files say; JSON is YAML, too. Unreadable ones are skipped."""
    for path in (
        path for folder in folders for path in sorted(Path(folder).glob("*")) if path.suffix in (".json", ".yaml")
    ):
        try:
            said = yaml.safe_load(path.read_text())
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if isinstance(said, dict):
            yield said


def read_linker_cache() -> str:
    """Return what `ldconfig -p` prints, "" without it."""
    command = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if command is None:
        return ""
    try:
        return subprocess.run([command, "-p"], env={}, capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _list_programs() -> Iterator[tuple[str, str]]:
    for name in PROGRAMS:
        if path := shutil.which(name):
            yield path, f"{DRIVER_FOLDER}/bin/{name}"


def _is_hidden(path: str, hidden: Collection[str]) -> bool:
    """Return whether a library is one of these, in any version: libcuda.so.1 hides libcuda.so.550.54.15."""
    name = os.path.basename(path)
    return any(name.split(".so")[0] == each.split(".so")[0] for each in hidden)
