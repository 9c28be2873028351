"""The environment that every runtime gives a task: nothing is inherited, and the platform's own words win."""

import os
from collections.abc import Mapping

from runtimes.base import TaskSpec
from runtimes.gpu_sharing import forbidden_env


def task_environment(
    spec: TaskSpec, seen_at: str, hints: Mapping[str, str], fixed: Mapping[str, str]
) -> dict[str, str]:
    """seen_at: where the task finds its home and tmp. hints: the user's own wins over these. fixed: nobody's does.

    The user's own wins over the defaults, but for the names that `forbidden_env` refuses.
    """
    ports = {f"TESSERA_PORT_{declared}": str(actual) for declared, actual in spec.port_map.items()}
    own = {name: value for name, value in spec.env.items() if not forbidden_env(name)}
    return _defaults(spec, seen_at) | dict(hints) | own | spec.platform_env | ports | dict(fixed) | _identity(spec)


def _defaults(spec: TaskSpec, seen_at: str) -> dict[str, str]:
    defaults = {
        "HOME": os.path.join(seen_at, "home"),
        "TMPDIR": os.path.join(seen_at, "tmp"),
        "LANG": "C.UTF-8",
        "USER": spec.user,
        "LOGNAME": spec.user,
        "PYTHONUNBUFFERED": "1",  # the log is read live
        "OMP_NUM_THREADS": str(max(1, spec.cpu_milli // 1000)),
        "RANK": str(spec.rank),
        "LOCAL_RANK": "0",  # each task has its own cards, counted from 0
        "WORLD_SIZE": str(spec.world_size),
        "MASTER_ADDR": spec.peers[0] if spec.peers else "127.0.0.1",
    }
    return defaults | ({"MASTER_PORT": str(spec.ports[0])} if spec.ports else {})


def _identity(spec: TaskSpec) -> dict[str, str]:
    return {
        "TESSERA_TASK": spec.uuid,  # the local runtime finds leftovers by it (processes.MARKER)
        "TESSERA_JOB": spec.label.split(" ")[0],
        "TESSERA_ROLE": spec.role,
        "TESSERA_TEAM": spec.team,
        "TESSERA_PEERS": ",".join(spec.peers),
        "TESSERA_PORTS": ",".join(str(port) for port in spec.ports),
    }
