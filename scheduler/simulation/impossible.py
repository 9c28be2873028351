"""Jobs of a scenario that its cluster could never run, even empty."""

from collections.abc import Container
from dataclasses import dataclass

from jobs.reason_messages import describe_wait
from scheduler.core.model.types import WaitingJob
from scheduler.core.placement.feasibility_when_empty import check_feasibility
from scheduler.simulation.cluster_spec import build_snapshot
from scheduler.simulation.scenario import Scenario


@dataclass(frozen=True)
class ImpossibleJobs:
    """Jobs of one team that ask the same. first: the number of the first, from 1. why: in words."""

    team: str
    first: int
    count: int
    why: str


def find_impossible(scenario: Scenario, started: Container[int]) -> list[ImpossibleJobs]:
    """Return them in the order of their first. started: numbers of jobs that did, which need no look."""
    empty = build_snapshot(scenario.cluster, scenario.windows, scenario.closings)
    alike: dict[tuple, list[WaitingJob]] = {}
    for job in (job for job in scenario.jobs if job.job not in started):
        length = (job.time_s, job.limit_s) if scenario.windows else ()  # of what may borrow by night
        alike.setdefault((job.team, job.pool, job.gang, job.preemptible, *length), []).append(job)
    found = []
    for jobs in alike.values():
        if refusals := check_feasibility(empty, jobs[0]):
            why = "; ".join(describe_wait({"code": one.reason, "params": one.params}) for one in refusals)
            found.append(ImpossibleJobs(scenario.cluster.teams[jobs[0].team].name, jobs[0].job, len(jobs), why))
    return found
