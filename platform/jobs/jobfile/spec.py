"""JobSpec: what a job file says, once it has been read, in the ledger's units. The value that the rest works with."""

from dataclasses import dataclass, field

from common.resources import (
    GpuAsk,
    cpu_text,
    duration_text,
    memory_text,
    parse_cpu,
    parse_duration,
    parse_gpu,
    parse_memory,
)

NO_GPU = GpuAsk()
DEFAULT_ROLE = "main"
TENSORBOARD_PORT = 6006
DEFAULT_PRIORITY = "normal"
DEFAULT_RETRY_TIMES = 3
# Ends that are not the program's doing. A program that failed by itself is retried only when asked.
DEFAULT_RETRY_WHEN = ("node_lost", "preempted", "reclaimed", "container_lost", "evicted")


DEFAULT_GRACE_S = 60


@dataclass(frozen=True)
class Checkpoint:
    """Where a job keeps its checkpoints, and how it is asked for one before it is stopped.

    dir: as the task sees it. signal: what it is sent first, "" for nothing but SIGTERM. grace_s: how long it may take
    to save its work; None: DEFAULT_GRACE_S, or what its pool allows of it.
    """

    dir: str
    signal: str = ""
    grace_s: int | None = None


@dataclass(frozen=True, kw_only=True)
class RoleSpec:
    """What the tasks of one role run, and what each of them asks; the fields are those of JobSpec.

    env: beside that of the job. ends_job: "any" or "all", when that many of its tasks have done well the job is done,
    whatever its other tasks do; "": it is done when all of its tasks are.
    """

    name: str
    run: str
    gpu: GpuAsk = NO_GPU
    cpu_milli: int | None = None
    memory_mib: int | None = None
    nodes: int = 1
    nodes_max: int | None = None
    env: dict[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    ends_job: str = ""


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """One job, every default of the format filled in. None = not said: the team's, the pool's or the service's default.

    code: None (no code), "." (the directory that is being submitted) or "sha256:<64 hex>" (a stored pack).
    gpu, cpu_milli, memory_mib: per task. nodes: tasks in the gang, that start together or not at all; nodes_max: so
    many where there is room when they start. roles: unlike tasks, in the order of their ranks; then run, these and
    ports say nothing, and `roles_of` gives what each task is.
    workdir: path beneath the code, "" = its top. time_s: estimate. max_time_s: kill.
    ports: what each task listens on, as its program is told; where it really does stands in its row.
    tensorboard: the directory that TensorBoard shows, as the task sees it. data: {target: "home:path" or "team:path",
    then ":ro" for reading only}; target beneath the work directory.
    retry_when: end reasons after which up to retry_times further attempts are made.
    """

    run: str = ""
    name: str
    team: str | None = None
    pool: str | None = None
    kind: str = "batch"
    image: str | None = None
    code: str | None = None
    gpu: GpuAsk = NO_GPU
    cpu_milli: int | None = None
    memory_mib: int | None = None
    nodes: int = 1
    nodes_max: int | None = None
    roles: tuple[RoleSpec, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    priority: str = DEFAULT_PRIORITY
    time_s: int | None = None
    max_time_s: int | None = None
    retry_times: int = DEFAULT_RETRY_TIMES
    retry_when: tuple[str, ...] = DEFAULT_RETRY_WHEN
    preemptible: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    hold: bool = False
    ports: tuple[int, ...] = ()
    tensorboard: str | None = None
    data: dict[str, str] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None


def to_json(spec: JobSpec) -> dict:
    """The canonical form that is stored with a job and shown by the API: a job file again, every key written out."""
    return {
        "kind": spec.kind,
        "name": spec.name,
        "team": spec.team,
        "pool": spec.pool,
        "image": spec.image,
        "code": spec.code,
        **(_roles_json(spec) if spec.roles else {**_task_json(spec, "nodes"), "ports": list(spec.ports)}),
        "env": dict(spec.env),
        "workdir": spec.workdir,
        "priority": spec.priority,
        "time": None if spec.time_s is None else duration_text(spec.time_s),
        "max_time": None if spec.max_time_s is None else duration_text(spec.max_time_s),
        "retry": {"times": spec.retry_times, "when": list(spec.retry_when)},
        "preemptible": spec.preemptible,
        "labels": dict(spec.labels),
        "hold": spec.hold,
        "tensorboard": spec.tensorboard,
        "data": dict(spec.data),
        "checkpoint": _checkpoint_json(spec.checkpoint),
    }


def from_json(stored: dict) -> JobSpec:
    """Read `to_json` back without judging it: a stored job stays readable when a rule for new ones grows stricter."""
    roles = stored.get("roles", {})
    return JobSpec(
        **{key: stored[key] for key in ("kind", "name", "team", "pool", "image", "code")},
        **{key: stored[key] for key in ("workdir", "priority", "preemptible", "hold")},
        **({} if roles else _task(stored, stored["nodes"])),
        roles=tuple(_role(name, role, stored) for name, role in roles.items()),
        env=dict(stored["env"]),
        time_s=_maybe(parse_duration, stored["time"]),
        max_time_s=_maybe(parse_duration, stored["max_time"]),
        retry_times=stored["retry"]["times"],
        retry_when=tuple(stored["retry"]["when"]),
        labels=dict(stored["labels"]),
        tensorboard=stored.get("tensorboard"),
        data=dict(stored.get("data", {})),
        checkpoint=_maybe(_checkpoint, stored.get("checkpoint")),
    )


def roles_of(spec: JobSpec) -> tuple[RoleSpec, ...]:
    """The roles of any job, in the order of their ranks; where the file names none, its only one."""
    same = ("run", "gpu", "cpu_milli", "memory_mib", "nodes", "nodes_max", "ports")
    return spec.roles or (RoleSpec(name=DEFAULT_ROLE, **{name: getattr(spec, name) for name in same}),)


def role_of(spec: JobSpec, name: str) -> RoleSpec:
    """What a task of this role is."""
    return next(role for role in roles_of(spec) if role.name == name)


def span_of(spec: JobSpec | RoleSpec) -> int | str:
    """The number of tasks as the file writes it: 4, or "4..8" where it may be more."""
    return f"{spec.nodes}..{spec.nodes_max}" if spec.nodes_max else spec.nodes


def declared_ports(spec: JobSpec, role: str, rank: int) -> tuple[int, ...]:
    """What one task of the job may listen on. The first one's TensorBoard gets its usual port, if it is not said."""
    ports = role_of(spec, role).ports
    beside = (TENSORBOARD_PORT,) if spec.tensorboard and rank == 0 and TENSORBOARD_PORT not in ports else ()
    return ports + beside


def _roles_json(spec: JobSpec) -> dict:
    return {"roles": {role.name: _role_json(role) for role in spec.roles}}


def _role_json(role: RoleSpec) -> dict:
    told = _task_json(role, "count") | {"env": dict(role.env), "ports": list(role.ports)}
    return told | ({"ends_job": role.ends_job} if role.ends_job else {})


def _task_json(spec: JobSpec | RoleSpec, count: str) -> dict:
    return {
        "run": spec.run,
        "gpu": spec.gpu.text,
        "cpu": None if spec.cpu_milli is None else cpu_text(spec.cpu_milli),
        "memory": None if spec.memory_mib is None else memory_text(spec.memory_mib),
        count: span_of(spec),
    }


def _role(name: str, said: dict, stored: dict) -> RoleSpec:
    """One role of a stored job. A job of before there were several says beside its only one what it runs and asks."""
    kept = {key: stored[key] for key in ("run", "gpu", "cpu", "memory", "ports") if key in stored} | said
    return RoleSpec(
        name=name, **_task(kept, kept["count"]), env=dict(said.get("env", {})), ends_job=said.get("ends_job", "")
    )


def _task(stored: dict, count: int | str) -> dict:
    least, _, most = str(count).partition("..")
    return {
        "run": stored["run"],
        "gpu": parse_gpu(stored["gpu"]),
        "cpu_milli": _maybe(parse_cpu, stored["cpu"]),
        "memory_mib": _maybe(parse_memory, stored["memory"]),
        "nodes": int(least),
        "nodes_max": int(most) if most else None,
        # A younger key: jobs that were stored before it have none.
        "ports": tuple(stored.get("ports", ())),
    }


def _checkpoint_json(checkpoint: Checkpoint | None) -> dict | None:
    if checkpoint is None:
        return None
    signal = {"signal": checkpoint.signal} if checkpoint.signal else {}
    grace = {} if checkpoint.grace_s is None else {"grace": duration_text(checkpoint.grace_s)}
    return {"dir": checkpoint.dir, **signal, **grace}


def _checkpoint(stored: dict) -> Checkpoint:
    return Checkpoint(stored["dir"], stored.get("signal", ""), _maybe(parse_duration, stored.get("grace")))


def _maybe(reader, text):
    return None if text is None else reader(text)
