"""Build the slice library (agent/slice) once for each version, install it for tasks, run slicectl. Raises OSError."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "agent" / "slice"
CUDA, NVML = SHIMS = ("libcuda.so.1", "libnvidia-ml.so.1")
SLICECTL, TRIAL = "slicectl", "trial"
BUILT = (*SHIMS, SLICECTL, TRIAL)
LONG = "/." * 90  # as in the Makefile: padding of the two paths
DRIVER_PLACE, SLICE_PLACE = (f"/run/tessera/{name}{LONG}".encode() for name in ("driver", "slice"))
FINGERPRINT = re.compile(r"[0-9a-f]{16}")
BUILD_WITHIN_S, ANSWER_WITHIN_S = 180, 10
IN_USE = 3  # slicectl's exit status


class InUse(OSError):
    """The slice uses more than that."""


def library_path(data: str | os.PathLike) -> Path:
    """Return where this version is built."""
    return Path(data) / "slice" / hash_sources()


def is_built(library: Path) -> bool:
    return all((library / name).is_file() for name in BUILT)


def can_build() -> bool:
    return SOURCES.is_dir() and bool(shutil.which("make")) and bool(find_compiler())


def find_compiler() -> str:
    """Return CC, a compiler found, or ""."""
    return os.environ.get("CC") or next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), "")


def build_library(library: Path) -> None:
    """Build all or nothing, remove older versions. Raises OSError."""
    if not can_build():
        raise OSError("make and a C compiler are needed (Debian: apt install gcc make libc6-dev).")
    library.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    fresh = library.with_name(f"{library.name}.{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(prefix="tessera-slice-") as room:  # make fails on spaces in paths
            _make(room)
            fresh.mkdir(mode=0o711)
            for name in BUILT:
                shutil.copy2(Path(room, name), fresh)
        for kept in library.parent.iterdir():
            if FINGERPRINT.fullmatch(kept.name) and kept != library:
                shutil.rmtree(kept, ignore_errors=True)  # tasks have copies
        os.rename(fresh, library)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def install_shim(library: Path, name: str, folder: Path, *, driver_dir: str, slice_dir: str) -> None:
    """Copy a shim and patch these paths into it."""
    content = (library / name).read_bytes()
    for place, path in ((DRIVER_PLACE, driver_dir), (SLICE_PLACE, slice_dir)):
        wanted = path.encode()
        room, odd = divmod(len(place) - len(wanted), 2)
        if room < 0 or place not in content:
            raise OSError(f"{path} is longer than the {len(place)} characters that {library / name} has room for.")
        content = content.replace(place, b"/" * odd + wanted + b"/." * room)
    target = folder / name
    target.write_bytes(content)
    target.chmod(0o755)


def create_slice(library: Path, folder: Path, limits_mib: Mapping[str, int], context_bytes: int) -> None:
    """Create a slice's files. limits_mib: by uuid."""
    cards = [f"{uuid}={mib}MiB" for uuid, mib in limits_mib.items()]
    _control(library, "create", str(folder), *cards, "--context", str(context_bytes))


def read_slice(library: Path, folder: Path) -> dict:
    """Return slicectl's {"cards": [{"uuid", "limit_bytes", "used_bytes", ...}], "processes": ...}."""
    return json.loads(_control(library, "show", str(folder), "--json"))


def resize_slice(library: Path, folder: Path, uuid: str, mib: int) -> None:
    """Set a card's limit. Raises InUse."""
    _control(library, "resize", str(folder), f"{uuid}={mib}MiB")


@cache
def hash_sources() -> str:
    """Hash sources and processor type; "none" without sources."""
    digest = hashlib.sha256(platform.machine().encode())
    files = [SOURCES / "Makefile", *sorted(SOURCES.glob("src/*")), *sorted(SOURCES.glob("names/*"))]
    if not SOURCES.is_dir():
        return "none"
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _make(room: str) -> None:
    command = ["make", "-s", "-j2", "-C", str(SOURCES), f"CC={find_compiler()}", f"BUILD={room}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(f"The compiler took longer than {BUILD_WITHIN_S} s.") from None
    if done.returncode != 0:
        raise OSError(f"The compiler failed: {' '.join(done.stderr.split())[-300:]}")


def _control(library: Path, *words: str) -> str:
    command = [str(library / SLICECTL), *words]
    try:
        done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(f"slicectl {words[0]} did not end in {ANSWER_WITHIN_S} s.") from None
    if done.returncode != 0:
        raise (InUse if done.returncode == IN_USE else OSError)(done.stderr.strip() or f"slicectl {words[0]} failed.")
    return done.stdout
