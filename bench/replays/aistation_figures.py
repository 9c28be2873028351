"""Metrics of the AIStation study."""

from collections import defaultdict
from collections.abc import Iterable

from bench.replays.aistation import CARDS, DEVELOPER_LOAD, MINUTE, RESUME_S, CaseStudy, SharingCase, measured_period
from scheduler.core.model.types import WaitingJob
from scheduler.simulation.history import (
    COMPLETED,
    PREEMPTED,
    JobRun,
    SimulationHistory,
    busy_card_seconds,
    card_use_seconds,
    quantiles,
)
from scheduler.simulation.working_week import DAY_S, HOUR_S, WEEK_S

TRAINING_LOAD = 0.90
"""Share of a card's compute that a training job uses alone."""


def compute_metrics(study: CaseStudy, case: SharingCase, history: SimulationHistory) -> dict[str, float]:
    """Return {metric: value} for the history of one case."""
    jobs = [job for job in history.jobs.values() if job.team]
    sessions = [job for job in history.jobs.values() if not job.team]
    begin, end = measured_period()
    weeks = (end - begin) / WEEK_S
    training = {job.job for job in jobs}
    runs = [run for run in history.runs if run.job in training]
    stays = [run for run in history.runs if run.job not in training]
    in_use = float(card_use_seconds(history.runs, CARDS, begin, end).mean()) * DAY_S / (end - begin) / HOUR_S
    finished = sum(run.outcome == COMPLETED and begin < run.ended_at <= end for run in runs)
    stopped = sum(run.outcome == PREEMPTED and begin < run.ended_at <= end for run in runs)
    found = {
        "jobs_per_week": finished / weeks,
        "in_use_h_per_day": in_use,
        "util_time_weighted_pct": 100 * _used_compute_s(stays, runs, begin, end) / (CARDS * (end - begin)),
    }
    if not case.beside:  # the study's formula assumes two pools
        found["headline_util_pct"] = 100 * in_use * HOUR_S / DAY_S * _mean_pool_load(study, case)
    found |= _session_waits(history, sessions, begin, end)
    found |= {"preemptions_per_week": stopped / weeks, "lost_min_per_week": stopped * RESUME_S / MINUTE / weeks}
    if study.has_daily_arrivals:
        waits = [history.wait_s(job.job) for job in jobs if begin <= job.submitted_at < end]
        p50, p95 = quantiles(waits, 0.5, 0.95)
        found |= {"train_mean_wait_s": sum(waits) / len(waits), "train_p50_wait_s": p50, "train_p95_wait_s": p95}
    return found


def _session_waits(
    history: SimulationHistory, sessions: Iterable[WaitingJob], begin: float, end: float
) -> dict[str, float]:
    counted = [session.job for session in sessions if begin <= session.submitted_at < end]
    p50, p95, most = quantiles((history.wait_s(job) for job in counted), 0.5, 0.95, 1.0)
    refused = sum(job in history.gave_up for job in counted)
    return {"dev_p50_wait_s": p50, "dev_p95_wait_s": p95, "dev_max_wait_s": most, "dev_refused": refused}


def _mean_pool_load(study: CaseStudy, case: SharingCase) -> float:
    """Return the study's mean load of a card full of developers and one in training."""
    developers = 1 if case.whole else study.slices
    return (min(DEVELOPER_LOAD * developers, 1.0) + TRAINING_LOAD) / 2


def _used_compute_s(stays: list[JobRun], runs: list[JobRun], begin: float, end: float) -> float:
    """Return the card-seconds of compute really used."""
    alone = busy_card_seconds(runs, begin, end) - DEVELOPER_LOAD * _shared_s(stays, runs, begin, end)
    return DEVELOPER_LOAD * busy_card_seconds(stays, begin, end) + TRAINING_LOAD * alone


def _shared_s(stays: list[JobRun], runs: list[JobRun], begin: float, end: float) -> float:
    """Return the seconds that developers and training jobs share cards, summed over pairs."""
    on_card: dict[int, list[JobRun]] = defaultdict(list)
    for run in runs:
        for card in run.cards:
            on_card[card].append(run)
    return sum(
        max(min(stay.ended_at, run.ended_at, end) - max(stay.began_at, run.began_at, begin), 0.0)
        for stay in stays
        for card in stay.cards
        for run in on_card[card]
    )
