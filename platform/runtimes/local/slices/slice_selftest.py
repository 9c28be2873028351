"""Self-test of the slice library, once for each driver.

agent/slice/src/trial.c runs bare for the card's facts, then as a job in a 64 MiB slice: it must see 64 MiB in CUDA and
NVML, get half, and be refused a MiB above the rest. Not run on hardware yet.
"""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pynvml

from agent.gpu.memory_by_process import read_memory_by_process
from agent.gpu.mps import Daemon, NoMps
from agent.gpu.slice_selftest import LIMIT_MIB, Failed, judge
from runtimes import slice_library
from runtimes.contract.task import GpuShare, TaskSpec
from runtimes.gpu_sharing import SliceTrial
from runtimes.local.node.isolation_probe import NOBODY, run_python
from runtimes.local.plan import Surroundings, build_plan
from runtimes.local.slices.driver import Driver, find_driver
from runtimes.local.slices.slice_dirs import SliceKeeper, make_slice
from runtimes.storage.file_lock import alone

OFF = "off"
ROOM_MIB = 1024  # contexts count for MPS, not for us
WITHIN_S = 60


@dataclass(frozen=True)
class Room:
    """Directories of a test. folder: the slice's; seen_at: that in the job."""

    folder: Path
    scratch: str
    seen_at: str


def try_slice(
    library: Path, data_dir: Path, around: Surroundings, room: Room, driver_version: str, uuid: str
) -> SliceTrial:
    """Return a cached success, or test the library."""
    if not slice_library.is_built(library):
        return SliceTrial(False, "Our own library is not built: run bin/slice build and start anew.")
    driver = find_driver()
    if driver is None:
        return SliceTrial(False, "The driver's libcuda.so.1 or libnvidia-ml.so.1 was not found on this machine.")
    key = [str(library), driver_version, driver.real, around.isolation.words, around.isolation.namespaces]
    notes = data_dir / "slice-trial.json"
    try:
        with alone(data_dir / ".slice-trial"):  # others wait, then read the result
            if (known := _remembered(notes, key)) is not None:
                return known
            found = _try(library, driver, around, room, uuid)
            notes.write_text(json.dumps({"key": key, "trial": asdict(found)}))
            return found
    except (Failed, OSError) as error:
        return SliceTrial(False, f"Our own library was tried: {error}")
    finally:
        _clear(room)


def _clear(room: Room) -> None:
    for path in (room.folder, room.scratch):
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        room.folder.parent.rmdir()


def _remembered(notes: Path, key: list) -> SliceTrial | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(notes.read_text())
        if known["key"] == key:
            return SliceTrial(**known["trial"])
    return None


def try_mps(
    library: Path,
    data_dir: Path,
    around: Surroundings,
    room: Room,
    key: Sequence[str],
    uuid: str,
    mps: dict,
    daemon: Daemon,
) -> None:
    """Test through MPS; cache success. key: conditions, such as driver version. Raises OSError."""
    driver, known, notes = find_driver(), [str(library), *key], data_dir / "mps-trial.json"
    if driver is None:
        raise OSError("The driver's libraries were not found on this machine.")
    try:
        with alone(data_dir / ".mps-trial"):
            if _remembered(notes, known) is not None:
                return
            mps = mps | {"env": mps["env"] | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={2 * LIMIT_MIB + ROOM_MIB}M"}}
            bare, _ = _run_bare(library, uuid)
            words = judge(bare, _run_kept(library, driver, around, room, uuid, mps))
            if not daemon.servers():
                raise Failed("the program worked and did not come to it.")
            notes.write_text(json.dumps({"key": known, "trial": asdict(SliceTrial(True, words))}))
    except (Failed, NoMps) as error:
        raise OSError(str(error)) from error
    finally:
        _clear(room)


def _try(library: Path, driver: Driver, around: Surroundings, room: Room, uuid: str) -> SliceTrial:
    bare, context_mib = _run_bare(library, uuid)
    kept = _run_kept(library, driver, around, room, uuid)
    return SliceTrial(True, judge(bare, kept), context_mib << 20)


def _run_bare(library: Path, uuid: str) -> tuple[dict, int]:
    """Return (answer, MiB of its context)."""
    ours = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    command = [str(library / slice_library.TRIAL), uuid, str(LIMIT_MIB << 20)]
    with subprocess.Popen(
        command,
        env=ours | _card(uuid),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin and program.stdout
        context_mib = _used_mib(uuid, program.pid) if program.stdout.readline() else 0
        try:
            out, errors = program.communicate(timeout=WITHIN_S)
        except subprocess.TimeoutExpired:
            program.kill()
            raise Failed(f"the program without it did not end in {WITHIN_S} s.") from None
    return _answer(out, errors, "without it"), context_mib


def _run_kept(
    library: Path, driver: Driver, around: Surroundings, room: Room, uuid: str, mps: dict | None = None
) -> dict:
    share = GpuShare(uuid, 0, LIMIT_MIB, 1, whole=False)
    isolation = around.isolation
    gpu_slice = make_slice(
        room.folder, room.seen_at, SliceKeeper(library, driver, 0), [share],
        namespaces=isolation.namespaces, uid=NOBODY if isolation.own_uid else None,
    )  # fmt: skip
    shutil.copy(library / slice_library.TRIAL, room.folder)
    run = shlex.join([f"{gpu_slice['seen_at']}/{slice_library.TRIAL}", uuid, str(LIMIT_MIB << 20)])
    spec = TaskSpec("", "trial", 0, "", run, env=_card(uuid), uid=NOBODY, gid=NOBODY, grace_s=0)
    around = replace(around, files=None)
    plan = build_plan(spec, around, scratch=room.scratch, log="", cpus=[], gpu_slice=gpu_slice, mps=mps)
    plan["plan"]["env"] |= _card(uuid)
    record = room.folder / "trial.json"
    record.write_text(json.dumps(plan))
    command = run_python("from runtimes.local.slices.selftest_program import main; main(*sys.argv[1:])", str(record))
    try:
        done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"the program did not end in {WITHIN_S} s.") from None
    return _answer(done.stdout, done.stderr, "with it")


def _card(uuid: str) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def _used_mib(uuid: str, pid: int) -> int:
    try:
        return read_memory_by_process(pynvml.nvmlDeviceGetHandleByUUID(uuid)).get(pid, 0)
    except pynvml.NVMLError:
        return 0  # the watch corrects it


def _answer(out: str, errors: str, how: str) -> dict:
    lines = [line for line in out.splitlines() if line.strip() not in ("", "ready")]
    with suppress(IndexError, ValueError):
        answer = json.loads(lines[-1])
        if isinstance(answer, dict):
            return answer
    words = " ".join([*errors.split(), *out.split()])[-160:]
    raise Failed(f"{how} a program fails: {words or 'it says nothing'}.")
