"""The AIStation case study: 32 V100, 50 developers by day, 12-hour training jobs.

Developers are urgent and not preemptible. Times in seconds from Monday 00:00.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np

from scheduler.core.forecast.simulate import SimulationRules
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import (
    NORMAL,
    URGENT,
    LendingWindow,
    Policy,
    Role,
    RunningJob,
    TaskResources,
    WaitingJob,
)
from scheduler.core.placement.filters import find_fitting_cards
from scheduler.simulation.cluster_spec import SimulatedCluster, SimulatedNode, SimulatedTeam
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.working_week import DAY_S, HOUR_S, WEEK_S, WORKING_DAYS, WorkingDay, build_lending_windows

MINUTE = 60
WORKING_DAY = WorkingDay()
WEEKS, WARM_UP = 4, 1
NODES, CARDS_PER_NODE, CARD_MIB = 4, 8, 32_768
CARDS = NODES * CARDS_PER_NODE
MAX_DEVELOPERS_BESIDE = 2
"""Developers that may share a card with a training job."""
DEVELOPER_LOAD = 0.10
"""Share of a card's compute that a developer uses."""
RESUME_S = 2.0 * MINUTE
"""Cost of a checkpoint to a training job."""
QUEUE_DEPTH = 8
"""Training jobs are equal, so few of them need to be looked at."""
ARRIVALS = ((10, 27), (14, 27), (18, 26))
"""(hour, jobs) per working day, in the variant with daily arrivals."""


PACK_POLICY = Policy(reservations=1)
"""As shipped, but for one reservation: enough, as all jobs want one card or less."""


@dataclass(frozen=True)
class CaseStudy:
    """Inputs. opens_s: start of each developer's day; stays_s: its length; users: of the training jobs."""

    opens_s: tuple[int, ...]
    stays_s: int
    slice_mib: int
    users: tuple[str, ...]
    job_s: int
    job_mib: int
    has_daily_arrivals: bool = False

    @property
    def slices(self) -> int:
        """Developers that fit on one card."""
        return CARD_MIB // self.slice_mib

    @property
    def dev_cards(self) -> int:
        """Cards that all developers need by day."""
        return ceil(len(self.opens_s) / self.slices)


@dataclass(frozen=True)
class SharingCase:
    """One way to share the cards.

    home: the developers' cards (None: as needed; 0: one pool for all). whole, beside: how developers use cards.
    """

    name: str
    description: str
    home: int | None
    lent: Callable[[tuple[int, ...]], tuple[LendingWindow, ...]] | None = None
    whole: bool = False
    beside: bool = False
    checkpoints: bool = False
    policy: Policy = PACK_POLICY


def load_study(folder: Path) -> CaseStudy:
    """Load the study. Raises ValueError unless all jobs, and all sessions, have one length."""
    with (folder / "dev_sessions.csv").open() as file:
        sessions = [row for row in csv.DictReader(file) if row["weekday_0mon"] == "0"]
    with (folder / "train_backlog.csv").open() as file:
        jobs = list(csv.DictReader(file))
    opens = tuple(_seconds(row["open_min"]) for row in sessions)
    stays = {_seconds(row["close_min"]) - at for row, at in zip(sessions, opens, strict=True)}
    (stays_s,), (slice_mib,) = stays, {int(row["gpu_mem_mib"]) for row in sessions}
    (job_s,), (job_mib,) = {_seconds(row["duration_min"]) for row in jobs}, {int(row["gpu_mem_mib"]) for row in jobs}
    return CaseStudy(opens, stays_s, slice_mib, tuple(row["user"] for row in jobs), job_s, job_mib)


def replace_developers(study: CaseStudy, count: int) -> CaseStudy:
    """Return the study with `count` developers, who start within 20 minutes of 09:00."""
    return replace(study, opens_s=tuple(9 * HOUR_S + ((7 * i) % 41 - 20) * MINUTE for i in range(count)))


def build_scenario(study: CaseStudy, case: SharingCase) -> Scenario:
    """Build the scenario: sessions of team 0, then jobs of team 1."""
    cluster = build_cluster(study, case)
    sessions, over_at = build_sessions(study, case, cluster)
    jobs = (*sessions, *build_jobs(study, case, cluster, first=len(sessions) + 1))
    rules = SimulationRules(
        leaves_at=over_at,
        resume_cost_s=RESUME_S if case.checkpoints else None,
        pace=_pace_beside_developers if case.beside else None,
        depth=QUEUE_DEPTH,
    )
    durations = {job.job: job.time_s for job in jobs}
    name = f"{case.name}: {case.description}"
    windows = case.lent(tuple(range(_developer_cards(study, case)))) if case.lent else ()
    until = measured_period()[1]
    return Scenario(name, 0, cluster, case.policy, rules, jobs, durations, until, WORKING_DAY, windows)


def measured_period() -> tuple[float, float]:
    """Return the measured period: whole weeks after the warm-up, from Monday 08:00."""
    return WARM_UP * WEEK_S + WORKING_DAY.begins, WEEKS * WEEK_S + WORKING_DAY.begins


def build_cluster(study: CaseStudy, case: SharingCase) -> SimulatedCluster:
    """Build the cluster: pool 0 for developers, pool 1 for training."""
    home, slices = _developer_cards(study, case), MAX_DEVELOPERS_BESIDE + 1 if case.beside else study.slices
    pools = ["dev" if case.home == 0 or card < home else "train" for card in range(CARDS)]
    machines = tuple(
        SimulatedNode(
            f"n{node}", tuple(("V100", CARD_MIB, pools[node * CARDS_PER_NODE + i]) for i in range(CARDS_PER_NODE))
        )
        for node in range(NODES)
    )
    users = tuple(dict.fromkeys((*(f"dev{i:02}" for i in range(len(study.opens_s))), *study.users)))
    return SimulatedCluster(
        machines, {"dev": slices, "train": slices}, (SimulatedTeam("development"), SimulatedTeam("training")), users
    )


def build_sessions(
    study: CaseStudy, case: SharingCase, cluster: SimulatedCluster
) -> tuple[tuple[WaitingJob, ...], dict[int, float]]:
    """Build a session per developer and working day, and {session: end}, whether it started or not."""
    ask = cluster.build_resources(gpus=1, memory_mib=None if case.whole else study.slice_mib)
    gang = (Role("notebook", 1, 1, ask),)
    sessions: list[WaitingJob] = []
    over_at: dict[int, float] = {}
    for day in (day for day in range(7 * WEEKS) if day % 7 < WORKING_DAYS):
        for developer, opens_s in enumerate(study.opens_s):
            at = day * DAY_S + opens_s
            number = len(sessions) + 1
            sessions.append(WaitingJob(number, 0, developer, 0, URGENT, at, gang, time_s=study.stays_s))
            over_at[number] = float(at + study.stays_s)
    return tuple(sessions), over_at


def build_jobs(study: CaseStudy, case: SharingCase, cluster: SimulatedCluster, first: int) -> tuple[WaitingJob, ...]:
    """Build the training jobs: all at time 0, enough for a full cluster, or daily arrivals."""
    ask = cluster.build_resources(gpus=1)
    if case.beside:
        ask = _leave_room(study, cluster.build_resources(gpus=1, memory_mib=study.job_mib))
    gang, pool = (Role("worker", 1, 1, ask),), 0 if case.home == 0 else 1
    enough = max(len(study.users), ceil(CARDS * measured_period()[1] / study.job_s) + CARDS)
    times = _daily_arrivals() if study.has_daily_arrivals else [0.0] * enough
    users = [cluster.users.index(user) for user in study.users]
    return tuple(
        WaitingJob(
            first + i, 1, users[i % len(users)], pool, NORMAL, at, gang,
            time_s=study.job_s, preemptible=case.checkpoints,
        )
        for i, at in enumerate(times)
    )  # fmt: skip


def lend_at_night(gpus: tuple[int, ...]) -> tuple[LendingWindow, ...]:
    return build_lending_windows(gpus, 1, WORKING_DAY.list_nights(WEEKS * WEEK_S))


def lend_in_evenings(gpus: tuple[int, ...]) -> tuple[LendingWindow, ...]:
    """Return lending windows in which jobs start only at 20:00 of working days, as if by hand."""
    later = [window for window in lend_at_night(gpus) if window.begins_at >= 0]
    return tuple(replace(window, last_start=window.begins_at + MINUTE) for window in later)


def score_emptiest(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    gpus, owner = snapshot.cards_on(nodes)
    fits = find_fitting_cards(snapshot, request, gpus)
    room = np.zeros(len(nodes))
    np.maximum.at(room, owner[fits], snapshot.gpu_free_mib[gpus[fits]] / snapshot.gpu_total_mib[gpus[fits]])
    return room


def choose_emptiest_cards(snapshot: Snapshot, request: RequestClass, node: int) -> list[int]:
    gpus, _ = snapshot.cards_on(snapshot.nodes[node : node + 1])
    gpus = gpus[find_fitting_cards(snapshot, request, gpus)]
    return gpus[np.argsort(-snapshot.gpu_free_mib[gpus], kind="stable")][: request.ask.gpus].tolist()


EMPTIEST_POLICY = replace(PACK_POLICY, scores=((score_emptiest, 1.0),), cards=choose_emptiest_cards)
"""What the case study describes: each developer on the emptiest card. No pool of ours can be set to this."""

CASES = (
    SharingCase(
        "A", "whole cards for developers by day, jobs started by hand at night", CARDS, lend_in_evenings, whole=True
    ),
    SharingCase(
        "B",
        "16 cards for developers, lent by night and at weekends; 16 to train",
        16,
        lend_at_night,
        policy=EMPTIEST_POLICY,
    ),
    SharingCase("B-shipped", "as B, in a pool as shipped: developers packed on few of the 16", 16, lend_at_night),
    SharingCase("C", "as few cards for developers as they need, lent by night; the rest trains", None, lend_at_night),
    SharingCase("C2", "as C, and jobs may be checkpointed when a developer comes", 0, checkpoints=True),
    SharingCase("D", "developers beside training jobs on all cards", 0, beside=True),
)


def _developer_cards(study: CaseStudy, case: SharingCase) -> int:
    return study.dev_cards if case.home is None else case.home


def _leave_room(study: CaseStudy, ask: TaskResources) -> TaskResources:
    beside = min((CARD_MIB - study.job_mib) // study.slice_mib, MAX_DEVELOPERS_BESIDE)
    percent = 100 - beside * (100 * study.slice_mib // CARD_MIB)
    return replace(ask, need_percent=(percent,))


def _pace_beside_developers(job: RunningJob, snapshot: Snapshot) -> float:
    """Return a training job's pace with developers on its card."""
    if job.priority == URGENT:
        return 1.0
    (card,) = job.tasks[0].cards
    return 1.0 - DEVELOPER_LOAD * (int(snapshot.gpu_slices[card.gpu]) - 1)


def _daily_arrivals() -> list[float]:
    days = (day for day in range(7 * WEEKS) if day % 7 < WORKING_DAYS)
    return [float(day * DAY_S + hour * HOUR_S) for day in days for hour, count in ARRIVALS for _ in range(count)]


def _seconds(minutes: str) -> int:
    return round(float(minutes) * MINUTE)
