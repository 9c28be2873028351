"""All that a simulation starts from, and its play through the production cycle."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.core.play import Play, Rules
from scheduler.core.types import Closing, Policy, Waiting, Window
from scheduler.simulation.cluster import Cluster, build_snapshot
from scheduler.simulation.history import History, watch
from scheduler.simulation.week import WorkingDay


@dataclass(frozen=True)
class Scenario:
    """jobs: numbered from 1 in this order. duration_s: {job: how long it really runs}.

    windows: when pools lend their cards. closings: maintenance. until: seconds from Monday 00:00; `inf`: until nothing
    is to come.
    """

    name: str
    seed: int
    cluster: Cluster
    policy: Policy
    rules: Rules
    jobs: tuple[Waiting, ...]
    duration_s: Mapping[int, float]
    until: float
    working_day: WorkingDay
    windows: tuple[Window, ...] = ()
    closings: tuple[Closing, ...] = ()


def play_scenario(scenario: Scenario, progress: Callable[[float, int], None] | None = None) -> History:
    """Same scenario, same history. progress: told the time and how many jobs have finished."""
    world, durations = build_snapshot(scenario.cluster, scenario.windows, scenario.closings), scenario.duration_s
    play = Play(
        world,
        scenario.policy,
        0.0,
        lambda job: durations[job.job],
        arrivals=scenario.jobs,
        rules=scenario.rules,
    )
    return watch(play, scenario.jobs, scenario.until, progress)
