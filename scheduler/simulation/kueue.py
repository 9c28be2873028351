"""Workloads as the generators of Kueue's scheduler test make them, played through the scheduler's own cycle.

A file says what a generator of `test/performance/scheduler` says: cohorts of queues, and for each queue sets of
workloads, one every so many milliseconds and the first at once, that only ask for CPU. A queue is a team with its
nominal quota as guarantee, its cohort is the team above, which may use what its queues have together; a queue may
borrow up to its limit. Without a topology quota alone decides, as there: one machine has all that is guaranteed. The
clock is in milliseconds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import prod
from pathlib import Path

import numpy as np
import yaml

from scheduler.core.snapshot import UNLIMITED, Snapshot
from scheduler.core.types import CPU_MILLI, RESOURCES, Ask, Role, Waiting

MS = 1000.0
"""The clock's ticks in a second."""
PLENTY_MIB = 2**40


@dataclass(frozen=True)
class Workload:
    """One kind of workload of a queue: `count` of them, one every `every_ms`, the first at 0.

    within: pods that have to stay in one rack: all, a slice of them, or 0: no rack is asked.
    """

    name: str
    count: int
    every_ms: int
    runs_ms: int
    priority: int
    pods: int
    cpu_milli: int
    within: int

    @property
    def work(self) -> int:
        """Thousandths of a core times milliseconds."""
        return self.pods * self.cpu_milli * self.runs_ms


@dataclass(frozen=True)
class Queue:
    cohort: int
    nominal_milli: int
    borrowing_milli: int
    workloads: tuple[Workload, ...]


@dataclass(frozen=True)
class Generator:
    """racks, nodes: none where quota alone decides, else how many racks of how many nodes each."""

    queues: tuple[Queue, ...]
    cohorts: int
    racks: int
    nodes: int
    node_milli: int

    @property
    def capacity_milli(self) -> list[int]:
        """What the queues of each cohort have together."""
        return [sum(q.nominal_milli for q in self.queues if q.cohort == cohort) for cohort in range(self.cohorts)]

    def keeps_racks(self, workload: Workload, nodes: Sequence[int]) -> bool:
        """Do pods on these nodes stay in racks as the workload asks?"""
        in_rack = Counter(node // self.nodes for node in nodes)
        return not workload.within or all(pods % workload.within == 0 for pods in in_rack.values())


def load_generator(path: Path) -> Generator:
    """Raises KeyError or ValueError where the file lacks something."""
    said = yaml.safe_load(path.read_text())
    queues: list[Queue] = []
    cohorts = [cohort for kind in said["cohorts"] for cohort in [kind] * kind["count"]]
    for cohort, kind in enumerate(cohorts):
        for of_kind in kind["queuesSets"]:
            workloads = tuple(_workload(one, each) for one in of_kind["workloadsSets"] for each in one["workloads"])
            nominal, borrowing = _milli(of_kind["nominalQuota"]), _milli(of_kind["borrowingLimit"])
            queues += [Queue(cohort, nominal, borrowing, workloads)] * of_kind["count"]
    levels = said.get("topology", {}).get("levels", [])
    racks = prod(level["count"] for level in levels[:-1]) if levels else 0
    nodes, node_milli = (levels[-1]["count"], _milli(levels[-1]["capacity"]["cpu"])) if levels else (0, 0)
    return Generator(tuple(queues), len(cohorts), racks, nodes, node_milli)


def build_jobs(generator: Generator) -> tuple[list[Waiting], dict[int, Workload]]:
    """(jobs as they come, {job: its kind}). A queue is a team and a user; classes are the priorities in their order."""
    kinds = {workload for queue in generator.queues for workload in queue.workloads}
    classes = sorted({workload.priority for workload in kinds})
    gangs = {workload: _gang(workload) for workload in kinds}
    coming = [
        (workload.every_ms * number, team, workload)
        for team, queue in enumerate(generator.queues)
        for workload in queue.workloads
        for number in range(workload.count)
    ]
    coming.sort(key=lambda each: each[:2])
    jobs = [
        Waiting(
            job, team, team, 0, classes.index(workload.priority), float(at), gangs[workload],
            time_s=float(workload.runs_ms), preemptible=True,
        )
        for job, (at, team, workload) in enumerate(coming, start=1)
    ]  # fmt: skip
    return jobs, {job: workload for job, (*_, workload) in enumerate(coming, start=1)}


def build_cluster(generator: Generator) -> Snapshot:
    """The empty cluster. Teams: the queues, then the cohorts."""
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


def count_strictly(generator: Generator) -> dict[int, int]:
    """{job: when it starts} where each cohort is one heap of CPU: by class, then age; what fits starts, nobody is
    stopped. The ideal that the figures are compared with.
    """
    jobs, kinds = build_jobs(generator)
    starts: dict[int, int] = {}
    for cohort, capacity in enumerate(generator.capacity_milli):
        of_cohort = [job for job in jobs if generator.queues[job.team].cohort == cohort]
        starts |= _count_cohort(of_cohort, kinds, capacity)
    return starts


def _count_cohort(jobs: list[Waiting], kinds: Mapping[int, Workload], free: int) -> dict[int, int]:
    starts: dict[int, int] = {}
    lines: dict[tuple[int, int], list[int]] = {}
    """{(class, CPU), alike: the jobs, the oldest first}."""
    events: list[tuple[int, int, int]] = [(int(job.submitted_at), 1, place) for place, job in enumerate(jobs)]
    events.sort()
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, is_arrival, number = heappop(events)
            if is_arrival:
                job = jobs[number]
                lines.setdefault((-job.priority, _cpu(kinds[job.job])), []).append(job.job)
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


def _cpu(workload: Workload) -> int:
    return workload.pods * workload.cpu_milli


def _gang(workload: Workload) -> tuple[Role, ...]:
    ask = Ask(0, False, (), (), (), (), workload.cpu_milli, 0)
    return (Role("main", workload.pods, workload.pods, ask),)


def _workload(one: dict, each: dict) -> Workload:
    pods, within = each.get("podCount", 1), 0
    if each.get("tasConstraint") == "required":
        within = pods
    elif each.get("tasConstraint") == "balanced":
        within = each.get("sliceSize", 1)
    return Workload(
        each["className"], one["count"], one["creationIntervalMs"], each["runtimeMs"], each["priority"], pods,
        _milli(each["request"]), within,
    )  # fmt: skip


def _milli(cores: int | str) -> int:
    """1 or "1": a whole core; "500m": thousandths."""
    text = str(cores)
    return int(text.removesuffix("m")) if text.endswith("m") else 1000 * int(text)
