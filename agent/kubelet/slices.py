"""Install our slice library at the path that CDI specs name, and try it. Not run on hardware."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from agent.gpu.slice_selftest import LIMIT_MIB, Failed, build_command, build_environment, check_answers, read_answer
from agent.kubelet.cdi import HOOK

SHIMS = ("libcuda.so.1", "libnvidia-ml.so.1")
DRIVER = Path("/run/tessera/driver")
"""Where the shims look for the driver's libraries, as in agent/slice/Makefile."""
WITHIN_S = 60
FIND = """import ctypes, sys
ctypes.CDLL(sys.argv[1])
print(next(line.split()[-1] for line in open("/proc/self/maps") if sys.argv[1].removesuffix(".1") in line))"""


def install_library(built: Path, home: Path, boot_id: str) -> Path:
    """Install the build output atomically, and clear an earlier boot's slices. Raises OSError."""
    home.mkdir(mode=0o755, parents=True, exist_ok=True)
    boot = home / "boot"
    if not boot.exists() or boot.read_text() != boot_id:
        shutil.rmtree(home / "tasks", ignore_errors=True)
        boot.write_text(boot_id)
    for name in (*SHIMS, HOOK):
        fresh = home / f".{name}.new"
        shutil.copyfile(built / name, fresh)
        fresh.chmod(0o755)
        os.replace(fresh, home / name)
    return home


def run_selftest(built: Path, room: Path, uuid: str, driver: Path = DRIVER) -> tuple[bool, str]:
    """Run the trial without and within a slice of 64 MiB; return (success, evidence). room: a temporary folder."""
    try:
        _find_driver(driver)
        bare = _run(built, uuid, {})
        kept = _run_kept(built, room, uuid)
        return True, check_answers(bare, kept)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        return False, f"Our own library was tried and does not hold: {error}"[:300]
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _find_driver(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHIMS:
        words = [sys.executable, "-c", FIND, name]
        found = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S)
        if found.returncode != 0:
            raise Failed(f"the driver's {name} cannot be loaded by the agent.")
        link = folder / f".{name}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(found.stdout.strip())
        os.replace(link, folder / name)


def _run_kept(built: Path, room: Path, uuid: str) -> dict[str, int]:
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir(parents=True)
    for name in SHIMS:
        shutil.copyfile(built / name, room / name)  # slice files lie beside them
    words = [str(built / "slicectl"), "create", str(room), f"{uuid}={LIMIT_MIB}MiB"]
    subprocess.run(words, check=True, capture_output=True, timeout=WITHIN_S)
    return _run(built, uuid, {"LD_LIBRARY_PATH": str(room)})


def _run(built: Path, uuid: str, more: dict[str, str]) -> dict[str, int]:
    env = os.environ | more | build_environment(uuid)
    done = subprocess.run(
        build_command(built, uuid), env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_S
    )
    return read_answer(done.stdout, done.stderr)
