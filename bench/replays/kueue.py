"""Workloads of Kueue's scheduler performance test, simulated with Tessera's cycle.

A queue becomes a team with its quota as guarantee, its cohort the parent team. The clock runs in milliseconds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import prod
from pathlib import Path

import numpy as np
import yaml

from scheduler.core.model.snapshot import UNLIMITED, Snapshot
from scheduler.core.model.types import CPU_MILLI, RESOURCES, Role, TaskResources, WaitingJob

TICKS_PER_S = 1000.0
"""Clock ticks per second."""
PLENTY_MIB = 2**40


@dataclass(frozen=True)
class KueueWorkload:
    """A workload class: `count` jobs, one every `every_ms` from 0.

    within: pods that must share a rack; 0: any.
    """

    name: str
    count: int
    every_ms: int
    runs_ms: int
    priority: int
    pods: int
    cpu_milli: int
    pods_per_rack: int

    @property
    def work(self) -> int:
        """Milli of a core times milliseconds."""
        return self.pods * self.cpu_milli * self.runs_ms


@dataclass(frozen=True)
class KueueQueue:
    cohort: int
    nominal_milli: int
    borrowing_milli: int
    workloads: tuple[KueueWorkload, ...]


@dataclass(frozen=True)
class KueueGenerator:
    """A generator file. racks, nodes per rack: 0 without topology."""

    queues: tuple[KueueQueue, ...]
    cohorts: int
    racks: int
    nodes: int
    node_milli: int

    @property
    def capacity_milli(self) -> list[int]:
        """Nominal quota of each cohort."""
        return [sum(q.nominal_milli for q in self.queues if q.cohort == cohort) for cohort in range(self.cohorts)]

    def keeps_racks(self, workload: KueueWorkload, nodes: Sequence[int]) -> bool:
        in_rack = Counter(node // self.nodes for node in nodes)
        return not workload.pods_per_rack or all(pods % workload.pods_per_rack == 0 for pods in in_rack.values())


def load_generator(path: Path) -> KueueGenerator:
    """Load a generator file. Raises KeyError or ValueError if incomplete."""
    said = yaml.safe_load(path.read_text())
    queues: list[KueueQueue] = []
    cohorts = [cohort for kind in said["cohorts"] for cohort in [kind] * kind["count"]]
    for cohort, kind in enumerate(cohorts):
        for of_kind in kind["queuesSets"]:
            workloads = tuple(
                _parse_workload(one, each) for one in of_kind["workloadsSets"] for each in one["workloads"]
            )
            nominal, borrowing = _parse_milli(of_kind["nominalQuota"]), _parse_milli(of_kind["borrowingLimit"])
            queues += [KueueQueue(cohort, nominal, borrowing, workloads)] * of_kind["count"]
    levels = said.get("topology", {}).get("levels", [])
    racks = prod(level["count"] for level in levels[:-1]) if levels else 0
    nodes, node_milli = (levels[-1]["count"], _parse_milli(levels[-1]["capacity"]["cpu"])) if levels else (0, 0)
    return KueueGenerator(tuple(queues), len(cohorts), racks, nodes, node_milli)


def build_jobs(generator: KueueGenerator) -> tuple[list[WaitingJob], dict[int, KueueWorkload]]:
    """Return (jobs by arrival, {job: workload}). Each queue is a team and a user."""
    kinds = {workload for queue in generator.queues for workload in queue.workloads}
    classes = sorted({workload.priority for workload in kinds})
    gangs = {workload: _build_gang(workload) for workload in kinds}
    coming = [
        (workload.every_ms * number, team, workload)
        for team, queue in enumerate(generator.queues)
        for workload in queue.workloads
        for number in range(workload.count)
    ]
    coming.sort(key=lambda each: each[:2])
    jobs = [
        WaitingJob(
            job, team, team, 0, classes.index(workload.priority), float(at), gangs[workload],
            time_s=float(workload.runs_ms), preemptible=True,
        )
        for job, (at, team, workload) in enumerate(coming, start=1)
    ]  # fmt: skip
    return jobs, {job: workload for job, (*_, workload) in enumerate(coming, start=1)}


def build_cluster(generator: KueueGenerator) -> Snapshot:
    """Build the empty cluster. Teams: queues, then cohorts."""
    queues, capacity = generator.queues, generator.capacity_milli
    teams, users = len(queues) + generator.cohorts, len(queues)
    guarantee = np.zeros((teams, 1, len(RESOURCES)), dtype=np.int64)
    limit = np.full_like(guarantee, UNLIMITED)
    guarantee[:, 0, CPU_MILLI] = [queue.nominal_milli for queue in queues] + capacity
    limit[:, 0, CPU_MILLI] = [queue.nominal_milli + queue.borrowing_milli for queue in queues] + capacity
    cpu = [generator.node_milli] * (generator.racks * generator.nodes) or [sum(capacity)]
    none = np.zeros(0)
    return Snapshot(
        gpu_node=none, gpu_pool=none, gpu_kind=none, gpu_total_mib=none, gpu_free_mib=none, gpu_free_percent=none,
        gpu_slices=none, gpu_max_slices=none, gpu_open=none,
        node_pool=np.zeros(len(cpu)), node_cpu_free=np.array(cpu), node_memory_free=np.full(len(cpu), PLENTY_MIB),
        node_open=np.ones(len(cpu)), node_cpu_total=np.array(cpu), node_memory_total=np.full(len(cpu), PLENTY_MIB),
        team_chain=(
            *((team, len(queues) + queue.cohort) for team, queue in enumerate(queues)),
            *((team,) for team in range(len(queues), teams)),
        ),
        held=np.zeros_like(guarantee), guarantee=guarantee, limit=limit, weight=np.ones((teams, 1)),
        user_held=np.zeros((users, len(RESOURCES))), user_limit=np.full((users, len(RESOURCES)), UNLIMITED),
        user_jobs=np.zeros(users), user_jobs_limit=np.full(users, UNLIMITED), kind_names=(),
    )  # fmt: skip


def schedule_ideally(generator: KueueGenerator) -> dict[int, int]:
    """Return {job: start} in the ideal case: each cohort one pool of CPU, no preemption."""
    jobs, kinds = build_jobs(generator)
    starts: dict[int, int] = {}
    for cohort, capacity in enumerate(generator.capacity_milli):
        of_cohort = [job for job in jobs if generator.queues[job.team].cohort == cohort]
        starts |= _schedule_cohort(of_cohort, kinds, capacity)
    return starts


def _schedule_cohort(jobs: list[WaitingJob], kinds: Mapping[int, KueueWorkload], free: int) -> dict[int, int]:
    starts: dict[int, int] = {}
    lines: dict[tuple[int, int], list[int]] = {}
    """{(-priority, CPU): jobs, oldest first}."""
    events: list[tuple[int, int, int]] = [(int(job.submitted_at), 1, place) for place, job in enumerate(jobs)]
    events.sort()
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, is_arrival, number = heappop(events)
            if is_arrival:
                job = jobs[number]
                lines.setdefault((-job.priority, _workload_cpu(kinds[job.job])), []).append(job.job)
            else:
                free += number
        for line in sorted(lines):
            started = min(free // line[1], len(lines[line]))
            for job_number in lines[line][:started]:
                starts[job_number] = now
                heappush(events, (now + kinds[job_number].runs_ms, 0, line[1]))
            free -= started * line[1]
            del lines[line][:started]
            if lines[line]:
                break
    return starts


def _workload_cpu(workload: KueueWorkload) -> int:
    return workload.pods * workload.cpu_milli


def _build_gang(workload: KueueWorkload) -> tuple[Role, ...]:
    ask = TaskResources(0, False, (), (), (), (), workload.cpu_milli, 0)
    return (Role("main", workload.pods, workload.pods, ask),)


def _parse_workload(one: dict, each: dict) -> KueueWorkload:
    pods, within = each.get("podCount", 1), 0
    if each.get("tasConstraint") == "required":
        within = pods
    elif each.get("tasConstraint") == "balanced":
        within = each.get("sliceSize", 1)
    return KueueWorkload(
        each["className"], one["count"], one["creationIntervalMs"], each["runtimeMs"], each["priority"], pods,
        _parse_milli(each["request"]), within,
    )  # fmt: skip


def _parse_milli(cores: int | str) -> int:
    """Parse CPU: 1 or "1" cores, "500m" thousandths."""
    text = str(cores)
    return int(text.removesuffix("m")) if text.endswith("m") else 1000 * int(text)
