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
DEFAULT_RETRY_WHEN = ("node_lost", "preempted", "reclaimed", "container_lost")


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
class JobSpec:
    """One job, every default of the format filled in. None = not said: the team's, the pool's or the service's default.

    code: None (no code), "." (the directory that is being submitted) or "sha256:<64 hex>" (a stored pack).
    gpu, cpu_milli, memory_mib: per task. nodes: tasks in the gang, that start together or not at all; nodes_max: so
    many where there is room when they start. role: their name.
    workdir: path beneath the code, "" = its top. time_s: estimate. max_time_s: kill.
    ports: what each task listens on, as its program is told; where it really does stands in its row.
    tensorboard: the directory that TensorBoard shows, as the task sees it. data: {target: "home:path" or "team:path",
    then ":ro" for reading only}; target beneath the work directory.
    retry_when: end reasons after which up to retry_times further attempts are made.
    """

    run: str
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
    role: str = DEFAULT_ROLE
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
    count = span_of(spec)
    gang = {"nodes": count} if spec.role == DEFAULT_ROLE else {"roles": {spec.role: {"count": count}}}
    return {
        "kind": spec.kind,
        "name": spec.name,
        "team": spec.team,
        "pool": spec.pool,
        "image": spec.image,
        "code": spec.code,
        "run": spec.run,
        "gpu": spec.gpu.text,
        "cpu": None if spec.cpu_milli is None else cpu_text(spec.cpu_milli),
        "memory": None if spec.memory_mib is None else memory_text(spec.memory_mib),
        **gang,
        "env": dict(spec.env),
        "workdir": spec.workdir,
        "priority": spec.priority,
        "time": None if spec.time_s is None else duration_text(spec.time_s),
        "max_time": None if spec.max_time_s is None else duration_text(spec.max_time_s),
        "retry": {"times": spec.retry_times, "when": list(spec.retry_when)},
        "preemptible": spec.preemptible,
        "labels": dict(spec.labels),
        "hold": spec.hold,
        "ports": list(spec.ports),
        "tensorboard": spec.tensorboard,
        "data": dict(spec.data),
        "checkpoint": _checkpoint_json(spec.checkpoint),
    }


def from_json(stored: dict) -> JobSpec:
    """Read `to_json` back without judging it: a stored job stays readable when a rule for new ones grows stricter."""
    [(role, count)] = [(r, v["count"]) for r, v in stored.get("roles", {}).items()] or [(DEFAULT_ROLE, stored["nodes"])]
    least, _, most = str(count).partition("..")
    return JobSpec(
        **{key: stored[key] for key in ("kind", "name", "team", "pool", "image", "code", "run")},
        **{key: stored[key] for key in ("workdir", "priority", "preemptible", "hold")},
        gpu=parse_gpu(stored["gpu"]),
        cpu_milli=_maybe(parse_cpu, stored["cpu"]),
        memory_mib=_maybe(parse_memory, stored["memory"]),
        nodes=int(least),
        nodes_max=int(most) if most else None,
        role=role,
        env=dict(stored["env"]),
        time_s=_maybe(parse_duration, stored["time"]),
        max_time_s=_maybe(parse_duration, stored["max_time"]),
        retry_times=stored["retry"]["times"],
        retry_when=tuple(stored["retry"]["when"]),
        labels=dict(stored["labels"]),
        # Younger keys: jobs that were stored before them have none.
        ports=tuple(stored.get("ports", ())),
        tensorboard=stored.get("tensorboard"),
        data=dict(stored.get("data", {})),
        checkpoint=_maybe(_checkpoint, stored.get("checkpoint")),
    )


def span_of(spec: JobSpec) -> int | str:
    """The number of tasks as the file writes it: 4, or "4..8" where it may be more."""
    return f"{spec.nodes}..{spec.nodes_max}" if spec.nodes_max else spec.nodes


def declared_ports(spec: JobSpec, rank: int) -> tuple[int, ...]:
    """What one task of the job may listen on. The first one's TensorBoard gets its usual port, if it is not said."""
    beside = (TENSORBOARD_PORT,) if spec.tensorboard and rank == 0 and TENSORBOARD_PORT not in spec.ports else ()
    return spec.ports + beside


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
