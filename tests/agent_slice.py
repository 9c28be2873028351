"""The slice library as tests build it, with the doubled driver behind it, and slices of it. Not run on hardware yet."""

import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtimes import slice_library

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "agent" / "slice"
KEPT = ROOT / ".pytest_cache" / "slice"
NO_COMPILER = "NO C COMPILER: the tests of the slice library were skipped. Install gcc and make."
MIB = 1 << 20
LIMIT = 64 * MIB
CARDS = [f"GPU-00000000-0000-0000-0000-{number:012x}" for number in (1, 2, 3)]
WARNINGS = ["-std=c11", "-O1", "-g", "-fPIC", "-Wall", "-Wextra", "-Werror", "-pedantic"]
STATE = struct.Struct("<3QQ" + "II3Q" * 64)  # tests/double_state.h: most of 3 cards, bookings, rows


def run(words, **more) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=110, **more)


def must(words, **more) -> str:
    done = run(words, **more)
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@dataclass
class Built:
    """One build: shims, doubles and programs under one root."""

    root: Path
    compiler: str = "gcc"
    sanitize: str = ""
    flags: str = ""

    @property
    def shims(self) -> Path:
        return self.root / "build"

    @property
    def driver(self) -> Path:
        return self.root / "driver"

    @property
    def slicectl(self) -> Path:
        return self.shims / "slicectl"

    @property
    def program(self) -> Path:
        return self.root / "program"

    def compile(self, *words) -> None:
        sanitize = [f"-fsanitize={self.sanitize}"] if self.sanitize else []
        must([self.compiler, *WARNINGS, *sanitize, *words])

    def build(self) -> "Built":
        self.driver.mkdir(parents=True)
        must([
            "make", "-s", "-j2", "-C", SOURCES,
            f"CC={self.compiler}", f"SANITIZE={self.sanitize}", f"CFLAGS={self.flags}",
            f"BUILD={self.shims}", f"DRIVER_DIR={self.driver}", f"SLICE_DIR={self.root / 'nowhere'}",
        ])  # fmt: skip
        tests, shared = SOURCES / "tests", ["-shared", "-Wl,-Bsymbolic"]
        names = f'-DNAMES="{self.shims}/cuda/names.inc"'
        cuda, nvml = self.driver / "libcuda.so.1", self.driver / "libnvidia-ml.so.1"
        doubled = [tests / f"double_{part}.c" for part in ("cuda", "tables", "names")]
        self.compile(*shared, "-Wl,-soname,libcuda.so.1", names, *doubled, "-o", cuda, "-lpthread", "-ldl")
        self.compile(*shared, "-Wl,-soname,libnvidia-ml.so.1", tests / "double_nvml.c", "-o", nvml)
        self.compile(tests / "program.c", tests / "cases.c", "-o", self.program, "-lpthread", "-ldl")
        return self


def build_once(name: str = "plain", flags: str = "") -> Built:
    """A build of these sources for all workers of a run, and for the next one. Nothing is written into it."""
    sources = [path for folder in ("src", "names", "tests") for path in sorted((SOURCES / folder).rglob("*"))]
    content = b"".join(path.read_bytes() for path in [SOURCES / "Makefile", *sources, Path(__file__)] if path.is_file())
    built = Built(KEPT / f"{name}-{hashlib.sha256(content + flags.encode()).hexdigest()[:16]}", flags=flags)
    with one_builds():
        if not (built.root / "whole").exists():
            for old in KEPT.glob(f"{name}-*"):
                shutil.rmtree(old)
            built.build()
            (built.root / "whole").touch()
    return built


def build_library_once() -> Path:
    """The library as bin/start builds it, likewise."""
    library = slice_library.library_path(KEPT / "library")
    with one_builds():
        if not slice_library.is_built(library):
            slice_library.build_library(library)
    return library


@contextmanager
def one_builds():
    KEPT.mkdir(parents=True, exist_ok=True)
    with open(KEPT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Slice:
    """A directory with the two shims and a slice's files beside them, as a task without a mount namespace has it."""

    def __init__(self, built: Built, path: Path, limits: list[int]):
        self.built, self.path, self.started = built, path, []
        path.mkdir()
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            (path / name).symlink_to(built.shims / name)
        self.control("create", *[f"{card}={limit}" for card, limit in zip(CARDS, limits, strict=False)])
        self.state = path / "books"
        self.state.write_bytes(bytes(STATE.size))

    def environment(self, library: Path | None = None, **more: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
        return inherited | {"LD_LIBRARY_PATH": str(library or self.path), "ASAN_OPTIONS": "detect_leaks=0"} | more

    def control(self, verb: str, *words) -> str:
        return must([self.built.slicectl, verb, self.path, *words])

    def show(self) -> dict:
        return json.loads(self.control("show", "--json"))

    def used(self, card: int = 0) -> int:
        return self.show()["cards"][card]["used_bytes"]

    def run(self, *words, **more: str) -> subprocess.CompletedProcess:
        return run([self.built.program, *words], env=self.environment(**more))

    def start(self, *words, library: Path | None = None, before=(), **more: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [*map(str, before), str(self.built.program), *map(str, words)],
            env=self.environment(library, **more), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def end(self) -> None:
        """End whatever was started here, by its own handle."""
        for process in self.started:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def held(self, size: int, **more) -> Any:
        """A process that has tried to allocate size bytes; .answer is what it was told."""
        process: Any = self.start("hold", size, **more)
        process.answer = int(process.stdout.readline())
        return process

    def books(self) -> tuple[int, int, list[tuple[int, int]]]:
        """Read twice until both agree: the most that ever lay on card 0, bookings, and (pid, bytes) of each row."""
        before = None
        for _ in range(1000):
            now = STATE.unpack(self.state.read_bytes())
            if now == before:
                return now[0], now[3], [(now[i], now[i + 2]) for i in range(4, len(now), 5) if now[i]]
            before = now
        raise AssertionError("the books never stood still")
