"""The Python environment of JupyterLab and TensorBoard, read-only for tasks.

Its directory is named after its lock file, so that upgrades disturb no running notebook.
"""

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path
from typing import TypedDict

from django.conf import settings

LOCK = Path(__file__).with_name("requirements.txt")
PREPARING, READY, FAILED = "preparing", "ready", "failed"
STEPS = ("waiting", "making", "installing", "compiling", "done")


class EnvironmentState(TypedDict):
    """state: preparing, ready or failed. step: one of STEPS. detail: the installer's error."""

    state: str
    step: str
    detail: str


def environment_state() -> EnvironmentState:
    """Return the preparation's state; always ready where images bring the environment."""
    if settings.TESSERA_NOTEBOOK_IMAGE:
        return {"state": READY, "step": "done", "detail": ""}
    return read_state(settings.TESSERA_DATA)


def environment_home(data: Path) -> Path:
    return data / "notebook-environment"


def environment_path(data: Path) -> Path:
    """Return the path of this version's environment."""
    return environment_home(data) / _name()


@cache
def _name() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]


def old_environments(data: Path) -> list[Path]:
    """Return other versions' environments, once this one's is ready."""
    mine = environment_path(data)
    if not (mine / READY).exists():
        return []
    return [one for one in environment_home(data).iterdir() if one.is_dir() and one != mine]


def drop_environment(environment: Path) -> None:
    """Remove an environment, its ready file first, so that it never counts as ready."""
    (environment / READY).unlink(missing_ok=True)
    shutil.rmtree(environment, ignore_errors=True)


def python_of(environment: Path) -> Path:
    return environment / "bin/python"


def read_state(data: Path) -> EnvironmentState:
    """Read this version's state as `notebooks.build_environment` wrote it."""
    if (environment_path(data) / READY).exists():
        return {"state": READY, "step": "done", "detail": ""}
    try:
        told = json.loads(state_file(data).read_text())
    except (OSError, ValueError):
        told = {}
    if told.get("environment") != environment_path(data).name or told.get("state") == READY:
        return {"state": PREPARING, "step": "waiting", "detail": ""}
    return {"state": told["state"], "step": told["step"], "detail": told["detail"]}


def write_state(data: Path, state: str, step: str, detail: str = "") -> None:
    told = {"environment": environment_path(data).name, "state": state, "step": step, "detail": detail}
    fresh = state_file(data).with_suffix(".new")
    fresh.write_text(json.dumps(told))
    fresh.replace(state_file(data))


def state_file(data: Path) -> Path:
    return environment_home(data) / "state.json"
