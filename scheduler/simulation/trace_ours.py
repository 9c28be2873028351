"""The scheduler of production on a trace of gang jobs: `core.play` over `run_cycle`, nothing of its own.

It knows what production knows: when a job came, what it asks, and what its owner or history says about its time, which
is a noisy prediction and no oracle. When a job really ends is known to the play alone.
"""

from collections.abc import Mapping, Sequence

from scheduler.core.play import Play, Rules
from scheduler.core.types import NORMAL, Policy, Waiting
from scheduler.simulation.trace_play import Outcome, build_cards, build_gang
from scheduler.simulation.traces import TraceJob

SHORT_FIRST = Policy(short_first=True)
RESUME_S = 30.0
"""What a stop costs a job that goes on from its checkpoint; Helios' `ckpt_overhead` for 2 to 8 cards."""


def play_ours(
    jobs: Sequence[TraceJob], nodes: int, policy: Policy = SHORT_FIRST, shares: Mapping[str, int] | None = None
) -> Outcome:
    """One team, one person, nobody is stopped. With shares ({team: nodes that it is guaranteed}) the teams lend and
    borrow: each job keeps checkpoints and may be stopped for a team that takes back its own.
    """
    known = {job.row: job for job in jobs}
    teams = {team: number for number, team in enumerate(shares or {})}
    asks = [_ask(job, teams.get(job.team, 0), shares is not None) for job in jobs]
    rules = Rules(resume_s=RESUME_S)
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
