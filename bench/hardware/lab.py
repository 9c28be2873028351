"""One card of this machine, and programs that run in a slice of it as jobs do: by the local runtime itself."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from runtimes import slice_library
from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Unavailable
from runtimes.contract.node import GpuView
from runtimes.contract.task import GpuShare, TaskSpec
from runtimes.gpu_sharing import MIG
from runtimes.local.runtime import LocalRuntime
from runtimes.local.slices.driver import Driver, find_driver

PROGRAMS = Path(__file__).with_name("programs")
UID = GID = 20001
LOOK_S = 0.2


class NotHere(Exception):
    """This check cannot run on this machine. The message says why."""


class Broken(Exception):
    """A program did not do what it must. The message is its end and the last of what it wrote."""


@dataclass(frozen=True)
class Said:
    """What a program answered: the JSON of its last line, and how long it took."""

    answer: dict
    took_s: float


class Lab:
    """root: a folder of its own, open to all accounts. library: the built slice library. Raises NotHere without a card.

    wheels: where packages are taken from instead of an index, None for the index. ends_at: of time.monotonic().
    """

    def __init__(self, root: Path, library: Path, *, wheels: Path | None, ends_at: float):
        self.root, self.library, self.wheels, self.ends_at = root, library, wheels, ends_at
        self.runtime = LocalRuntime(root / "data", root / "logs", root / "run", slice_library=str(library))
        self.node = self.runtime.list_nodes()[0]
        sound = [card for card in self.node.gpus if not card.simulated and not card.fault]
        self.cards = [card for card in sound if card.mode != MIG]
        if not self.cards:
            raise NotHere("No NVIDIA driver answers here, or none of its cards is well.")
        self.programs = root / "programs"
        self.programs.mkdir(mode=0o755)
        for program in PROGRAMS.glob("*.py"):
            (self.programs / program.name).write_text(program.read_text())

    @property
    def card(self) -> GpuView:
        return self.cards[0]

    @property
    def half_mib(self) -> int:
        """The slice in which all is tried: half of what can be sold of the first card."""
        return (self.card.memory_mib - self.card.reserved_mib) // 2

    @property
    def driver(self) -> Driver:
        found = find_driver()
        if found is None:
            raise NotHere("The driver's libraries were not found.")
        return found

    def left_s(self) -> float:
        """Raises NotHere when the time is over."""
        left = self.ends_at - time.monotonic()
        if left <= 0:
            raise NotHere("There was no time left for it: --minutes gives more.")
        return left

    def start(self, *argv: str, cards: Sequence[GpuView] = (), mib: int | None = None, **env: str) -> str:
        """Start a job and return its uuid. mib: of its slice of each card (by default the first one); None is half."""
        shares = tuple(
            GpuShare(card.uuid, card.index, mib or self.half_mib, 50, whole=False) for card in cards or [self.card]
        )
        spec = TaskSpec(
            uuid4().hex, "check", 1, self.node.name, f"exec {shlex.join(argv)}", env=env, gpus=shares, uid=UID, gid=GID,
            user="check", team="check", cpu_milli=1000 * max(os.cpu_count() or 1, 1), memory_mib=self.node.memory_mib,
        )  # fmt: skip
        self.runtime.start(spec)
        return spec.uuid

    def ask(self, *argv: str, within_s: float = 300, **how) -> Said:
        """Run a job to its end. Raises Broken when it fails or says nothing, NotHere when the time is over."""
        began, within_s = time.monotonic(), min(within_s, self.left_s())
        uuid = self.start(*argv, **how)
        view = self.until(uuid, "exited", within_s)
        text = self.log(uuid)
        if view is None or view.exit_code != 0:
            how_it_ended = f"ended with {view.exit_code or view.cause}" if view else f"did not end in {within_s:.0f} s"
            self.runtime.stop(uuid, 0, epoch=1)
            raise Broken(f"{how_it_ended}: {_last_words(text)}")
        return Said(_answer(text), time.monotonic() - began)

    def until(self, uuid: str, phase: str, within_s: float) -> ContainerView | None:
        """None where it does not come to that in time."""
        ends_at = time.monotonic() + within_s
        while time.monotonic() < ends_at:
            view = next((each for each in self.runtime.list_containers() if each.uuid == uuid), None)
            if view and view.phase == phase:
                return view
            time.sleep(LOOK_S)
        return None

    def wait_to_hear(self, uuid: str, within_s: float, wanted: Callable[[dict], bool] = bool) -> dict:
        """The newest answer of a job that goes on, as soon as it is one that is wanted. Raises Broken."""
        ends_at = time.monotonic() + within_s
        while time.monotonic() < ends_at:
            if "{" in (text := self.log(uuid)) and text.endswith("\n") and wanted(said := _answer(text)):
                return said
            time.sleep(LOOK_S)
        raise Broken(f"said nothing in {within_s:.0f} s: {_last_words(self.log(uuid))}")

    def log(self, uuid: str) -> str:
        return self.runtime.logs.read(uuid, 0, 1 << 20)[0].decode(errors="replace")

    def program(self, name: str) -> str:
        return str(self.programs / f"{name}.py")

    def python(self, group: str, *packages: str) -> str:
        """The interpreter of an environment that has these packages. Raises NotHere when they cannot be had in time."""
        folder = self.root / "environments" / group
        python = folder / "bin" / "python"
        if not (folder / "ready").exists():
            self._run([sys.executable, "-m", "venv", str(folder)])
            self._run([str(python), "-m", "pip", "install", "-q", *index_options(self.wheels), *packages])
            (folder / "ready").touch()
        return str(python)

    def _run(self, command: list[str]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.left_s(), check=False)
        except subprocess.TimeoutExpired:
            raise NotHere("Its packages could not be installed in time: --wheels takes them from a folder.") from None
        if done.returncode != 0:
            raise NotHere(f"Its packages could not be installed: {_last_words(done.stderr)}")

    def close(self) -> None:
        """End what runs."""
        for view in self.runtime.list_containers():
            try:
                self.runtime.stop(view.uuid, 0, epoch=1)
            except Unavailable:
                continue
            self.until(view.uuid, "exited", 10)


def index_options(wheels: Path | None) -> list[str]:
    return ["--no-index", "--find-links", str(wheels)] if wheels else []


def build_library(root: Path) -> Path:
    """Raises OSError."""
    library = root / "library"
    slice_library.build_library(library)
    return library


def _answer(text: str) -> dict:
    """The last line that is a JSON object. Raises Broken."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    raise Broken(f"gave no answer: {_last_words(text)}")


def _last_words(text: str) -> str:
    return " ".join(text.split())[-300:] or "nothing was written"
