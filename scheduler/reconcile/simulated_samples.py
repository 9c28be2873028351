"""Samples of simulated cards that nobody else looks at: those of a cluster's nodes without an agent.

They follow their tasks' traces, as simulated cards of one machine do. Totals stand in the cache's server between two
ticks; where they are lost, another run begins.
"""

import json
import logging
import time
from collections.abc import Iterable
from dataclasses import asdict
from uuid import uuid4

from django.db.models import Exists, OuterRef
from redis.exceptions import RedisError

from cluster.models import Agent, Gpu, Node
from common.cache_server import cache_server
from jobs.models import Task
from jobs.states import TaskState
from monitoring.samples.ingest import take_samples
from monitoring.samples.pace import claim_sample
from runtimes.local.sampler import TaskLook, Totals, build_tick
from scheduler.reconcile.task_specs import choose_trace

log = logging.getLogger("tessera.samples")

MOST_NODES = 50
"""Of one round, so that samples of a large simulated cluster are in nobody's way."""
KEPT_S = 3600


def sample_simulated_cards() -> int:
    """Sample the cards of each such node on which a task runs, where it is time; return how many nodes were."""
    nodes = [node for node in list_unwatched_nodes() if claim_sample(node.name)]
    for node in nodes:
        _sample(node)
    return len(nodes)


def list_unwatched_nodes() -> list[Node]:
    """Return nodes without an agent on which tasks hold simulated cards, some of many."""
    running = Task.objects.filter(node=OuterRef("pk"), state=TaskState.RUNNING).exclude(cards=[])
    agents = Agent.objects.filter(revoked_at__isnull=True).values("node_name")
    simulated = Gpu.objects.present().filter(node=OuterRef("pk"), simulated=True)
    found = Node.objects.present().filter(Exists(running), Exists(simulated)).exclude(name__in=agents)
    return list(found.order_by("?")[:MOST_NODES])


def build_looks(tasks: Iterable[Task]) -> list[TaskLook]:
    """Return what traces need of running tasks."""
    return [
        TaskLook(task.uuid.hex, task.started_at.timestamp(), choose_trace(task.job), tuple(task.cards))
        for task in tasks
        if task.started_at is not None
    ]


def _sample(node: Node) -> None:
    cards = {gpu.uuid: gpu for gpu in Gpu.objects.present().filter(node=node, simulated=True)}
    tasks = Task.objects.filter(node=node, state=TaskState.RUNNING).exclude(cards=[]).select_related("job")
    key, now_s = f"tessera simulated totals {node.name}", time.time()
    try:
        totals = _read_totals(key, now_s)
        tick = build_tick(build_looks(tasks), cards, {}, totals, now_s)
        cache_server().set(key, json.dumps(asdict(totals)), ex=KEPT_S)
    except RedisError as away:
        log.warning("no samples of %s: %s", node.name, away)
        return
    take_samples(node, {"run": totals.run, "first": tick["seq"], "ticks": [tick]})


def _read_totals(key: str, now_s: float) -> Totals:
    """Return the totals of the last tick, or those of a new run. Raises RedisError."""
    kept = cache_server().get(key)
    totals = Totals(**json.loads(kept)) if isinstance(kept, bytes) else None  # none of these cards is real
    if totals is None or totals.began_s > now_s:
        return Totals(f"simulated/{uuid4().hex[:8]}", now_s)
    return totals
