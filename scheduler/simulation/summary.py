"""The figures of a simulation: of everybody together, and of each team."""

from collections.abc import Iterable

from scheduler.core.types import Waiting
from scheduler.simulation.history import COMPLETED, PREEMPTED, History, busy_s, in_use_s, quantiles
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.week import HOUR

EVERYBODY = "all"

Row = tuple[str, str, int, str, str, float]


def summarize(scenario: Scenario, history: History) -> dict[str, dict[str, float]]:
    """{"all" or team: {metric: value}}. A job that never started has waited until it gave up or the end came."""
    cards = sum(len(machine.cards) for machine in scenario.cluster.machines)
    span = max(history.ended_at, 1.0)
    found = {EVERYBODY: _figures(history, scenario.jobs)}
    in_use = float(in_use_s(history.runs, cards, 0.0, history.ended_at).sum())
    found[EVERYBODY] |= {"cards_in_use_pct": 100 * in_use / (cards * span), "virtual_makespan_s": history.ended_at}
    for number, team in enumerate(scenario.cluster.teams):
        found[team.name] = _figures(history, [job for job in scenario.jobs if job.team == number])
    return found


def build_rows(scenario: Scenario, summary: dict[str, dict[str, float]]) -> list[Row]:
    """bench, case, seed, policy, metric, value; the metrics of a team end with its name."""
    return [
        ("sim", scenario.name, scenario.seed, "tessera", metric + of, round(value, 4))
        for of, metrics in (("" if who == EVERYBODY else f":{who}", metrics) for who, metrics in summary.items())
        for metric, value in metrics.items()
    ]


def _figures(history: History, jobs: Iterable[Waiting]) -> dict[str, float]:
    asked = {job.job: job for job in jobs}
    came = [job for job in asked.values() if job.submitted_at <= history.ended_at]
    runs = [run for run in history.runs if run.job in asked]
    ended = {run.job: run.ended_at for run in runs if run.how == COMPLETED}
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
        "gpu_hours": busy_s(runs, 0.0, history.ended_at) / HOUR,
        "stops": sum(run.how == PREEMPTED for run in runs),
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
