"""Prepare the environment that notebooks run from: `python -m notebooks.prepare DATA`, beside the open portal.

Started by bin/start each time, at low priority; it ends at once where the environment is there. What was cut off is
begun anew, from the downloads that pip kept. The environment counts from the moment its stamp is written, last.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from notebooks.environment import (
    FAILED,
    LOCK,
    PREPARING,
    READY,
    environment_home,
    environment_path,
    python_of,
    write_state,
)

NICE = 15
TIMEOUT_S = 1800
KEPT_WORDS = 1500

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
        shutil.rmtree(target, ignore_errors=True)  # of a start that was cut off
        make(target)
        write_state(data, PREPARING, "installing")
        install(target)
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
    maker = venv.EnvBuilder(system_site_packages=True, symlinks=True, with_pip=False)
    maker.create(target)
    pages = target / "etc/jupyter/labconfig"
    pages.mkdir(parents=True)
    (pages / "page_config.json").write_text(PAGE_CONFIG)


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
