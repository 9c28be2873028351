"""Build the Python environment of notebooks: `python -m notebooks.build_environment DATA`.

Run at each bin/start; an interrupted run begins anew. The ready file is written last.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from notebooks.environment import (
    FAILED,
    LOCK,
    PREPARING,
    READY,
    drop_environment,
    environment_home,
    environment_path,
    python_of,
    write_state,
)

NICE = 15
TIMEOUT_S = 1800
KEPT_WORDS = 1500
NEEDED_MIB = 700
"""What an environment takes at most, compiled and with what is downloaded for it."""
NOBODY = 65_534
OLDEST = (3, 11)
NAME = f"python{sys.version_info[0]}.{sys.version_info[1]}"
MACHINES = ("/usr/bin/python3", "/usr/local/bin/python3")

# Announcements query the internet. JupyterLab is not built anew, and to ask whether it should be takes a second of the
# server while the page loads.
PAGE_CONFIG = {
    "buildAvailable": False,
    "buildCheck": False,
    "disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True},
}


class Unprepared(Exception):
    """The preparation failed, with a reason."""


def main(arguments: list[str]) -> int:
    data = Path(arguments[0])
    home = environment_home(data)
    home.mkdir(mode=0o755, exist_ok=True)
    with open(home / "lock", "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0  # another process prepares it
        os.nice(NICE)
        os.umask(0o022)  # jobs under other accounts read it
        return prepare_environment(data)


def prepare_environment(data: Path) -> int:
    """Build the environment if it is missing. Returns 0 when ready."""
    target = environment_path(data)
    if (target / READY).exists():
        return 0
    try:
        write_state(data, PREPARING, "making")
        drop_environment(target)  # from an interrupted run
        check_room(data)
        make_environment(target)
        write_state(data, PREPARING, "installing")
        install_packages(target)
        try_as_other_user(target)
        (target / READY).touch()
        write_state(data, READY, "compiling")
    except (Unprepared, OSError, subprocess.SubprocessError) as error:
        write_state(data, FAILED, "installing", str(error)[-KEPT_WORDS:])
        print(error, file=sys.stderr)
        return 1
    compile_all(target)
    write_state(data, READY, "done")
    return 0


def check_room(data: Path) -> None:
    """Raise Unprepared where it would fill the disk, on which the platform lives, too."""
    free = shutil.disk_usage(data).free >> 20
    if free < NEEDED_MIB:
        words = f"It takes {NEEDED_MIB} MiB, and the disk of {data} has {free} MiB free."
        raise Unprepared(f"{words} Free some space, then start Tessera again.")


def make_environment(target: Path) -> None:
    """Create an empty environment that also sees the packages of the system and of the user's home."""
    python = choose_python() or copy_python(target)
    argv = [str(python), "-I", "-m", "venv", "--without-pip", "--system-site-packages", str(target)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise Unprepared(done.stderr.strip() or f"venv ended with status {done.returncode}")
    pages = target / "etc/jupyter/labconfig"
    pages.mkdir(parents=True)
    (pages / "page_config.json").write_text(json.dumps(PAGE_CONFIG))


def choose_python() -> Path | None:
    """Return our interpreter if jobs can use it, else a new enough one of the system."""
    own = Path(sys.base_prefix, "bin", NAME)
    if os.geteuid() != 0:
        return own
    ask = f"import sys, venv, ssl, sqlite3; sys.exit(sys.version_info < {OLDEST})"
    for python in (own, *map(Path, MACHINES)):
        if python.exists() and is_everybodys(python) and _says_yes(python, ask):
            return python
    return None


def _says_yes(python: Path, ask: str) -> bool:
    return subprocess.run([str(python), "-I", "-c", ask], capture_output=True, timeout=60).returncode == 0


def is_everybodys(path: Path) -> bool:
    """Whether every account can reach the path: root's Python is often in root's home."""
    whole = path.resolve()
    return all(part.stat().st_mode & 0o001 for part in (whole, *whole.parents))


def copy_python(target: Path) -> Path:
    """Copy the interpreter, for jobs under other accounts."""
    base, library = target / "base", f"lib/{NAME}"
    skip = shutil.ignore_patterns("site-packages", "test", "idlelib", "tkinter", "config-*", "__pycache__")
    shutil.copytree(Path(sys.base_prefix, library), base / library, ignore=skip, symlinks=True)
    (base / "bin").mkdir()
    return Path(shutil.copy(Path(sys.base_prefix, "bin", NAME).resolve(), base / "bin" / NAME))


def try_as_other_user(target: Path) -> None:
    """Raise Unprepared unless another account can import JupyterLab."""
    other: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    argv = [str(python_of(target)), "-s", "-c", "import ssl, sqlite3, jupyterlab"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, cwd="/", **other)
    except PermissionError:
        words = f"{target} lies where the accounts of jobs cannot pass. Take another place: --data DIR"
        raise Unprepared(words) from None
    if done.returncode:
        raise Unprepared(done.stderr.strip())


def install_packages(target: Path) -> None:
    """Install exactly the lock file. Raises Unprepared."""
    argv = [sys.executable, "-m", "pip", "--python", str(python_of(target)), "install", "--require-hashes"]
    argv += ["--only-binary", ":all:", "--ignore-installed", "--no-compile", "--no-input", "--no-deps"]
    argv += ["--disable-pip-version-check", "--quiet", "-r", str(LOCK)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise Unprepared(done.stderr.strip() or f"pip ended with status {done.returncode}")


def compile_all(target: Path) -> None:
    """Compile the environment, as notebooks see it read-only."""
    argv = [str(python_of(target)), "-m", "compileall", "-q", str(target / "lib")]
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
