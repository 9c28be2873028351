"""What is counted of a case of the AIStation study, over its whole weeks after the first."""

from collections import defaultdict
from collections.abc import Iterable

from scheduler.core.types import Waiting
from scheduler.simulation.aistation import (
    CARDS,
    DEVELOPER_LOAD,
    MINUTE,
    RESUME_S,
    Case,
    Study,
    measured,
)
from scheduler.simulation.history import COMPLETED, PREEMPTED, History, Run, busy_s, in_use_s, quantiles
from scheduler.simulation.week import DAY, HOUR, WEEK

TRAINING_LOAD = 0.90
"""Of a card's compute that a training job takes when it is alone."""


def figures(study: Study, case: Case, history: History) -> dict[str, float]:
    """{metric: value} of the history of `build_scenario(study, case)`."""
    jobs = [job for job in history.jobs.values() if job.team]
    sessions = [job for job in history.jobs.values() if not job.team]
    begin, end = measured()
    weeks = (end - begin) / WEEK
    training = {job.job for job in jobs}
    runs = [run for run in history.runs if run.job in training]
    stays = [run for run in history.runs if run.job not in training]
    in_use = float(in_use_s(history.runs, CARDS, begin, end).mean()) * DAY / (end - begin) / HOUR
    finished = sum(run.how == COMPLETED and begin < run.ended_at <= end for run in runs)
    stopped = sum(run.how == PREEMPTED and begin < run.ended_at <= end for run in runs)
    found = {
        "jobs_per_week": finished / weeks,
        "in_use_h_per_day": in_use,
        "util_time_weighted_pct": 100 * _work_s(stays, runs, begin, end) / (CARDS * (end - begin)),
    }
    if not case.beside:  # the formula of the case study has two pools with one kind of work each
        found["headline_util_pct"] = 100 * in_use * HOUR / DAY * _pool_utils(study, case)
    found |= _waits(history, sessions, begin, end)
    found |= {"preemptions_per_week": stopped / weeks, "lost_min_per_week": stopped * RESUME_S / MINUTE / weeks}
    if study.arrivals:
        waits = [history.wait_s(job.job) for job in jobs if begin <= job.submitted_at < end]
        p50, p95 = quantiles(waits, 0.5, 0.95)
        found |= {"train_mean_wait_s": sum(waits) / len(waits), "train_p50_wait_s": p50, "train_p95_wait_s": p95}
    return found


def _waits(history: History, sessions: Iterable[Waiting], begin: float, end: float) -> dict[str, float]:
    counted = [session.job for session in sessions if begin <= session.submitted_at < end]
    p50, p95, most = quantiles((history.wait_s(job) for job in counted), 0.5, 0.95, 1.0)
    refused = sum(job in history.gone for job in counted)
    return {"dev_p50_wait_s": p50, "dev_p95_wait_s": p95, "dev_max_wait_s": most, "dev_refused": refused}


def _pool_utils(study: Study, case: Case) -> float:
    """As the case study counts: the mean of a card full of developers, and of one that trains."""
    developers = 1 if case.whole else study.slices
    return (min(DEVELOPER_LOAD * developers, 1.0) + TRAINING_LOAD) / 2


def _work_s(stays: list[Run], runs: list[Run], begin: float, end: float) -> float:
    """Card-seconds of compute that were really used: a developer's, and what a training job has beside them."""
    alone = busy_s(runs, begin, end) - DEVELOPER_LOAD * _together_s(stays, runs, begin, end)
    return DEVELOPER_LOAD * busy_s(stays, begin, end) + TRAINING_LOAD * alone


def _together_s(stays: list[Run], runs: list[Run], begin: float, end: float) -> float:
    """Seconds, counted for each pair of a developer and a training job on one card."""
    on_card: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        for card in run.cards:
            on_card[card].append(run)
    return sum(
        max(min(stay.ended_at, run.ended_at, end) - max(stay.began_at, run.began_at, begin), 0.0)
        for stay in stays
        for card in stay.cards
        for run in on_card[card]
    )
