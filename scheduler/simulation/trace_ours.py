"""The scheduler of production on a trace of gang jobs: `core.play` over `run_cycle`, nothing of its own.

It knows what production knows: when a job came, what it asks, and what its owner or history says about its time, which
is a noisy prediction and no oracle. When a job really ends is known to the play alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from scheduler.core.play import Play, Rules
from scheduler.core.types import NORMAL, Policy, Waiting
from scheduler.simulation.trace_play import Outcome, build_cards, build_gang, stop_cost_s
from scheduler.simulation.traces import TraceJob

SHORT_FIRST = Policy(short_first=True, longest_s=inf)
"""Each job has a prediction, and the longest wait longest: so a few starve, and not many wait long."""
OVERTAKING = replace(SHORT_FIRST, longest_s=Policy.longest_s, stop_longer=4.0)
"""With predictions that are often wrong by ten times: only who is far longer is stopped."""


def play_ours(
    jobs: Sequence[TraceJob],
    nodes: int,
    policy: Policy = SHORT_FIRST,
    shares: Mapping[str, int] | None = None,
    resume_s: Mapping[int, float] | None = None,
) -> Outcome:
    """One team and one person. With shares ({team: nodes that it is guaranteed}) the teams lend and borrow.

    resume_s: {row: what a stop costs}, `stop_cost_s` where nothing is said. Each job keeps checkpoints and may be
    stopped, for a team that takes back its own or for far shorter work, where the policy says so.
    """
    known = {job.row: job for job in jobs}
    teams = {team: number for number, team in enumerate(shares or {})}
    preemptible = shares is not None or policy.stop_longer is not None
    asks = [_ask(job, teams.get(job.team, 0), preemptible) for job in jobs]
    rules = Rules(resume_s=resume_s or {job.row: stop_cost_s(job.gpus) for job in jobs})
    snapshot, begin = build_cards(nodes, shares), jobs[0].submit_s
    play = Play(snapshot, policy, begin, lambda job: known[job.job].duration_s, arrivals=asks, rules=rules)
    outcome = Outcome()
    for moment in play.moments():
        outcome.preemptions += len(moment.plan.evictions)
        for row in moment.ended:
            outcome.end(known[row], moment.at)
    return outcome


def _ask(job: TraceJob, team: int, preemptible: bool) -> Waiting:
    gang = build_gang(job.gpus)
    return Waiting(job.row, team, team, 0, NORMAL, job.submit_s, gang, time_s=job.predicted_s, preemptible=preemptible)
