"""The scheduler of production on a trace of gang jobs: `core.play` over `run_cycle`, nothing of its own.

It knows what production knows: when a job came, what it asks, and what its owner or history says about its time, which
is a noisy prediction and no oracle. When a job really ends is known to the play alone.
"""

from collections.abc import Sequence

from scheduler.core.play import Play
from scheduler.core.types import NORMAL, Policy, Waiting
from scheduler.simulation.trace_play import Outcome, build_cards, build_gang
from scheduler.simulation.traces import TraceJob

SHORT_FIRST = Policy(short_first=True)


def play_ours(jobs: Sequence[TraceJob], nodes: int, policy: Policy = SHORT_FIRST) -> Outcome:
    """One team, one person, nobody is stopped."""
    known = {job.row: job for job in jobs}
    gangs = {gpus: build_gang(gpus) for gpus in {job.gpus for job in jobs}}
    asks = [Waiting(job.row, 0, 0, 0, NORMAL, job.submit_s, gangs[job.gpus], time_s=job.predicted_s) for job in jobs]
    play = Play(build_cards(nodes), policy, jobs[0].submit_s, lambda job: known[job.job].duration_s, arrivals=asks)
    outcome = Outcome()
    for moment in play.moments():
        for row in moment.ended:
            outcome.end(known[row], moment.at)
    return outcome
