"""The values that rules look at now, with whom each touches.

A value that is not known, or too old, is None. A kind whose tables cannot be read is left out: not known of any of its
subjects.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from functools import cached_property, partial
from shutil import disk_usage
from statistics import median

from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils import timezone

from cluster.models import Agent, Gpu, Node, NodeState, Pool
from common.resources import GpuAsk, parse_gpu
from jobs.models import Job, Task
from jobs.states import TaskState
from monitoring.alerts.catalogue import CHECK
from monitoring.alerts.evaluation import Reading
from monitoring.checks import HEARD_FOR
from monitoring.models import CheckState, NodeCheck, Subject
from monitoring.samples.newest import CardUse, load_card_uses, load_task_uses
from monitoring.samples.shares import WHOLE_MILLI, HeldShare, judge_share, load_held_shares
from quotas.models import Holding, Quota

Found = dict[int, Reading]
Touched = tuple[frozenset[int], frozenset[int]]
"""People, and teams."""
KNOWN_SHARE = 0.9
"""Of a job's cards, or nothing is said of the job."""
LEAST_TASKS = 3
"""With fewer there is no usual task to be slower than."""
PULLS_OF = timedelta(minutes=10)
CHECK_VALUES: dict[str, float] = {CheckState.OK: 0.0, CheckState.WARN: 1.0, CheckState.FAIL: 2.0}


def load_readings(wanted: Collection[tuple[str, str]], platform: dict[str, float | None]) -> dict:
    """Return what is known of the wanted (kind, metric). platform: values that rooms above know."""
    found: dict[tuple[str, str], Found] = {}
    scene = Scene()
    for subject, load in LOADERS.items():
        metrics = {metric for kind, metric in wanted if kind == subject}
        if metrics and (loaded := _try(partial(load, scene))) is not None:
            found |= {(subject, metric): rows for metric, rows in loaded.items() if metric in metrics}
        checks = {metric.removeprefix(CHECK) for metric in metrics if metric.startswith(CHECK)}
        if (
            checks
            and (told := _try(partial(_load_checks, scene, checks, of_cards=subject == Subject.CARD))) is not None
        ):
            found |= {(subject, f"{CHECK}{name}"): told.get(name, {}) for name in checks}
    if any(kind == Subject.PLATFORM for kind, _ in wanted):
        values = {**(_try(_load_platform) or {}), **platform}
        found |= {(Subject.PLATFORM, name): {0: Reading("", value)} for name, value in values.items()}
    return found


class Scene:
    """What several kinds of rules look at, read once a round, when it is first asked for."""

    @cached_property
    def held(self) -> list[HeldShare]:
        return load_held_shares()

    @cached_property
    def by_card(self) -> dict[int, Touched]:
        """Whose work, and of which teams, is on each card."""
        return _group((one.gpu, one.user, one.team) for one in self.held)

    @cached_property
    def by_node(self) -> dict[int, Touched]:
        return _group(Holding.objects.live().values_list("node", "user", "team").distinct())

    @cached_property
    def running(self) -> list[Task]:
        return list(Task.objects.filter(state=TaskState.RUNNING).select_related("job"))

    @cached_property
    def waiting(self) -> list[Job]:
        return list(Job.objects.waiting().filter(held_at=None))


def _load_cards(scene: Scene) -> dict[str, Found]:
    fields = ("pk", "node__name", "index", "node", "pool", "memory_mib", "fault")
    rows = list(Gpu.objects.present().values_list(*fields))
    uses, touched = load_card_uses(row[0] for row in rows), scene.by_card
    found: dict[str, Found] = defaultdict(dict)
    for pk, node_name, index, node, pool, memory_mib, fault in rows:
        use, (users, teams) = uses.get(pk), touched[pk]
        for metric, value in _read_card(use, memory_mib, fault).items():
            found[metric][pk] = Reading(f"{node_name}:{index}", value, users, teams, pool, node)
    return found


def _read_card(use: CardUse | None, memory_mib: int, fault: str) -> dict[str, float | None]:
    names = "busy_percent", "used_mib", "temperature_c", "power_w"
    busy, used, celsius, watts = (getattr(use, name, None) for name in names)
    return {
        "gpu_busy_percent": busy,
        "gpu_memory_percent": None if used is None or not memory_mib else 100 * used / memory_mib,
        "temperature_c": celsius,
        "power_w": watts,
        "faulty": float(bool(fault)),
    }


def _load_nodes(scene: Scene) -> dict[str, Found]:
    now = timezone.now()
    agents = dict(Agent.objects.filter(revoked_at=None).values_list("node_name", "reported_at"))
    found: dict[str, Found] = defaultdict(dict)
    for node in Node.objects.present():
        users, teams = scene.by_node[node.pk]
        values = {
            "silent_s": _count_silence(agents.get(node.name, node.last_seen_at), now),
            "not_ready": float(node.state == NodeState.NOT_READY),
        }
        for metric, value in values.items():
            found[metric][node.pk] = Reading(node.name, value, users, teams, node.pool_id, node.pk)
    return found


def _count_silence(heard_at: datetime | None, now: datetime) -> float | None:
    """None: an agent that was let in and has not reported yet."""
    return None if heard_at is None else max((now - heard_at).total_seconds(), 0.0)


def _load_checks(scene: Scene, names: Collection[str], *, of_cards: bool) -> dict[str, Found]:
    """Return what health checks say: 0 while they pass, 1 for a warning, 2 where they fail."""
    rows = NodeCheck.objects.filter(name__in=names, node__removed_at=None).select_related("node")
    told = rows.exclude(card="") if of_cards else rows.filter(card="")
    cards = {gpu.uuid: gpu for gpu in Gpu.objects.present().select_related("node")} if of_cards else {}
    touched = scene.by_card if of_cards else scene.by_node
    heard = timezone.now() - HEARD_FOR
    found: dict[str, Found] = defaultdict(dict)
    for row in told:
        gpu = cards.get(row.card)
        if of_cards and gpu is None:
            continue
        value = CHECK_VALUES.get(row.state) if row.seen_at > heard else None
        pk, label, pool = (gpu.pk, str(gpu), gpu.pool_id) if gpu else (row.node_id, row.node.name, row.node.pool_id)
        found[row.name][pk] = Reading(label, value, *touched[pk], pool, row.node_id)
    return found


def _load_tasks(scene: Scene) -> dict[str, Found]:
    uses = load_task_uses(task.pk for task in scene.running)
    found: dict[str, Found] = {"memory_percent": {}, "cpu_percent": {}}
    for task in scene.running:
        use = uses.get(task.pk)
        for metric, used, held in (
            ("memory_percent", use.memory_mib if use else None, task.memory_mib),
            ("cpu_percent", use.cpu_milli if use else None, task.cpu_milli),
        ):
            value = None if used is None or not held else 100 * used / held
            found[metric][task.pk] = _read_of_job(task.job, f"{task.job.public_id} {task.name}", value, task.node_id)
    return found


def _load_jobs(scene: Scene) -> dict[str, Found]:
    return {**_read_running_jobs(scene), **_read_waiting_jobs(scene)}


def _read_running_jobs(scene: Scene) -> dict[str, Found]:
    held = defaultdict(list)
    for one in scene.held:
        held[one.task].append(one)
    of_job: dict[Job, list[list[float | None]]] = defaultdict(list)
    gpus: dict[int, float] = defaultdict(float)
    for task in scene.running:
        if task.uuid in held:
            of_job[task.job].append([one.percent for one in held[task.uuid]])
            gpus[task.job_id] += sum(one.milli for one in held[task.uuid]) / WHOLE_MILLI
    found: dict[str, Found] = {"gpu_busy_percent": {}, "straggler_percent": {}}
    for job, by_task in of_job.items():
        mean, slow = compute_mean([value for shares in by_task for value in shares]), compute_straggling(by_task)
        found["gpu_busy_percent"][job.pk] = _read_of_job(job, job.public_id, mean, gpus=gpus[job.pk])
        found["straggler_percent"][job.pk] = _read_of_job(job, job.public_id, slow, gpus=gpus[job.pk])
    return found


def compute_mean(values: list[float | None]) -> float | None:
    """Return the mean of what is known; None if that is too little to say anything."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) >= KNOWN_SHARE * len(values) else None


def compute_straggling(by_task: list[list[float | None]]) -> float | None:
    """Return by how many percent the least busy task is below the median; None if a task is not known."""
    means = [compute_mean(shares) for shares in by_task]
    known = [mean for mean in means if mean is not None]
    if len(known) < max(len(means), LEAST_TASKS):
        return None
    usual = median(known)
    return 0.0 if usual <= 0 else 100 * (usual - min(known)) / usual


def _read_waiting_jobs(scene: Scene) -> dict[str, Found]:
    now = timezone.now()
    found: dict[str, Found] = {"waiting_s": {}, "impossible": {}}
    for job in scene.waiting:
        due = max(job.waits_from, job.not_before or job.waits_from)
        cannot = any(reason.get("code") == "impossible" for reason in job.wait_reasons)
        waited = max((now - due).total_seconds(), 0.0)
        found["waiting_s"][job.pk] = _read_of_job(job, job.public_id, waited)
        found["impossible"][job.pk] = _read_of_job(job, job.public_id, float(cannot))
    return found


def _load_teams(scene: Scene) -> dict[str, Found]:
    held = Holding.objects.live().totals_by("team", "pool")
    wanted: dict[tuple[int, int], float] = defaultdict(float)
    for job in scene.waiting:
        wanted[job.team_id, job.pool_id] += count_cards(job)
    idle, names = _count_idle(scene, lambda one: one.team), {}
    missing: dict[int, float] = defaultdict(float)
    for quota in Quota.objects.filter(gpu_milli_guarantee__gt=0).select_related("team"):
        key = quota.team_id, quota.pool_id
        below = (quota.gpu_milli_guarantee - held.get(key, (0, 0, 0))[0]) / WHOLE_MILLI
        missing[quota.team_id] += max(min(below, wanted[key]), 0.0)
        names[quota.team_id] = quota.team.name
    for quota in Quota.objects.select_related("team"):
        names[quota.team_id] = quota.team.name
    return {
        "missing_gpus": {pk: _read_of_team(pk, names[pk], value) for pk, value in missing.items()},
        "idle_gpus": {pk: _read_of_team(pk, name, idle.get(pk, 0.0)) for pk, name in names.items()},
    }


def count_cards(job: Job) -> float:
    """Return how many cards a waiting job asks for at least; a slice by memory counts as a card."""
    return sum(role["min"] * _count_asked(parse_gpu(role["request"]["gpu"])) for role in job.gang)


def _count_asked(ask: GpuAsk) -> float:
    return ask.part[0] / ask.part[1] if ask.part is not None else float(ask.count or ask.is_slice)


def _load_pools(scene: Scene) -> dict[str, Found]:
    waiting: dict[int, int] = defaultdict(int)
    for job in scene.waiting:
        for pool in job.pool_ids:
            waiting[pool] += 1
    cards: dict[int, list[bool]] = defaultdict(list)
    for pool, healthy in Gpu.objects.present().values_list("pool", "healthy"):
        cards[pool].append(healthy)
    idle = _count_idle(scene, lambda one: one.pool)
    found: dict[str, Found] = defaultdict(dict)
    for pool_id, name in Pool.objects.values_list("pk", "name"):
        all_cards = cards[pool_id]
        values = {
            "waiting_jobs": float(waiting[pool_id]),
            "faulty_percent": 100 * all_cards.count(False) / len(all_cards) if all_cards else None,
            "idle_gpus": idle.get(pool_id, 0.0),
        }
        for metric, value in values.items():
            found[metric][pool_id] = Reading(name, value, pool=pool_id)
    return found


def _count_idle(scene: Scene, key: Callable[[HeldShare], int]) -> dict[int, float]:
    """Return how many cards are known to be held and idle, by team or pool."""
    counts: dict[int, float] = defaultdict(float)
    for one in scene.held:
        if judge_share(one.percent) == "idle":
            counts[key(one)] += one.milli / WHOLE_MILLI
    return counts


def _load_platform() -> dict[str, float | None]:
    made = next(path for path in (settings.TESSERA_DATA, *settings.TESSERA_DATA.parents) if path.exists())
    disk = disk_usage(made)
    failed = Task.objects.filter(
        state=TaskState.FAILED, reason="image_pull", ended_at__gt=timezone.now() - PULLS_OF
    ).values_list("job__user")
    return {
        "disk_used_percent": 100 * (disk.total - disk.free) / disk.total,
        "image_pull_people": float(failed.distinct().count()),
    }


def _read_of_job(job: Job, label: str, value: float | None, node: int | None = None, gpus: float = 0.0) -> Reading:
    return Reading(label, value, frozenset({job.user_id}), frozenset({job.team_id}), job.pool_id, node, gpus)


def _read_of_team(pk: int, name: str, value: float | None) -> Reading:
    return Reading(name, value, teams=frozenset({pk}))


def _group(rows: Iterable[tuple[int, int, int]]) -> dict[int, Touched]:
    """Return people and teams by the first of (card or machine, person, team)."""
    users, teams = defaultdict(set), defaultdict(set)
    for key, user, team in rows:
        users[key].add(user)
        teams[key].add(team)
    return defaultdict(
        lambda: (frozenset(), frozenset()), {key: (frozenset(users[key]), frozenset(teams[key])) for key in users}
    )


def _try(load: Callable[[], dict]) -> dict | None:
    """None: the tables are broken or locked; alerts then stand as not known."""
    try:
        with transaction.atomic():
            return load()
    except DatabaseError:
        return None


LOADERS: dict[str, Callable[[Scene], dict[str, Found]]] = {
    Subject.CARD: _load_cards,
    Subject.NODE: _load_nodes,
    Subject.TASK: _load_tasks,
    Subject.JOB: _load_jobs,
    Subject.TEAM: _load_teams,
    Subject.POOL: _load_pools,
}
