"""The day and night of the AIStation case study: 32 V100, 50 developers by day, training jobs of 12 hours.

Each case is a few values for the same event loop and the same `place()`: whose cards are whose, when they are lent,
what is asked, and the scores. Developers are urgent (waiting never makes a training job so) and cannot be stopped.
Times are seconds, 0 is Monday 00:00.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np

from scheduler.core.filters import fitting_cards
from scheduler.core.play import Rules
from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import NORMAL, URGENT, Ask, Policy, Role, Running, Waiting, Window
from scheduler.simulation.cluster import Cluster, Machine, Team
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.week import DAY, HOUR, WEEK, WORKING_DAYS, WorkingDay, lend

MINUTE = 60
WORKING_DAY = WorkingDay()
WEEKS, WARM_UP = 4, 1
NODES, CARDS_PER_NODE, CARD_MIB = 4, 8, 32_768
CARDS = NODES * CARDS_PER_NODE
BESIDE = 2
"""So many developers share a card with a training job, where they are let near one."""
DEVELOPER_LOAD = 0.10
"""Of a card's compute that a developer's work really takes."""
RESUME_S = 2.0 * MINUTE
"""What a checkpoint costs a training job."""
DEPTH = 8
"""All training jobs ask alike: a short look at the queue starts as much as a long one."""
ARRIVALS = ((10, 27), (14, 27), (18, 26))
"""(hour, jobs) of each working day in the variant in which the queue runs empty."""


PACK = Policy(reservations=1)
"""All ask for one card or a part of it: one place kept in time is enough."""


@dataclass(frozen=True)
class Study:
    """The question. `opens_s`: when in the day each developer begins; `stays_s`: for how long; `jobs`: their users."""

    opens_s: tuple[int, ...]
    stays_s: int
    slice_mib: int
    users: tuple[str, ...]
    job_s: int
    job_mib: int
    arrivals: bool = False

    @property
    def slices(self) -> int:
        """How many developers one card has room for."""
        return CARD_MIB // self.slice_mib

    @property
    def dev_cards(self) -> int:
        """How many cards all developers need by day."""
        return ceil(len(self.opens_s) / self.slices)


@dataclass(frozen=True)
class Case:
    """One way to share the cards. home: how many belong to the developers (None: as few as they need); the rest, and
    all with 0, is where jobs train. lent: when the developers' cards take training jobs.

    whole: a developer takes a whole card. beside: a training job leaves room for developers on its card.
    """

    name: str
    says: str
    home: int | None
    lent: Callable[[tuple[int, ...]], tuple[Window, ...]] | None = None
    whole: bool = False
    beside: bool = False
    checkpoints: bool = False
    policy: Policy = PACK


def load_study(folder: Path) -> Study:
    """Raises ValueError where the files are not of one length of job and session each."""
    with (folder / "dev_sessions.csv").open() as file:
        sessions = [row for row in csv.DictReader(file) if row["weekday_0mon"] == "0"]
    with (folder / "train_backlog.csv").open() as file:
        jobs = list(csv.DictReader(file))
    opens = tuple(_seconds(row["open_min"]) for row in sessions)
    stays = {_seconds(row["close_min"]) - at for row, at in zip(sessions, opens, strict=True)}
    (stays_s,), (slice_mib,) = stays, {int(row["gpu_mem_mib"]) for row in sessions}
    (job_s,), (job_mib,) = {_seconds(row["duration_min"]) for row in jobs}, {int(row["gpu_mem_mib"]) for row in jobs}
    return Study(opens, stays_s, slice_mib, tuple(row["user"] for row in jobs), job_s, job_mib)


def with_developers(study: Study, count: int) -> Study:
    """The same study with others: developer i opens at 09:00 + ((7 i) mod 41 - 20) minutes."""
    return replace(study, opens_s=tuple(9 * HOUR + ((7 * i) % 41 - 20) * MINUTE for i in range(count)))


def build_scenario(study: Study, case: Case) -> Scenario:
    """Until the end of the last week: the sessions of team 0, then the jobs of team 1."""
    cluster = build_cluster(study, case)
    sessions, over_at = build_sessions(study, case, cluster)
    jobs = (*sessions, *build_jobs(study, case, cluster, first=len(sessions) + 1))
    rules = Rules(
        over_at=over_at,
        resume_s=RESUME_S if case.checkpoints else None,
        pace=_beside_developers if case.beside else None,
        depth=DEPTH,
    )
    durations = {job.job: job.time_s for job in jobs}
    name = f"{case.name}: {case.says}"
    windows = case.lent(tuple(range(_home(study, case)))) if case.lent else ()
    until = measured()[1]
    return Scenario(name, 0, cluster, case.policy, rules, jobs, durations, until, WORKING_DAY, windows)


def measured() -> tuple[float, float]:
    """From which time to which one is counted: whole weeks after the first, Monday 08:00 to Monday 08:00."""
    return WARM_UP * WEEK + WORKING_DAY.begins, WEEKS * WEEK + WORKING_DAY.begins


def build_cluster(study: Study, case: Case) -> Cluster:
    """Pool 0 is the developers', pool 1 is for training; where nothing is apart all cards are in pool 0."""
    home, slices = _home(study, case), BESIDE + 1 if case.beside else study.slices
    pools = ["dev" if case.home == 0 or card < home else "train" for card in range(CARDS)]
    machines = tuple(
        Machine(f"n{node}", tuple(("V100", CARD_MIB, pools[node * CARDS_PER_NODE + i]) for i in range(CARDS_PER_NODE)))
        for node in range(NODES)
    )
    users = tuple(dict.fromkeys((*(f"dev{i:02}" for i in range(len(study.opens_s))), *study.users)))
    return Cluster(machines, {"dev": slices, "train": slices}, (Team("development"), Team("training")), users)


def build_sessions(study: Study, case: Case, cluster: Cluster) -> tuple[tuple[Waiting, ...], dict[int, float]]:
    """One for each developer and working day, and when each is over, whether it got a card or not."""
    ask = cluster.ask(gpus=1, memory_mib=None if case.whole else study.slice_mib)
    gang = (Role("notebook", 1, 1, ask),)
    sessions: list[Waiting] = []
    over_at: dict[int, float] = {}
    for day in (day for day in range(7 * WEEKS) if day % 7 < WORKING_DAYS):
        for developer, opens_s in enumerate(study.opens_s):
            at = day * DAY + opens_s
            number = len(sessions) + 1
            sessions.append(Waiting(number, 0, developer, 0, URGENT, at, gang, time_s=study.stays_s))
            over_at[number] = float(at + study.stays_s)
    return tuple(sessions), over_at


def build_jobs(study: Study, case: Case, cluster: Cluster, first: int) -> tuple[Waiting, ...]:
    """All at time 0, as many as a full cluster needs, or day by day."""
    ask = cluster.ask(gpus=1)
    if case.beside:
        ask = _leaving_room(study, cluster.ask(gpus=1, memory_mib=study.job_mib))
    gang, pool = (Role("worker", 1, 1, ask),), 0 if case.home == 0 else 1
    enough = max(len(study.users), ceil(CARDS * measured()[1] / study.job_s) + CARDS)
    times = _arrivals() if study.arrivals else [0.0] * enough
    users = [cluster.users.index(user) for user in study.users]
    return tuple(
        Waiting(
            first + i, 1, users[i % len(users)], pool, NORMAL, at, gang,
            time_s=study.job_s, preemptible=case.checkpoints,
        )
        for i, at in enumerate(times)
    )  # fmt: skip


def nights(gpus: tuple[int, ...]) -> tuple[Window, ...]:
    """Outside of working hours, for jobs that end by 08:00 of the next working day."""
    return lend(gpus, 1, WORKING_DAY.nights(WEEKS * WEEK))


def evenings(gpus: tuple[int, ...]) -> tuple[Window, ...]:
    """By hand before going home: only at 20:00 of working days."""
    later = [window for window in nights(gpus) if window.begins_at >= 0]
    return tuple(replace(window, last_start=window.begins_at + MINUTE) for window in later)


def emptiest(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """The card of each node that has most room, from 0 to 1."""
    gpus, owner = snapshot.cards_of(nodes)
    fits = fitting_cards(snapshot, request, gpus)
    room = np.zeros(len(nodes))
    np.maximum.at(room, owner[fits], snapshot.gpu_free_mib[gpus[fits]] / snapshot.gpu_total_mib[gpus[fits]])
    return room


def emptiest_cards(snapshot: Snapshot, request: Request, node: int) -> list[int]:
    gpus, _ = snapshot.cards_of(snapshot.nodes[node : node + 1])
    gpus = gpus[fitting_cards(snapshot, request, gpus)]
    return gpus[np.argsort(-snapshot.gpu_free_mib[gpus], kind="stable")][: request.ask.gpus].tolist()


SPREAD = replace(PACK, scores=((emptiest, 1.0),), cards=emptiest_cards)

CASES = (
    Case("A", "whole cards for developers by day, jobs started by hand at night", CARDS, evenings, whole=True),
    Case("B", "16 cards for developers, lent by night and at weekends; 16 to train", 16, nights, policy=SPREAD),
    Case("C", "as few cards for developers as they need, lent by night; the rest trains", None, nights),
    Case("C2", "as C, and jobs may be checkpointed when a developer comes", 0, checkpoints=True),
    Case("D", "developers beside training jobs on all cards", 0, beside=True, policy=SPREAD),
)


def _home(study: Study, case: Case) -> int:
    return study.dev_cards if case.home is None else case.home


def _leaving_room(study: Study, ask: Ask) -> Ask:
    """The compute that is left beside as many developers as the card may have."""
    beside = min((CARD_MIB - study.job_mib) // study.slice_mib, BESIDE)
    percent = 100 - beside * (100 * study.slice_mib // CARD_MIB)
    return replace(ask, need_percent=(percent,))


def _beside_developers(job: Running, snapshot: Snapshot) -> float:
    """How fast a training job is with developers on its card."""
    if job.priority == URGENT:
        return 1.0
    (card,) = job.tasks[0].cards
    return 1.0 - DEVELOPER_LOAD * (int(snapshot.gpu_slices[card.gpu]) - 1)


def _arrivals() -> list[float]:
    days = (day for day in range(7 * WEEKS) if day % 7 < WORKING_DAYS)
    return [float(day * DAY + hour * HOUR) for day in days for hour, count in ARRIVALS for _ in range(count)]


def _seconds(minutes: str) -> int:
    return round(float(minutes) * MINUTE)
