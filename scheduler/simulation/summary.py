"""Metrics of a simulation, overall and by team."""

from collections.abc import Iterable

from scheduler.core.model.types import WaitingJob
from scheduler.simulation.history import (
    COMPLETED,
    PREEMPTED,
    SimulationHistory,
    busy_card_seconds,
    card_use_seconds,
    quantiles,
)
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.working_week import HOUR_S

ALL_TEAMS = "all"

MetricRow = tuple[str, str, int, str, str, float]


def summarize(scenario: Scenario, history: SimulationHistory) -> dict[str, dict[str, float]]:
    """Return {"all" or team: {metric: value}}. Jobs never started waited until they gave up or the end."""
    cards = sum(len(machine.cards) for machine in scenario.cluster.nodes)
    span = max(history.ended_at, 1.0)
    found = {ALL_TEAMS: _compute_metrics(history, scenario.jobs)}
    in_use = float(card_use_seconds(history.runs, cards, 0.0, history.ended_at).sum())
    found[ALL_TEAMS] |= {"cards_in_use_pct": 100 * in_use / (cards * span), "virtual_makespan_s": history.ended_at}
    for number, team in enumerate(scenario.cluster.teams):
        found[team.name] = _compute_metrics(history, [job for job in scenario.jobs if job.team == number])
    return found


def build_rows(scenario: Scenario, summary: dict[str, dict[str, float]]) -> list[MetricRow]:
    """Return rows bench, case, seed, policy, metric, value; team metrics end with the team's name."""
    return [
        ("sim", scenario.name, scenario.seed, "tessera", metric + of, round(value, 4))
        for of, metrics in (("" if who == ALL_TEAMS else f":{who}", metrics) for who, metrics in summary.items())
        for metric, value in metrics.items()
    ]


def _compute_metrics(history: SimulationHistory, jobs: Iterable[WaitingJob]) -> dict[str, float]:
    asked = {job.job: job for job in jobs}
    came = [job for job in asked.values() if job.submitted_at <= history.ended_at]
    runs = [run for run in history.runs if run.job in asked]
    ended = {run.job: run.ended_at for run in runs if run.outcome == COMPLETED}
    waits = [history.wait_s(job.job) for job in came]
    p50, p95, p99, p999, most = quantiles(waits, 0.5, 0.95, 0.99, 0.999, 1.0)
    return {
        "jobs": len(asked),
        "finished": len(ended),
        "never_started": sum(job.job not in history.first_start for job in came),
        "mean_queue_s": _mean(waits),
        "p50_queue_s": p50,
        "p95_queue_s": p95,
        "p99_queue_s": p99,
        "p999_queue_s": p999,
        "max_queue_s": most,
        "mean_jct_s": _mean([at - asked[job].submitted_at for job, at in ended.items()]),
        "gpu_hours": busy_card_seconds(runs, 0.0, history.ended_at) / HOUR_S,
        "stops": sum(run.outcome == PREEMPTED for run in runs),
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
