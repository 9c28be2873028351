"""Prepare the environment that notebooks run from: `python -m notebooks.prepare DATA`, beside the open portal.

Started by bin/start each time, at low priority; it ends at once where the environment is there. What was cut off is
begun anew, from the downloads that pip kept. The environment counts from the moment its stamp is written, last.
"""

import fcntl
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
NOBODY = 65_534
OLDEST = (3, 11)
NAME = f"python{sys.version_info[0]}.{sys.version_info[1]}"
MACHINES = ("/usr/bin/python3", "/usr/local/bin/python3")

# Pages that ask the internet for news are switched off here, where no notebook's own settings can forget it.
PAGE_CONFIG = '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}\n'


class Unprepared(Exception):
    """It did not work; the words say why, the installer's own where it spoke."""


def main(arguments: list[str]) -> int:
    data = Path(arguments[0])
    home = environment_home(data)
    home.mkdir(mode=0o755, exist_ok=True)
    with open(home / "lock", "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0  # another one is at it
        os.nice(NICE)
        os.umask(0o022)  # jobs run under accounts of their own, and read it
        return prepare(data)


def prepare(data: Path) -> int:
    """Make the environment where it is not there. 0 when it is ready; what failed stands in the state file."""
    target = environment_path(data)
    if (target / READY).exists():
        return 0
    try:
        write_state(data, PREPARING, "making")
        drop_environment(target)  # of a start that was cut off
        make(target)
        write_state(data, PREPARING, "installing")
        install(target)
        try_as_stranger(target)
        (target / READY).touch()
        write_state(data, READY, "compiling")
    except (Unprepared, OSError, subprocess.SubprocessError) as error:
        write_state(data, FAILED, "installing", str(error)[-KEPT_WORDS:])
        print(error, file=sys.stderr)
        return 1
    compile_all(target)
    write_state(data, READY, "done")
    return 0


def make(target: Path) -> None:
    """An empty environment. It sees what is installed for the whole machine, and what its person installs at home."""
    python = choose_python() or copy_python(target)
    argv = [str(python), "-I", "-m", "venv", "--without-pip", "--system-site-packages", str(target)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise Unprepared(done.stderr.strip() or f"venv ended with status {done.returncode}")
    pages = target / "etc/jupyter/labconfig"
    pages.mkdir(parents=True)
    (pages / "page_config.json").write_text(PAGE_CONFIG)


def choose_python() -> Path | None:
    """Our own interpreter where jobs can use it too, else one of the machine's that is no older; None without one."""
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
    """Whether any account can get to it: root's own Python often lies in root's home."""
    whole = path.resolve()
    return all(part.stat().st_mode & 0o001 for part in (whole, *whole.parents))


def copy_python(target: Path) -> Path:
    """Take the interpreter and its standard library along, for jobs that run under other accounts."""
    base, library = target / "base", f"lib/{NAME}"
    skip = shutil.ignore_patterns("site-packages", "test", "idlelib", "tkinter", "config-*", "__pycache__")
    shutil.copytree(Path(sys.base_prefix, library), base / library, ignore=skip, symlinks=True)
    (base / "bin").mkdir()
    return Path(shutil.copy(Path(sys.base_prefix, "bin", NAME).resolve(), base / "bin" / NAME))


def try_as_stranger(target: Path) -> None:
    """Jobs of the platform's root run under other accounts: one of them must come up with it. Raises Unprepared."""
    other: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    argv = [str(python_of(target)), "-s", "-c", "import ssl, sqlite3, jupyterlab"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, cwd="/", **other)
    except PermissionError:
        words = f"{target} lies where the accounts of jobs cannot pass. Take another place: --data DIR"
        raise Unprepared(words) from None
    if done.returncode:
        raise Unprepared(done.stderr.strip())


def install(target: Path) -> None:
    """By the portal's own pip, nothing but what the lock names. Raises Unprepared with pip's last words."""
    argv = [sys.executable, "-m", "pip", "--python", str(python_of(target)), "install", "--require-hashes"]
    argv += ["--only-binary", ":all:", "--ignore-installed", "--no-compile", "--no-input", "--no-deps"]
    argv += ["--disable-pip-version-check", "--quiet", "-r", str(LOCK)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise Unprepared(done.stderr.strip() or f"pip ended with status {done.returncode}")


def compile_all(target: Path) -> None:
    """Once, here: tasks see the environment read-only and could not keep what they compiled. A notebook works without,
    and comes up slower."""
    argv = [str(python_of(target)), "-m", "compileall", "-q", str(target / "lib")]
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
