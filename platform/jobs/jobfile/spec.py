"""A parsed job file, in the platform's units."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

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
from datasets.naming import ENVIRONMENT_KIND
from jobs.jobfile.array_values import Array, ArrayWish, array_json
from jobs.jobfile.search.wish import SEARCH, SearchWish, search_json
from jobs.jobfile.serving import Serving, read_serving, serving_json
from jobs.jobfile.shapes import pointer_of

NO_GPU = GpuAsk()
DEFAULT_ROLE = "main"
TENSORBOARD_PORT = 6006
DEFAULT_PRIORITY = "normal"
DEFAULT_RETRY_TIMES = 3
# Not the program's fault.
DEFAULT_RETRY_WHEN = ("node_lost", "preempted", "reclaimed", "container_lost", "evicted")

NOTIFY_WHEN = ("start", "success", "failure")
DEFAULT_GRACE_S = 60


@dataclass(frozen=True)
class Checkpoint:
    """Where a job saves checkpoints.

    signal: asks for one before a stop, "" for SIGTERM only. grace_s: time to save; None for the default.
    """

    dir: str
    signal: str = ""
    grace_s: int | None = None


@dataclass(frozen=True)
class IdleWish:
    """After how long without work what is done: tell, shrink or stop."""

    for_s: int
    then: str = "stop"


@dataclass(frozen=True)
class NotifyWish:
    """when: of which turns, by NOTIFY_WHEN, the owner is told. to: user names of others who are told as well."""

    when: tuple[str, ...] = NOTIFY_WHEN
    to: tuple[str, ...] = ()


LEVELS = ("switch", "node")
"""What tasks can share, the wider one first."""


@dataclass(frozen=True)
class PlaceWish:
    """Which of LEVELS all tasks must share, and which they share where that costs no wait; "" for none."""

    same: str = ""
    prefer: str = ""


@dataclass(frozen=True)
class MainProgram:
    """What runs in the first task of a role beside that role's command. ends_job: the job is done once it succeeded."""

    role: str
    run: str
    ends_job: bool = True


@dataclass(frozen=True, kw_only=True)
class RoleSpec:
    """One role's tasks.

    image, code, workdir: instead of the job's; None is the job's. secrets, data: beside the job's.
    ends_job: the job is done once "any" or "all" of them succeeded; "" once all tasks of the job did.
    """

    name: str
    run: str
    gpu: GpuAsk = NO_GPU
    cpu_milli: int | None = None
    memory_mib: int | None = None
    shm_mib: int | None = None
    rdma: bool = False
    nodes: int = 1
    nodes_max: int | None = None
    image: str | None = None
    code: str | None = None
    workdir: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    ends_job: str = ""


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """One job. None leaves a value to the team, pool or service.

    code: None, "." (the submitted directory), "sha256:<64 hex>" or a repository (jobs.code.git_code). workdir:
    below the code. gpu, cpu_milli, memory_mib: per task. shm_mib: of its memory, in /dev/shm. rdma: each task needs an
    RDMA adapter. nodes: tasks that start together; nodes_max: the most.
    roles: replace run, the requests and ports.
    time_s: estimate. max_time_s: limit. start_at: not before. wait_max_s: for its first start, else it is cancelled.
    after: {job, by id once it is accepted: the end that it must come to}.
    secrets: {name: own:variable, own:file, team:variable or team:file once it is accepted}.
    token: scopes of the API token that its tasks have.
    ports: as declared; Task.ports has the real ones. data: {target: source}.
    environment: its name, with team and version once the job is accepted.
    outputs: {target: the dataset, model or environment whose next version it becomes}.
    serve: of a service's file; its replicas, which are jobs, have none.
    """

    run: str = ""
    name: str
    team: str | None = None
    pool: str | None = None
    kind: str = "batch"
    image: str | None = None
    environment: str | None = None
    code: str | None = None
    gpu: GpuAsk = NO_GPU
    cpu_milli: int | None = None
    memory_mib: int | None = None
    shm_mib: int | None = None
    rdma: bool = False
    nodes: int = 1
    nodes_max: int | None = None
    roles: tuple[RoleSpec, ...] = ()
    main: MainProgram | None = None
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    token: tuple[str, ...] = ()
    workdir: str = ""
    priority: str = DEFAULT_PRIORITY
    time_s: int | None = None
    max_time_s: int | None = None
    retry_times: int = DEFAULT_RETRY_TIMES
    retry_when: tuple[str, ...] = DEFAULT_RETRY_WHEN
    preemptible: bool | None = None
    labels: dict[str, str] = field(default_factory=dict)
    hold: bool = False
    start_at: datetime | None = None
    wait_max_s: int | None = None
    after: dict[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    tensorboard: str | None = None
    data: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    idle: IdleWish | None = None
    notify: NotifyWish | None = None
    place: PlaceWish | None = None
    array: ArrayWish | None = None
    search: SearchWish | None = None
    serve: Serving | None = None

    @property
    def elements(self) -> ArrayWish | SearchWish | None:
        """Which jobs it is the file of, if it is not that of one: all of an array, or trials."""
        return self.array or self.search


def to_json(spec: JobSpec) -> dict:
    """Return the canonical JSON that is stored and shown."""
    return {
        "kind": spec.kind,
        "name": spec.name,
        "team": spec.team,
        "pool": spec.pool,
        "image": spec.image,
        **({} if spec.environment is None else {"environment": spec.environment}),
        "code": spec.code,
        **(_roles_json(spec) if spec.roles else {**_task_json(spec, "nodes"), "ports": list(spec.ports)}),
        "env": dict(spec.env),
        "secrets": dict(spec.secrets),
        "token": list(spec.token),
        "workdir": spec.workdir,
        "priority": spec.priority,
        "time": None if spec.time_s is None else duration_text(spec.time_s),
        "max_time": None if spec.max_time_s is None else duration_text(spec.max_time_s),
        "retry": {"times": spec.retry_times, "when": list(spec.retry_when)},
        "preemptible": spec.preemptible,
        "labels": dict(spec.labels),
        "hold": spec.hold,
        "start_at": None if spec.start_at is None else spec.start_at.isoformat(timespec="seconds"),
        "wait_max": None if spec.wait_max_s is None else duration_text(spec.wait_max_s),
        "after": dict(spec.after),
        "tensorboard": spec.tensorboard,
        "data": dict(spec.data),
        "outputs": dict(spec.outputs),
        "checkpoint": _checkpoint_json(spec.checkpoint),
        "idle": None if spec.idle is None else {"for": duration_text(spec.idle.for_s), "then": spec.idle.then},
        "notify": None if spec.notify is None else {"when": list(spec.notify.when), "to": list(spec.notify.to)},
        **({} if spec.place is None else {"place": place_json(spec.place)}),
        **({} if spec.array is None else {"array": array_json(spec.array)}),
        **({} if spec.search is None else {"search": search_json(spec.search)}),
        **({} if spec.serve is None else {"serve": serving_json(spec.serve)}),
    }


def from_json(stored: dict) -> JobSpec:
    """Read `to_json` back unchecked, so that stored jobs outlive stricter rules."""
    roles = stored.get("roles", {})
    return JobSpec(
        **{key: stored[key] for key in ("kind", "name", "team", "pool", "image", "code")},
        **{key: stored[key] for key in ("workdir", "priority", "preemptible", "hold")},
        environment=stored.get("environment"),
        **({} if roles else _task(stored, stored["nodes"])),
        roles=tuple(_role(name, role, stored) for name, role in roles.items()),
        main=_maybe(lambda kept: MainProgram(**kept), stored.get("main")),
        env=dict(stored["env"]),
        secrets=dict(stored.get("secrets", {})),
        token=tuple(stored.get("token", ())),
        time_s=_maybe(parse_duration, stored["time"]),
        max_time_s=_maybe(parse_duration, stored["max_time"]),
        start_at=_maybe(datetime.fromisoformat, stored.get("start_at")),
        wait_max_s=_maybe(parse_duration, stored.get("wait_max")),
        after=dict(stored.get("after", {})),
        retry_times=stored["retry"]["times"],
        retry_when=tuple(stored["retry"]["when"]),
        labels=dict(stored["labels"]),
        tensorboard=stored.get("tensorboard"),
        data=dict(stored.get("data", {})),
        outputs=dict(stored.get("outputs", {})),
        checkpoint=_maybe(_checkpoint, stored.get("checkpoint")),
        idle=_maybe(read_idle, stored.get("idle")),
        notify=_maybe(read_notify, stored.get("notify")),
        place=_maybe(lambda kept: PlaceWish(**kept), stored.get("place")),
        array=_maybe(read_array, stored.get("array")),
        search=_maybe(read_search, stored.get("search")),
        serve=_maybe(read_serving, stored.get("serve")),
    )


def roles_of(spec: JobSpec) -> tuple[RoleSpec, ...]:
    """Return the roles by rank; a job without roles has one."""
    same = ("run", "gpu", "cpu_milli", "memory_mib", "shm_mib", "rdma", "nodes", "nodes_max", "ports")
    return spec.roles or (RoleSpec(name=DEFAULT_ROLE, **{name: getattr(spec, name) for name in same}),)


def role_of(spec: JobSpec, name: str) -> RoleSpec:
    return next(role for role in roles_of(spec) if role.name == name)


def code_of(spec: JobSpec, role: RoleSpec) -> tuple[str | None, str]:
    """Return a role's code and its working directory below it."""
    return role.code or spec.code, spec.workdir if role.workdir is None else role.workdir


def change_images(spec: JobSpec, change: Callable[[str, str], str]) -> JobSpec:
    """Return the spec with each image as `change` returns it, given the image and where the file has it."""
    return _change_each(spec, "image", change)


def change_code(spec: JobSpec, change: Callable[[str, str], str]) -> JobSpec:
    """Return the spec with all code that it names as `change` returns it; see `change_images`."""
    return _change_each(spec, "code", change)


def change_data(spec: JobSpec, change: Callable[[dict[str, str], str], dict[str, str]]) -> JobSpec:
    """Return the spec with all that it says of data as `change` returns it, given the map and where the file has it."""
    return _change_each(spec, "data", change)


def change_secrets(spec: JobSpec, change: Callable[[dict[str, str], str], dict[str, str]]) -> JobSpec:
    """Return the spec with all that it says of secrets as `change` returns it; see `change_data`."""
    return _change_each(spec, "secrets", change)


def list_data(spec: JobSpec) -> dict[str, str]:
    """Return all that the spec says of data and its environment, {where the file has it: source}."""
    said = [(["data"], spec.data), *((["roles", role.name, "data"], role.data) for role in spec.roles)]
    environment = {"/environment": f"{ENVIRONMENT_KIND}:{spec.environment}"} if spec.environment else {}
    data = {pointer_of([*path, target]): source for path, data in said for target, source in data.items()}
    return environment | data


def span_of(spec: JobSpec | RoleSpec) -> int | str:
    """Return the number of tasks as in the file: 4, or "4..8"."""
    return f"{spec.nodes}..{spec.nodes_max}" if spec.nodes_max else spec.nodes


def declared_ports(spec: JobSpec, role: str, rank: int) -> tuple[int, ...]:
    """Return one task's ports; the first task's include TensorBoard's."""
    ports = role_of(spec, role).ports
    beside = (TENSORBOARD_PORT,) if spec.tensorboard and rank == 0 and TENSORBOARD_PORT not in ports else ()
    return ports + beside


def _change_each(spec: JobSpec, key: str, change: Callable[[Any, str], Any]) -> JobSpec:
    """Return the spec with what it and its roles say by a key as `change` returns it; what is not said stays so."""
    roles = tuple(
        replace(role, **{key: change(said, pointer_of(["roles", role.name, key]))})
        if (said := getattr(role, key))
        else role
        for role in spec.roles
    )
    own = getattr(spec, key)
    return replace(spec, roles=roles, **({key: change(own, pointer_of([key]))} if own else {}))


def _roles_json(spec: JobSpec) -> dict:
    main = {} if spec.main is None else {"main": asdict(spec.main)}
    return {"roles": {role.name: _role_json(role) for role in spec.roles}, **main}


def _role_json(role: RoleSpec) -> dict:
    told = _task_json(role, "count") | {"env": dict(role.env), "ports": list(role.ports)}
    own = {
        "image": role.image,
        "code": role.code,
        "workdir": role.workdir,
        "secrets": dict(role.secrets) or None,
        "data": dict(role.data) or None,
        "ends_job": role.ends_job or None,
    }
    return told | {key: value for key, value in own.items() if value is not None}


def _task_json(spec: JobSpec | RoleSpec, count: str) -> dict:
    return {
        "run": spec.run,
        "gpu": spec.gpu.text,
        "cpu": None if spec.cpu_milli is None else cpu_text(spec.cpu_milli),
        "memory": None if spec.memory_mib is None else memory_text(spec.memory_mib),
        **({} if spec.shm_mib is None else {"shm": memory_text(spec.shm_mib)}),
        **({"rdma": True} if spec.rdma else {}),
        count: span_of(spec),
    }


def _role(name: str, said: dict, stored: dict) -> RoleSpec:
    """Read a stored role; old jobs have the command and request beside it."""
    kept = {key: stored[key] for key in ("run", "gpu", "cpu", "memory", "shm", "rdma", "ports") if key in stored} | said
    return RoleSpec(
        name=name,
        **_task(kept, kept["count"]),
        image=said.get("image"),
        code=said.get("code"),
        workdir=said.get("workdir"),
        env=dict(said.get("env", {})),
        secrets=dict(said.get("secrets", {})),
        data=dict(said.get("data", {})),
        ends_job=said.get("ends_job", ""),
    )


def _task(stored: dict, count: int | str) -> dict:
    least, _, most = str(count).partition("..")
    return {
        "run": stored["run"],
        "gpu": parse_gpu(stored["gpu"]),
        "cpu_milli": _maybe(parse_cpu, stored["cpu"]),
        "memory_mib": _maybe(parse_memory, stored["memory"]),
        "shm_mib": _maybe(parse_memory, stored.get("shm")),
        "rdma": stored.get("rdma", False),
        "nodes": int(least),
        "nodes_max": int(most) if most else None,
        # Missing in old jobs.
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


def place_json(place: PlaceWish) -> dict[str, str]:
    """Return what it says, without what it does not."""
    return {key: level for key, level in asdict(place).items() if level}


def read_idle(stored: dict) -> IdleWish:
    return IdleWish(parse_duration(stored["for"]), stored["then"])


def read_notify(stored: dict) -> NotifyWish:
    return NotifyWish(tuple(stored["when"]), tuple(stored["to"]))


def read_array(stored: dict | int) -> ArrayWish:
    return Array().read(stored, "/array")


def read_search(stored: dict) -> SearchWish:
    return SEARCH.read(stored, "/search")


def _maybe(reader, text):
    return None if text is None else reader(text)
