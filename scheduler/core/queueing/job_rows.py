"""Waiting jobs as rows of arrays, kept across cycles, in which nearly all of them stay the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import compress, repeat
from operator import attrgetter

import numpy as np

from scheduler.core.model.types import WaitingJob


@dataclass(frozen=True, eq=False)
class JobColumns:
    """[n] what orders and numbers jobs.

    row: of `JobRows`. alike: the same for jobs that differ in number, priority and arrival alone. team_alike: for those
    that differ in their user, too. shape: for those that fit in the same places.
    """

    jobs: Sequence[WaitingJob]
    row: np.ndarray
    number: np.ndarray
    choice: np.ndarray
    pool: np.ndarray
    team: np.ndarray
    user: np.ndarray
    priority: np.ndarray
    alike: np.ndarray
    team_alike: np.ndarray
    shape: np.ndarray
    submitted_at: np.ndarray
    waits_from: np.ndarray

    def take(self, chosen: np.ndarray) -> "JobColumns":
        """Return the columns of some of the jobs. chosen: bool [n]."""
        jobs = list(compress(self.jobs, chosen.tolist()))
        return JobColumns(jobs, *(getattr(self, field.name)[chosen] for field in fields(self)[1:]))


INTEGERS = ("number", "choice", "pool", "team", "user", "priority", "alike", "team_alike", "shape")
ATTRIBUTES = attrgetter("job", *INTEGERS[1:6])


class JobRows:
    """Rows of records by the identity of the object."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._records: list[WaitingJob] = []
        """[row] keeps the record, so that its id stays unique."""
        self._row: dict[int, int] = {}
        self._alike: dict[tuple, int] = {}
        self._shapes: dict[tuple, int] = {}
        self._integers = np.empty((len(INTEGERS), 0), dtype=np.int64)
        self._times = np.empty((2, 0))
        """Submit, and since when the age counts."""

    def trim(self, most: int) -> None:
        """Clear a cache mostly of jobs that wait no more."""
        if len(self._records) > most:
            self._clear()

    def columns_of(self, jobs: Sequence[WaitingJob]) -> JobColumns:
        """Return the columns of these jobs; new ones get a row."""
        rows = np.fromiter(map(self._row.get, map(id, jobs), repeat(-1)), np.int64, len(jobs))
        new = (rows < 0).nonzero()[0]
        if len(new):
            self._append([jobs[at] for at in new.tolist()])
            rows[new] = [self._row[id(jobs[at])] for at in new.tolist()]
        submitted_at, waits_from = self._times[:, rows]
        integers = self.integers_at(rows)
        return JobColumns(jobs=jobs, row=rows, submitted_at=submitted_at, waits_from=waits_from, **integers)

    def integers_at(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return {name of INTEGERS: [n]} of the records in these rows."""
        return dict(zip(INTEGERS, self._integers[:, rows], strict=True))

    def jobs_at(self, rows: Iterable[int]) -> list[WaitingJob]:
        return [self._records[row] for row in rows]

    def row_of(self, job: WaitingJob) -> int:
        """Return the row of a record that `columns_of` was asked about."""
        return self._row[id(job)]

    def _append(self, jobs: list[WaitingJob]) -> None:
        self._row.update(zip(map(id, jobs), range(len(self._records), len(self._records) + len(jobs)), strict=True))
        self._records += jobs
        of_team = [self._alike.setdefault(_team_key(job), len(self._alike)) for job in jobs]
        pairs = zip(of_team, jobs, strict=True)
        alike = [self._alike.setdefault((same, job.user), len(self._alike)) for same, job in pairs]
        shapes = [self._shapes.setdefault(_shape_key(job), len(self._shapes)) for job in jobs]
        columns = [*zip(*map(ATTRIBUTES, jobs), strict=True), alike, of_team, shapes]
        self._integers = np.concatenate((self._integers, np.array(columns, dtype=np.int64)), axis=1)
        times = np.array([[job.submitted_at for job in jobs], [job.waits_from for job in jobs]])
        self._times = np.concatenate((self._times, times), axis=1)


def _team_key(job: WaitingJob) -> tuple:
    """Return a key shared by equal jobs of a team. Comparing gangs is slow, so by identity."""
    return id(job.gang), job.pool, job.team, job.held, job.not_before, job.after, *_stay_key(job)


def _shape_key(job: WaitingJob) -> tuple:
    return id(job.gang), job.pool, *_stay_key(job)


def _stay_key(job: WaitingJob) -> tuple:
    return job.preemptible, job.time_s, job.latest_s, job.limit_s
