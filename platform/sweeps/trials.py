"""The trials of a sweep as its rows tell them: the values of each, what came of it, and the best number it reported."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Max, Min, Q, QuerySet

from jobs.arrays.models import PRUNED, JobArray
from jobs.jobfile.search.wish import SearchWish
from jobs.models import Job
from jobs.states import JOB_FINAL, JobState

READ = ("array_index", "spec", "state", "reason")


@dataclass(frozen=True)
class Trial:
    """One trial. job: its id. score: the best of the metric that it reported, of all tasks and attempts; None: none."""

    index: int
    job: str
    values: Mapping[str, str]
    state: str
    reason: str
    score: float | None

    @property
    def is_open(self) -> bool:
        return self.state not in JOB_FINAL

    @property
    def is_pruned(self) -> bool:
        return self.state == JobState.CANCELLED and self.reason == PRUNED


def order_by_score(jobs: QuerySet[Job], wish: SearchWish) -> QuerySet[Job]:
    """Give each trial its `score`, and put the best first; of equals the earlier, and last those without one."""
    score = F("score").asc(nulls_last=True) if wish.mode == "min" else F("score").desc(nulls_last=True)
    return _with_scores(jobs, wish).order_by(score, "array_index")


def load_trials(array: JobArray, wish: SearchWish) -> list[Trial]:
    """Return the trials that have been made, in their order."""
    rows: Iterable[Any] = _with_scores(Job.objects.filter(array=array.pk), wish).order_by("array_index").only(*READ)
    return [
        Trial(
            index=row.array_index or 0,
            job=row.public_id,
            values={name: row.spec["env"].get(name, "") for name in wish.names},
            state=row.state,
            reason=row.reason,
            score=row.score,
        )
        for row in rows
    ]


def rank_trials(trials: Iterable[Trial], wish: SearchWish) -> list[Trial]:
    """Return the trials that have a score, the best first; of equals the earlier."""
    scored = [trial for trial in trials if trial.score is not None]
    return sorted(scored, key=lambda trial: (wish.sign * (trial.score or 0.0), trial.index))


def _with_scores(jobs: QuerySet[Job], wish: SearchWish) -> QuerySet[Job]:
    of_metric = Q(tasks__numbers__name=wish.metric)
    best = (
        Min("tasks__numbers__smallest", filter=of_metric)
        if wish.mode == "min"
        else Max("tasks__numbers__largest", filter=of_metric)
    )
    return jobs.annotate(score=best)
