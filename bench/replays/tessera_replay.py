"""Traces of gang jobs simulated with Tessera's production cycle and noisy predictions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.replays.gang_traces import TraceJob
from bench.replays.queue_rules import ReplayOutcome, build_empty_nodes, build_gang, count_slices, get_stop_cost_s
from scheduler.core.forecast.simulate import Simulation, SimulationRules
from scheduler.core.model.types import NORMAL, Policy, WaitingJob
from scheduler.simulation.working_week import DAY_S

SHORT_FIRST_POLICY = Policy(short_first=True, longest_s=1000 * DAY_S)
"""The most that a pool can be set to, and longer than any prediction of the traces: few jobs wait long, at the cost of
some that starve."""
PREEMPT_LONGER_POLICY = replace(SHORT_FIRST_POLICY, longest_s=Policy.longest_s, stop_longer=4.0)
"""Predictions are often wrong by ten times, so only far longer jobs are stopped."""


def simulate_tessera(
    jobs: Sequence[TraceJob],
    nodes: int,
    policy: Policy = SHORT_FIRST_POLICY,
    shares: Mapping[str, int] | None = None,
    resume_s: Mapping[int, float] | None = None,
) -> ReplayOutcome:
    """Simulate a trace with one team, or with `shares` ({team: guaranteed nodes}) that lend and borrow."""
    known = {job.row: job for job in jobs}
    teams = {team: number for number, team in enumerate(shares or {})}
    preemptible = shares is not None or policy.stop_longer is not None
    asks = [_build_job(job, teams.get(job.team, 0), preemptible) for job in jobs]
    rules = SimulationRules(resume_cost_s=resume_s or {job.row: get_stop_cost_s(job.gpus) for job in jobs})
    snapshot, begin = build_empty_nodes(nodes, shares, count_slices(jobs)), jobs[0].submit_s
    play = Simulation(snapshot, policy, begin, lambda job: known[job.job].duration_s, arrivals=asks, rules=rules)
    outcome = ReplayOutcome()
    for moment in play.run_steps():
        outcome.preemptions += len(moment.plan.evictions)
        for row in moment.ended:
            outcome.record_end(known[row], moment.at)
    return outcome


def _build_job(job: TraceJob, team: int, preemptible: bool) -> WaitingJob:
    return WaitingJob(
        job.row,
        team,
        team,
        0,
        NORMAL,
        job.submit_s,
        build_gang(job.gpus),
        time_s=job.predicted_s,
        latest_s=job.latest_s,
        preemptible=preemptible,
    )
