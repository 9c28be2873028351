"""The environment that every runtime gives a task; nothing is inherited."""

import os
from collections.abc import Mapping

from runtimes.contract.task import TaskSpec
from runtimes.gangs import build_gang_environment
from runtimes.gpu_sharing import is_forbidden_env


def build_task_environment(
    spec: TaskSpec, seen_at: str, hints: Mapping[str, str], fixed: Mapping[str, str]
) -> dict[str, str]:
    """Merge variables; later win: defaults, hints, the user's (without `is_forbidden_env`), the platform's, fixed.

    seen_at: of the task's home, tmp, hosts.
    """
    ports = {f"TESSERA_PORT_{declared}": str(actual) for declared, actual in spec.port_map.items()}
    own = {name: value for name, value in spec.env.items() if not is_forbidden_env(name)}
    defaults, identity = _defaults(spec, seen_at), _identity(spec, seen_at)
    return defaults | dict(hints) | own | spec.platform_env | ports | dict(fixed) | identity


def _defaults(spec: TaskSpec, seen_at: str) -> dict[str, str]:
    defaults = {
        "HOME": os.path.join(seen_at, "home"),
        "TMPDIR": os.path.join(seen_at, "tmp"),
        "LANG": "C.UTF-8",
        "USER": spec.user,
        "LOGNAME": spec.user,
        "PYTHONUNBUFFERED": "1",  # for live logs
        "OMP_NUM_THREADS": str(max(1, spec.cpu_milli // 1000)),
    }
    return defaults | build_gang_environment(spec, os.path.join(seen_at, "hosts"))


def _identity(spec: TaskSpec, seen_at: str) -> dict[str, str]:
    return {
        "TESSERA_TASK": spec.uuid,  # also finds orphan processes (processes.MARKER)
        "TESSERA_JOB": spec.label.split(" ")[0],
        "TESSERA_ROLE": spec.role,
        "TESSERA_TEAM": spec.team,
        "TESSERA_PEERS": ",".join(peer.address for peer in spec.peers),
        "TESSERA_HOSTS": os.path.join(seen_at, "hosts"),
        "TESSERA_PORTS": ",".join(str(port) for port in spec.ports),
    }
