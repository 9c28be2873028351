"""Self-test of the slice library, once for each driver.

agent/slice/src/trial.c runs bare for the card's facts, then as a job in a 64 MiB slice: it must see 64 MiB in CUDA and
NVML, get half, and be refused a MiB above the rest. Not run on hardware yet.
"""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pynvml

from agent.gpu.memory_by_process import read_memory_by_process
from agent.gpu.mps_daemon import Daemon
from agent.gpu.slice_selftest import (
    LIMIT_MIB,
    PROGRAM,
    Failed,
    build_command,
    build_environment,
    check_answers,
    read_answer,
)
from runtimes.contract.task import GpuShare, TaskSpec
from runtimes.gpu_sharing import SliceTrial
from runtimes.local.config import NodeContext
from runtimes.local.node.isolation_probe import NOBODY, run_python
from runtimes.local.plan import build_plan
from runtimes.local.slices.driver import Driver
from runtimes.local.slices.slice_directory import make_slice_directory
from runtimes.storage.file_lock import hold_file_lock

ROOM_MIB = 1024  # contexts count for MPS, not for us
WITHIN_S = 60


@dataclass(frozen=True)
class Selftest:
    """One test on one card. folder: the slice's; seen_at: that in the job."""

    library: Path
    driver: Driver
    node: NodeContext
    folder: Path
    seen_at: str
    uuid: str

    def run(self, mps: dict | None = None) -> SliceTrial:
        """Run the program without and within a slice. Raises Failed, OSError."""
        bare, context_mib = self._run_bare()
        return SliceTrial(True, check_answers(bare, self._run_in_slice(mps)), context_mib << 20)

    def run_by_mps(self, mps: dict, daemon: Daemon) -> SliceTrial:
        """Run it through an MPS daemon. Raises Failed, NoMps, OSError."""
        limit = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={2 * LIMIT_MIB + ROOM_MIB}M"}
        found = self.run(mps | {"env": mps["env"] | limit})
        if not daemon.servers():
            raise Failed("the program worked and did not come to it.")
        return found

    def clear(self) -> None:
        for path in (self.folder, self._scratch):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            self.folder.parent.rmdir()

    @property
    def _scratch(self) -> str:
        return f"{self.folder}-scratch"

    def _run_bare(self) -> tuple[dict, int]:
        """Return (answer, MiB of its context)."""
        ours = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        with subprocess.Popen(
            build_command(self.library, self.uuid),
            env=ours | build_environment(self.uuid),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdin and program.stdout
            context_mib = _used_mib(self.uuid, program.pid) if program.stdout.readline() else 0
            try:
                out, errors = program.communicate(timeout=WITHIN_S)
            except subprocess.TimeoutExpired:
                program.kill()
                raise Failed(f"the program without it did not end in {WITHIN_S} s.") from None
        return read_answer(out, errors, "without it"), context_mib

    def _run_in_slice(self, mps: dict | None) -> dict:
        share = GpuShare(self.uuid, 0, LIMIT_MIB, 1, whole=False)
        gpu_slice = make_slice_directory(
            self.folder, self.seen_at, self.library, self.driver, [share], self.node.isolation, NOBODY
        )
        shutil.copy(self.library / PROGRAM, self.folder)
        run, env = shlex.join(build_command(gpu_slice["seen_at"], self.uuid)), build_environment(self.uuid)
        spec = TaskSpec("", "trial", 0, "", run, env=env, uid=NOBODY, gid=NOBODY, grace_s=0)
        node = replace(self.node, files=None)
        plan = build_plan(spec, node, scratch=self._scratch, log="", cpus=[], gpu_slice=gpu_slice, mps=mps)
        plan["plan"]["env"] |= env
        record = self.folder / "trial.json"
        record.write_text(json.dumps(plan))
        command = run_python("from runtimes.local.shim.child import run_alone; run_alone(*sys.argv[1:])", str(record))
        try:
            done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"the program did not end in {WITHIN_S} s.") from None
        return read_answer(done.stdout, done.stderr, "with it")


def remember_success(data_dir: Path, name: str, key: list, test: Callable[[], SliceTrial]) -> SliceTrial:
    """Return the success stored for `key`, else test; others wait, then read it. Raises what `test` raises."""
    stored = data_dir / f"{name}.json"
    with hold_file_lock(data_dir / f".{name}"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(stored.read_text())
            if known["key"] == key:
                return SliceTrial(**known["trial"])
        found = test()
        stored.write_text(json.dumps({"key": key, "trial": asdict(found)}))
        return found


def _used_mib(uuid: str, pid: int) -> int:
    try:
        return read_memory_by_process(pynvml.nvmlDeviceGetHandleByUUID(uuid)).get(pid, 0)
    except pynvml.NVMLError:
        return 0  # the watch corrects it
