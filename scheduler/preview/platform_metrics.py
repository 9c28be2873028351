"""What the database knows of the platform, as families of Prometheus. Each web process tells the same.

Labels are bounded: pools, teams, machines and reasons. What is not known is absent, never 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from django.db import connection
from django.db.models import Count, Max, Min, Q
from django.db.models.functions import Greatest, Now
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cluster.models import Agent, Gpu, Node, NodeState
from common.locks import database_now
from events.models import Notice
from jobs.models import Job, Task
from jobs.states import JOB_FINAL, TASK_FINAL, JobState, TaskState
from monitoring.models import CardNow
from monitoring.samples.growth import ACTIVE_PERCENT
from monitoring.samples.newest import KNOWN_FOR, load_task_uses
from monitoring.samples.shares import WHOLE_MILLI
from quotas.models import Holding
from scheduler.models import Lease
from webhooks.models import Delivery

"""A card that is held and less busy than that is idle."""
MIB = 1 << 20


def build_platform_families() -> list[Metric]:
    """Return all of them, in some dozen statements."""
    return [*_loops(), *_queue(), *_tasks(), *_machines(), *_cards(), *_samples(), *_outbox(), *_database()]


def build_task_families() -> list[Metric]:
    """Return what running tasks use: a series for each, with its job and team."""
    labels = ["job", "team", "pool", "role", "rank"]
    cores = GaugeMetricFamily("tessera_task_cpu_cores", "Cores that a task used in the last sample.", labels=labels)
    memory = GaugeMetricFamily("tessera_task_memory_bytes", "Memory of a task, without file cache.", labels=labels)
    held = GaugeMetricFamily("tessera_task_gpus", "Cards that a task holds, slices as parts of one.", labels=labels)
    of_card = [*labels, "gpu", "source"]
    busy = GaugeMetricFamily("tessera_task_gpu_busy_percent", "Part of a card's time that a task took.", labels=of_card)
    used = GaugeMetricFamily("tessera_task_gpu_memory_bytes", "GPU memory of a task on a card.", labels=of_card)
    tasks = list(Task.objects.filter(state=TaskState.RUNNING).select_related("job__team", "job__pool"))
    uses = load_task_uses([task.pk for task in tasks])
    milli = Holding.objects.live().filter(task__in=[task.uuid for task in tasks], gpu__isnull=False).totals_by("task")
    for task in tasks:
        named = [task.job.public_id, task.job.team.name, task.job.pool.name, task.role, str(task.rank)]
        _add(held, named, milli.get((task.uuid,), (0, 0, 0))[0] / WHOLE_MILLI)
        if (use := uses.get(task.pk)) is None:
            continue
        _add(cores, named, None if use.cpu_milli is None else use.cpu_milli / 1000)
        _add(memory, named, None if use.memory_mib is None else use.memory_mib * MIB)
        for uuid, share in use.shares.items():
            _add(busy, [*named, uuid, share.source], share.busy_percent)
            _add(used, [*named, uuid, share.source], None if share.used_mib is None else share.used_mib * MIB)
    return [cores, memory, held, busy, used]


def _loops() -> Iterator[Metric]:
    age = _gauge("tessera_sched_last_success_age_seconds", "Time since a loop's last good round.", "loop")
    took = _gauge("tessera_sched_last_round_seconds", "Time of a loop's last good round.", "loop")
    epoch = _gauge("tessera_leader_epoch", "Number of a loop's leader, which grows with each.", "loop")
    now = database_now()
    for lease in Lease.objects.order_by("name"):
        _add(age, [lease.name], max((now - lease.last_ok_at).total_seconds(), 0) if lease.last_ok_at else None)
        _add(took, [lease.name], None if lease.last_ms is None else lease.last_ms / 1000)
        _add(epoch, [lease.name], lease.epoch)
    yield from (age, took, epoch)


def _queue() -> Iterator[Metric]:
    jobs = _gauge("tessera_jobs", "Jobs that are not over, by state.", "state", "pool")
    oldest = _gauge("tessera_oldest_queued_seconds", "How long the first of a pool has been waiting.", "pool")
    reasons = _gauge("tessera_sched_unschedulable", "Waiting jobs by the first reason why.", "reason")
    alive = Job.objects.exclude(state__in=JOB_FINAL).order_by()
    for state, pool, count in alive.values_list("state", "pool__name").annotate(count=Count("pk")):
        _add(jobs, [state.lower(), pool], count)
    waiting = alive.filter(state=JobState.QUEUED, held_at=None)
    now = database_now()
    for pool, since in waiting.values_list("pool__name").annotate(since=Min(Greatest("queued_at", "eligible_at"))):
        _add(oldest, [pool], max((now - since).total_seconds(), 0))
    for code, count in waiting.values_list("wait_reasons__0__code").annotate(count=Count("pk")):
        _add(reasons, [code or "not_explained_yet"], count)
    yield from (jobs, oldest, reasons)


def _tasks() -> Iterator[Metric]:
    tasks = _gauge("tessera_tasks", "Tasks that are not over, by state.", "state")
    lost = _gauge("tessera_attempts_lost", "Tasks that nobody can see; they keep what they hold.")
    lag = _gauge("tessera_reconcile_lag_seconds", "Age of the oldest wish that is not carried out.", "kind")
    alive = Task.objects.exclude(state__in=TASK_FINAL).order_by()
    counts = dict(alive.values_list("state").annotate(count=Count("pk")))
    for state, count in counts.items():
        _add(tasks, [state.lower()], count)
    _add(lost, [], counts.get(TaskState.LOST, 0))
    starting, stopping = Q(state__in=[TaskState.ASSIGNED, TaskState.STARTING]), Q(state=TaskState.STOPPING)
    wishes = alive.aggregate(
        start=Min("assigned_at", filter=starting), stop=Min("job__stop_requested_at", filter=stopping)
    )
    now = database_now()
    for kind, since in wishes.items():
        _add(lag, [kind], max((now - since).total_seconds(), 0) if since else 0)
    yield from (tasks, lost, lag)


def _machines() -> Iterator[Metric]:
    nodes = _gauge("tessera_nodes", "Machines by state.", "state")
    suspect = _gauge("tessera_nodes_suspect", "Machines of which nothing was heard; nothing new starts there.")
    counts = Counter(Node.objects.present().values_list("state", flat=True))
    for state in NodeState.values:
        _add(nodes, [state.lower()], counts[state])
    _add(suspect, [], counts[NodeState.SUSPECT])
    lag = _gauge("tessera_agent_report_age_seconds", "Time since an agent's last report.", "node")
    now = database_now()
    for node, at in Agent.objects.filter(revoked_at=None).values_list("node_name", "reported_at"):
        _add(lag, [node], max((now - at).total_seconds(), 0) if at else None)
    yield from (nodes, suspect, lag)


def _cards() -> Iterator[Metric]:
    cards = _gauge("tessera_gpus", "Cards of machines that take part.", "pool")
    out = _gauge("tessera_devices_cordoned", "Cards that take nothing new, by why.", "reason")
    allocated = _gauge("tessera_gpu_allocated_ratio", "Part of a pool's cards that is held.", "pool")
    by_team = _gauge("tessera_gpus_held", "Cards that a team holds, slices as parts of one.", "pool", "team")
    used = _gauge("tessera_gpu_used_ratio", "Mean activity of the cards of a pool of which it is known.", "pool")
    idle = _gauge("tessera_gpu_idle_allocated", "Cards that are held and less than 5 % busy.", "pool")
    unknown = _gauge("tessera_gpu_unknown", "Cards that are held, and nobody knows how busy they are.", "pool")
    held = {gpu for (gpu,) in Holding.objects.live().filter(gpu__isnull=False).totals_by("gpu")}
    busy = dict(CardNow.objects.filter(at__gt=Now() - KNOWN_FOR).values_list("gpu", "busy_percent"))
    rows = list(Gpu.objects.present().values_list("pk", "pool__name", "healthy", "node__state"))
    for reason, count in Counter(_why_out(healthy, state) for _, _, healthy, state in rows).items():
        _add(out, [reason], count if reason else None)
    amounts = Holding.objects.live().filter(gpu__isnull=False).totals_by("gpu__pool__name", "team__name")
    for (pool, team), (milli, _, _) in sorted(amounts.items()):
        _add(by_team, [pool, team], milli / WHOLE_MILLI)
    for pool in sorted({pool for _, pool, _, _ in rows}):
        own = [pk for pk, name, _, _ in rows if name == pool]
        known = {pk: percent for pk in own if (percent := busy.get(pk)) is not None}
        milli = sum(amount[0] for (name, _), amount in amounts.items() if name == pool)
        _add(cards, [pool], len(own))
        _add(allocated, [pool], milli / WHOLE_MILLI / len(own))
        _add(used, [pool], sum(known.values()) / len(known) / 100 if known else None)
        _add(idle, [pool], sum(percent < ACTIVE_PERCENT for pk, percent in known.items() if pk in held))
        _add(unknown, [pool], sum(pk in held and pk not in known for pk in own))
    yield from (cards, out, allocated, by_team, used, idle, unknown)


def _why_out(healthy: bool, state: str) -> str:
    if not healthy:
        return "fault"
    return "" if state == NodeState.READY else f"node_{state.lower()}"


def _samples() -> Iterator[Metric]:
    lag = _gauge("tessera_samples_age_seconds", "Time since a machine's newest sample.", "node")
    now = database_now()
    present = CardNow.objects.filter(gpu__removed_at=None).order_by()
    for node, at in present.values_list("gpu__node__name").annotate(at=Max("at")):
        _add(lag, [node], max((now - at).total_seconds(), 0))
    yield lag


def _outbox() -> Iterator[Metric]:
    oldest = _gauge("tessera_outbox_oldest_seconds", "How late the oldest webhook or mail is.", "kind")
    now = database_now()
    for kind, rows in (("webhook", Delivery.objects), ("mail", Notice.objects)):
        due = rows.filter(due_at__lte=now).aggregate(at=Min("due_at"))["at"]
        _add(oldest, [kind], (now - due).total_seconds() if due else 0)
    yield oldest


def _database() -> Iterator[Metric]:
    deadlocks = CounterMetricFamily("tessera_deadlocks_total", "Deadlocks that PostgreSQL ended.")
    size = _gauge("tessera_database_bytes", "Size of the database.")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT deadlocks, pg_database_size(datname) FROM pg_stat_database WHERE datname = current_database()"
        )
        found, length = cursor.fetchone()
    deadlocks.add_metric([], found)
    _add(size, [], length)
    yield from (deadlocks, size)


def _gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, labels=list(labels))


def _add(family: GaugeMetricFamily, labels: Iterable[str], value: float | None) -> None:
    """Add a value, if it is known."""
    if value is not None:
        family.add_metric(list(labels), float(value))
