"""Usual shapes of distributed work, as job files. Pure: from a file's keys to other keys.

Each has a program, which the file says once, and tasks with cards, of which it says how many and what each asks for.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

ALIKE, OWN = "", "own"
"""One command in alike tasks; roles that are none of the patterns'."""
ASKS = ("gpu", "cpu", "memory", "shm", "rdma")
TORCHRUN = (
    "torchrun --nnodes $WORLD_SIZE --node-rank $RANK --nproc-per-node auto "
    "--master-addr $MASTER_ADDR --master-port $MASTER_PORT "
)
MPIRUN = "mpirun --hostfile $TESSERA_HOSTS/worker "
PYTHON = re.compile(r"python3? +")
FEWEST = 2
"""Tasks with cards, where the file says nothing of their number."""


def find_pattern(data: Mapping[str, Any]) -> str:
    """Return which pattern a file has by the names of its roles and its command: one of PATTERNS, ALIKE or OWN."""
    roles = data.get("roles")
    if not roles:
        return "torchrun" if TORCHRUN in str(data.get("run")) else ALIKE
    if not isinstance(roles, dict) or not all(isinstance(role, dict) for role in roles.values()):
        return OWN
    has_main = isinstance(data.get("main"), dict)
    return {("launcher", "worker"): "mpi", ("ps", "worker"): "ps", ("head", "worker"): "ray" if has_main else OWN}.get(
        tuple(sorted(roles)), OWN
    )


def write_pattern(data: Mapping[str, Any], pattern: str) -> dict[str, Any]:
    """Return the file with its program and its tasks in another pattern. Roles of its own stay as they are."""
    now = find_pattern(data)
    if OWN in (now, pattern) or now == pattern or pattern not in ("", *PATTERNS):
        return dict(data)
    program = _find_program(data, now)
    worker = data["roles"]["worker"] if now in ("mpi", "ps", "ray") else data
    asks = {key: worker[key] for key in ASKS if worker.get(key) is not None}
    count = worker.get("count", worker.get("nodes", FEWEST))
    kept = {key: value for key, value in data.items() if key not in ("run", "nodes", "ports", "roles", "main", *ASKS)}
    if pattern == ALIKE:
        return {"run": program, **asks, **kept}
    return {**kept, **PATTERNS[pattern](program, asks, count)}


def _write_torchrun(program: str, asks: dict, count: Any) -> dict[str, Any]:
    return {"run": _begin_last_line(program, TORCHRUN, but=PYTHON), **asks, "nodes": count}


def _write_mpi(program: str, asks: dict, count: Any) -> dict[str, Any]:
    launcher = {"run": _begin_last_line(program, MPIRUN), "ends_job": "all"}
    worker = {"run": "$TESSERA_HOSTS/listen.sh", **asks, "ports": [2222], "count": count}
    return {"roles": {"launcher": launcher, "worker": worker}}


def _write_parameter_server(program: str, asks: dict, count: Any) -> dict[str, Any]:
    """Each program is told by TESSERA_ROLE which of the two it is."""
    server = {"run": program, "ports": [29400]}
    return {"roles": {"ps": server, "worker": {"run": program, **asks, "count": count, "ends_job": "all"}}}


def _write_ray(program: str, asks: dict, count: Any) -> dict[str, Any]:
    head = {"run": "ray start --head --port $TESSERA_PORT_6379 --block", "ports": [6379]}
    joins = "ray start --address $ROLE_HEAD_0:$ROLE_HEAD_0_PORT_6379 --block"
    roles = {"head": head, "worker": {"run": joins, **asks, "count": count}}
    return {"roles": roles, "main": {"role": "head", "run": program}}


PATTERNS: dict[str, Callable[[str, dict, Any], dict[str, Any]]] = {
    "torchrun": _write_torchrun,
    "mpi": _write_mpi,
    "ps": _write_parameter_server,
    "ray": _write_ray,
}


def _find_program(data: Mapping[str, Any], pattern: str) -> str:
    if pattern == "ray":
        return str(data["main"].get("run", ""))
    if pattern in ("mpi", "ps"):
        said = data["roles"]["launcher" if pattern == "mpi" else "worker"]
        return str(said.get("run", "")).replace(MPIRUN, "")
    return str(data.get("run") or "").replace(TORCHRUN, "python ")


def _begin_last_line(program: str, words: str, but: re.Pattern = re.compile("")) -> str:
    """Return a script whose last line, the program, begins with these words. but: what they stand for."""
    *before, last = program.rstrip().split("\n")
    return "\n".join([*before, words + last[match.end() if (match := but.match(last)) else 0 :]])
