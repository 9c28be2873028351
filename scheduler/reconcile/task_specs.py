"""Build the specs that start tasks."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from cluster.models import Gpu
from datasets.naming import ENVIRONMENT_KIND, read_dataset_name
from files.models import Volume
from files.volumes import load_volumes
from jobs.arrays.models import show_array_id
from jobs.code.archive import code_file
from jobs.code.git_code import SECRET, build_fetch, find_from_top, is_git, read_git
from jobs.dependencies.left_outputs import NOTHING_LEFT, LeftOutputs, load_left
from jobs.job_tokens.tokens import URL
from jobs.jobfile.main_program import build_command
from jobs.jobfile.spec import DEFAULT_GRACE_S, JobSpec, RoleSpec, code_of, from_json, list_data, role_of
from jobs.jobfile.values import split_source
from jobs.lifecycle import load_attempts
from jobs.models import Job, JobKind, Task
from jobs.outputs.outputs import build_environment_output, build_output_mounts
from jobs.task_access import UPSTREAM_TOKEN, derive_task_secret
from jobs.tensorboard import TOOLS
from jobs.used_data.naming import load_dataset_keys
from jobs.used_data.volumes import name_volume
from notebooks.environment import READY, environment_path
from notebooks.kept_packages import build_kept_mount
from quotas.models import Holding
from runtimes.contract.node import HCA_DISTANCES
from runtimes.contract.task import Checkpoint, GpuShare, Mount, Peer, TaskSpec
from runtimes.python_environment import FOLDER
from runtimes.storage.areas import AreaId
from scheduler.inventory.nodes import convert_card

GRACE_S = 10
"""Seconds between SIGTERM and SIGKILL, unless the job file sets them."""


@dataclass(frozen=True)
class SpecContext:
    """Rows for specs. specs, gangs: the file and the tasks by job; numa: by task; datasets: where they lie, by how
    specs name them; volumes: by team and name, where some job names one; left: by jobs before it, by job.
    """

    specs: dict[int, JobSpec]
    gangs: dict[int, list[Task]]
    cards: dict[tuple[int | None, str], Gpu]
    numa: dict[UUID, tuple[int, ...]]
    datasets: dict[str, str]
    volumes: dict[int, dict[str, Volume]]
    left: dict[int, LeftOutputs]


def build_task_spec(task: Task) -> TaskSpec:
    return build_task_specs([task])[task.uuid.hex]


def build_task_specs(tasks: Sequence[Task]) -> dict[str, TaskSpec]:
    """Build specs by uuid in a fixed number of statements.

    Each has its upstream secret; registry logins are added later.
    """
    if not tasks:
        return {}
    cards = load_cards([held["uuid"] for task in tasks for held in task.cards])
    of: dict[tuple[int | None, str], Gpu] = {(gpu.node_id, gpu.uuid): gpu for gpu in cards}
    jobs = {task.job_id: task.job for task in tasks}
    specs = {pk: from_json(job.spec) for pk, job in jobs.items()}
    said = {pk: set(list_data(spec).values()) for pk, spec in specs.items()}
    datasets = load_dataset_keys(set().union(*said.values()))
    teams = {jobs[pk].team_id for pk, sources in said.items() if any(map(name_volume, sources))}
    volumes, left = load_volumes(teams), load_left(jobs.values())
    beside = SpecContext(specs, load_attempts(jobs.values()), of, load_numa(tasks), datasets, volumes, left)
    return {task.uuid.hex: _build(task, beside) for task in tasks}


def _build(task: Task, context: SpecContext) -> TaskSpec:
    job, spec = task.job, context.specs[task.job_id]
    role, left = role_of(spec, task.role), context.left.get(task.job_id, NOTHING_LEFT)
    code, workdir = code_of(spec, role)
    assert task.node is not None  # assigned tasks have one
    return TaskSpec(
        uuid=task.uuid.hex,
        label=f"{job.public_id} {task.role}.{task.rank}",
        epoch=task.epoch or 0,
        node=task.node.name,
        run=_build_fetch(spec, role) + _build_run(task, spec, role, context.gangs[task.job_id]),
        env=spec.env | role.env,
        workdir=(not is_git(code) and workdir) or None,  # code that is fetched brings its own
        image=role.image or spec.image or "",
        code_path=str(code_file(Path(settings.TESSERA_CODE), code)) if code and not is_git(code) else None,
        gpus=_shares(task, context.cards),
        cpu_milli=task.cpu_milli,
        memory_mib=task.memory_mib,
        shm_mib=role.shm_mib,
        cpu_overcommit_percent=task.node.pool.cpu_overcommit_percent,
        numa=context.numa.get(task.uuid, ()),
        uid=job.user.uid,
        gid=job.team.gid,
        user=job.user.username,
        team=job.team.name,
        max_time_s=job.max_time_s,
        grace_s=GRACE_S,
        rank=task.rank,
        role=task.role,
        peers=build_peers(context.gangs[task.job_id]),
        ports=(task.ports["master"],) if "master" in task.ports else (),
        platform_env={
            UPSTREAM_TOKEN: derive_task_secret(task.uuid),
            **_tools_env(job, spec),
            **_url_env(spec),
            **_array_env(job),
        },
        work_folders=left.variables,
        platform_url=settings.TESSERA_PUBLIC_URL if spec.token else "",
        port_map=build_port_map(task),
        environment=find_environment(task, spec, context.datasets),
        mounts=build_mounts(task, spec, role, context.datasets, context.volumes) + left.mounts,
        checkpoint=build_checkpoint(job, spec, role),
        cpu_pinning=task.node.facts.get("cpu_pinning", ""),
        mps=_allows_mps(task, context.cards),
        hcas=find_hcas(task.node.topology, [held["index"] for held in task.cards]) if role.rdma else None,
        simulated_trace=choose_trace(job),
    )


def _build_fetch(spec: JobSpec, role: RoleSpec) -> str:
    """Return the shell's lines before its command: those that fetch its code, if that lies in a repository."""
    code, workdir = code_of(spec, role)
    git = read_git(code or "")
    return build_fetch(git, workdir, private=SECRET in spec.secrets | role.secrets) if git else ""


def _build_run(task: Task, spec: JobSpec, role: RoleSpec, gang: Iterable[Task]) -> str:
    """Return its role's command, with the main program in the first task of the role that this names."""
    if spec.main is None or spec.main.role != task.role:
        return role.run
    first = min(each.rank for each in gang if each.role == task.role)
    return build_command(spec.main, role) if task.rank == first else role.run


def choose_trace(job: Job) -> str:
    """Return what simulated cards are to do under a job: as its label says, else as its kind does."""
    return job.labels.get("simulated-trace") or ("notebook" if job.kind == JobKind.INTERACTIVE else "train")


def load_cards(uuids: Sequence[str]) -> list[Gpu]:
    return list(Gpu.objects.present().filter(uuid__in=uuids).select_related("node", "pool")) if uuids else []


def load_numa(tasks: Iterable[Task]) -> dict[UUID, tuple[int, ...]]:
    """Return {task: the NUMA node of each card, or of each core if it has no card}."""
    of_cards, of_cores = defaultdict[UUID, list](list), defaultdict[UUID, list](list)
    held = Holding.objects.live().filter(task__in=[task.uuid for task in tasks], numa__isnull=False).order_by("pk")
    for row in held:
        if row.gpu_id is None:
            of_cores[row.task] += [row.numa] * math.ceil(row.cpu_milli / 1000)
        else:
            of_cards[row.task].append(row.numa)
    return {uuid: tuple(of_cards[uuid] or of_cores[uuid]) for uuid in {*of_cores, *of_cards}}


def _shares(task: Task, cards: dict[tuple[int | None, str], Gpu]) -> tuple[GpuShare, ...]:
    """Return the task's GPU shares with current indices."""
    return tuple(
        GpuShare(
            uuid=held["uuid"],
            index=known.index if known else held["index"],
            memory_mib=held["memory_mib"],
            compute_percent=held["compute_percent"],
            whole=held["whole"],
            card=convert_card(known) if known else None,
        )
        for held in task.cards
        for known in [cards.get((task.node_id, held["uuid"]))]
    )


def find_hcas(topology: Mapping[str, Any], cards: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the RDMA adapters with a link that are nearest to one of these cards; all without cards."""
    hcas = [hca for hca in topology.get("hcas", ()) if hca["active"]]

    def distance(hca: Mapping[str, Any], card: int) -> int:
        return HCA_DISTANCES.index(hca["near"].get(str(card), HCA_DISTANCES[-1]))

    nearest = {card: min((distance(hca, card) for hca in hcas), default=0) for card in cards}
    chosen = [hca for hca in hcas if not cards or any(distance(hca, card) == nearest[card] for card in cards)]
    return tuple(hca["name"] for hca in chosen)


def _allows_mps(task: Task, cards: dict[tuple[int | None, str], Gpu]) -> bool:
    known = (cards.get((task.node_id, held["uuid"])) for held in task.cards)
    return all(card.pool.allows_mps for card in known if card)


def build_peers(tasks: Iterable[Task]) -> tuple[Peer, ...]:
    """Return an attempt's tasks by rank."""
    in_order = sorted(tasks, key=lambda task: task.rank)
    return tuple(
        Peer(task.address, task.role, max(len(task.cards), 1), build_port_map(task), task.uuid.hex) for task in in_order
    )


def build_port_map(task: Task) -> dict[int, int]:
    """Return {declared: actual} ports."""
    return {int(declared): actual for declared, actual in task.ports.items() if declared != "master"}


def build_checkpoint(job: Job, spec: JobSpec, role: RoleSpec) -> Checkpoint | None:
    """Return checkpoint settings of a role's tasks, grace limited by the pool."""
    if spec.checkpoint is None:
        return None
    rule = spec.checkpoint
    grace_s = DEFAULT_GRACE_S if rule.grace_s is None else rule.grace_s
    return Checkpoint(find_from_top(rule.dir, *code_of(spec, role)), rule.signal, min(grace_s, job.pool.max_grace_s))


def build_mounts(
    task: Task, spec: JobSpec, role: RoleSpec, datasets: Mapping[str, str], volumes: Mapping[int, Mapping[str, Volume]]
) -> tuple[Mount, ...]:
    """Return mounts for `data`, `outputs` and tools (JupyterLab, TensorBoard). datasets: keys by name. volumes: by
    team and name.
    """
    job = task.job
    places = {"home": AreaId("home", job.user.uid), "team": AreaId("team", job.team.gid)}
    mounts = build_output_mounts(job, spec.outputs, task.attempt)
    for target, text in (spec.data | role.data).items():
        if (name := read_dataset_name(text)) is not None:
            version = AreaId("dataset", datasets.get(text, "")), str(name.number)
            mounts.append(Mount(*version, target, read_only=True))
            continue
        kind, source, read_only = split_source(text)
        if kind == "volume":
            mounts.append(_mount_volume(job.team_id, source, target, read_only, volumes))
        else:
            mounts.append(Mount(places[kind], source, target, read_only))
    if _wants_tools(job, spec):
        tools = str(environment_path(settings.TESSERA_DATA))
        mounts.append(Mount(None, tools, tools, read_only=True))
    return tuple(mounts)


def _mount_volume(
    team_id: int, path: str, target: str, read_only: bool, volumes: Mapping[int, Mapping[str, Volume]]
) -> Mount:
    """path: below the volume, after its name. A volume that is gone meanwhile is one of no place."""
    name, _, below = path.partition("/")
    volume = volumes.get(team_id, {}).get(name)
    where = AreaId("volume", volume.source if volume else "")
    return Mount(where, below, target, read_only or volume is None or volume.read_only)


def find_environment(task: Task, spec: JobSpec, datasets: Mapping[str, str]) -> Mount | None:
    """Return the environment that a task uses, makes or, as a notebook, keeps. datasets: keys by name."""
    if spec.environment:
        text = f"{ENVIRONMENT_KIND}:{spec.environment}"
        name = read_dataset_name(text)
        assert name is not None
        return Mount(AreaId("dataset", datasets.get(text, "")), str(name.number), FOLDER, read_only=True)
    return build_environment_output(task.job, spec.outputs, task.attempt) or build_kept_mount(task.job)


def _tools_env(job: Job, spec: JobSpec) -> dict[str, str]:
    return {TOOLS: str(environment_path(settings.TESSERA_DATA))} if _wants_tools(job, spec) else {}


def _url_env(spec: JobSpec) -> dict[str, str]:
    """Return where a task with a token of its own finds the platform; the command line reads both."""
    return {URL: settings.TESSERA_PUBLIC_URL} if spec.token else {}


def _array_env(job: Job) -> dict[str, str]:
    if job.array_id is None:
        return {}
    return {"TESSERA_ARRAY_ID": show_array_id(job.array_id), "TESSERA_ARRAY_INDEX": str(job.array_index)}


def _wants_tools(job: Job, spec: JobSpec) -> bool:
    """Return whether to mount the tools: wanted, prepared, not in an image, which brings its own."""
    if settings.TESSERA_NOTEBOOK_IMAGE or spec.image:
        return False
    wanted = job.kind == JobKind.INTERACTIVE or spec.tensorboard is not None
    return wanted and (environment_path(settings.TESSERA_DATA) / READY).exists()
