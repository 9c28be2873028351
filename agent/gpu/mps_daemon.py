"""NVIDIA's MPS control daemon of one card: started, checked, never stopped while in use.

All programs on one daemon are one fault domain. Sources: NVIDIA, Multi-Process Service; docs/notes/sharing-compute.md.
Not run on hardware.
"""

import fcntl
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger("tessera.mps")

CONTROL, NAME = "nvidia-cuda-mps-control", "nvidia-cuda-mps"
"""The daemon's program; the process name of it and its server (15 characters)."""
ANSWER_S, START_S, GONE_S = 5.0, 10.0, 5.0
LONGEST_SOCKET = 107
"""Characters of a socket's path. Source: unix(7)."""


class NoMps(Exception):
    """MPS is unavailable. The message is a sentence."""


class Busy(NoMps):
    """It is faulty but in use. why: continues "MPS ..."."""

    def __init__(self, why: str, holders: Sequence[str]):
        self.why, self.holders = why, holders
        super().__init__(f"MPS {why}. It is started anew when what runs on it has ended: {', '.join(holders)}.")


@dataclass(frozen=True)
class Daemon:
    """A card's MPS. folder: its own. several_users: serve all accounts, which needs root. program: path of CONTROL."""

    uuid: str
    folder: Path
    several_users: bool
    program: str

    @property
    def pipe(self) -> Path:
        """CUDA_MPS_PIPE_DIRECTORY of its clients."""
        return self.folder / "pipe"

    def ensure(self, holders: Sequence[str]) -> None:
        """Make it run and answer. holders: names of our tasks on it; with any, it is not restarted.

        Raises Busy, NoMps, OSError.
        """
        with self._alone():
            why = self.find_fault()
            if not why:
                return
            if holders:
                raise Busy(why, holders)
            if self._processes():
                log.warning("%s: MPS %s; it is started anew, and nothing of ours runs on it", self.uuid, why)
            self._clear()
            self._start()
            if why := self.find_fault():
                self._clear()
                raise NoMps(f"MPS was started and {why}.")

    def end(self, holders: Sequence[str]) -> None:
        """Stop it once unused. Raises NoMps while in use, OSError."""
        if not self.folder.exists():
            return
        with self._alone():
            if holders:
                raise NoMps(f"MPS ends when what runs on it has ended: {', '.join(holders)}.")
            self._clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def find_fault(self) -> str:
        """Return what is wrong with it, or ""."""
        if not self._processes():
            return "does not run"
        try:
            for server in self._run_command("get_server_list").split():
                if "FAULT" in self._run_command(f"get_server_status {server}").upper():
                    return "had a fault, which ends all programs on it"
        except subprocess.TimeoutExpired:
            return f"did not answer in {ANSWER_S:g} s"
        except NoMps as error:
            return f"does not answer: {error}"
        return ""

    def servers(self) -> list[int]:
        """List servers' pids; the first program starts one. Raises NoMps."""
        try:
            return [int(word) for word in self._run_command("get_server_list").split() if word.isdecimal()]
        except subprocess.TimeoutExpired:
            raise NoMps(f"MPS did not answer in {ANSWER_S:g} s.") from None

    def _start(self) -> None:
        self.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        for path in (self.pipe, self.folder / "log"):
            path.mkdir(mode=0o755, exist_ok=True)
        if len(os.fsencode(self.pipe / "control")) > LONGEST_SOCKET:
            raise NoMps(f"The path {self.pipe} is too long for a socket in it.")
        words = [self.program, "-d", *(["-M"] if self.several_users else [])]
        errors = self.folder / "log" / "start"
        try:
            with open(errors, "wb") as file:
                done = subprocess.run(
                    words, env=self._env(), stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd="/",
                    start_new_session=True, timeout=START_S, check=False,
                )  # fmt: skip
        except subprocess.TimeoutExpired:
            self._clear()
            raise NoMps(f"MPS did not start in {START_S:g} s.") from None
        if done.returncode != 0:
            said = " ".join(errors.read_text(errors="replace").split())[-160:] or f"exit status {done.returncode}"
            whom = " for several users" if self.several_users else ""
            raise NoMps(f"MPS cannot be started{whom} with this driver: {said}")

    def _clear(self) -> None:
        """Kill what remains; call only if unused."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            until = time.monotonic() + GONE_S
            while self._processes() and time.monotonic() < until:
                time.sleep(0.05)
        shutil.rmtree(self.pipe, ignore_errors=True)

    def _processes(self) -> list[int]:
        mine = b"CUDA_MPS_PIPE_DIRECTORY=" + os.fsencode(self.pipe)
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_of(pid, mine)]

    def _run_command(self, command: str) -> str:
        """Run a control command. Raises NoMps, subprocess.TimeoutExpired."""
        done = subprocess.run(
            [self.program], env=self._env(), input=f"{command}\n", capture_output=True, text=True, cwd="/",
            timeout=ANSWER_S, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise NoMps(" ".join([*done.stderr.split(), *done.stdout.split()])[-160:] or "no words")
        return done.stdout

    def _env(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "CUDA_VISIBLE_DEVICES": self.uuid,
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
        }

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        lock = os.open(f"{self.folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def build_client_env(pipe: str, memory_mib: int, percent: int) -> dict[str, str]:
    """Return a slice's MPS variables. The memory limit is per process; the library limits the slice."""
    return {
        "CUDA_MPS_PIPE_DIRECTORY": pipe,
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(min(max(percent, 1), 100)),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={memory_mib}M",
    }


def _is_of(pid: int, variable: bytes) -> bool:
    try:
        if not Path(f"/proc/{pid}/comm").read_text().startswith(NAME):
            return False
        living = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        return living and variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
