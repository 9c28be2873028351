"""Where a task finds its Python environment: a folder of the task's own, first in PATH. Few imports, for the shim."""

import os
from collections.abc import Mapping

FOLDER = "env"
"""In the task's own folder: /tessera/env on a cluster and in images, so that what is made there works there."""
VARIABLE = "VIRTUAL_ENV"


def build_environment_variables(seen_at: str, *, read_only: bool) -> dict[str, str]:
    """Return the variables of a task that has one. seen_at: the task's own folder, as the task sees it."""
    # What somebody installed at home is no part of a version.
    return {VARIABLE: os.path.join(seen_at, FOLDER), **({"PYTHONNOUSERSITE": "1"} if read_only else {})}


def put_programs_first(env: Mapping[str, str], seen_at: str) -> dict[str, str]:
    """Return the variables with the environment's programs first in PATH, where the task has one."""
    if env.get(VARIABLE) != os.path.join(seen_at, FOLDER):
        return dict(env)
    return {**env, "PATH": ":".join(filter(None, (f"{env[VARIABLE]}/bin", env.get("PATH"))))}
