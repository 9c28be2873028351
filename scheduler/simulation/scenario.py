"""A simulation's inputs, and running it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.core.forecast.simulate import Simulation, SimulationRules
from scheduler.core.model.types import LendingWindow, MaintenanceWindow, Policy, WaitingJob
from scheduler.core.placement.usual_requests import RequestHistory
from scheduler.simulation.cluster_spec import SimulatedCluster, build_snapshot
from scheduler.simulation.history import SimulationHistory, record_simulation
from scheduler.simulation.working_week import WorkingDay


@dataclass(frozen=True)
class Scenario:
    """Inputs of a simulation. jobs: numbered from 1. until: seconds from Monday 00:00."""

    name: str
    seed: int
    cluster: SimulatedCluster
    policy: Policy
    rules: SimulationRules
    jobs: tuple[WaitingJob, ...]
    duration_s: Mapping[int, float]
    until: float
    working_day: WorkingDay
    windows: tuple[LendingWindow, ...] = ()
    closings: tuple[MaintenanceWindow, ...] = ()


def simulate_scenario(scenario: Scenario, progress: Callable[[float, int], None] | None = None) -> SimulationHistory:
    """Simulate deterministically, from an empty cluster that learns what is usual as jobs come, as production does.

    progress: called with the time and finished jobs.
    """
    world, durations = build_snapshot(scenario.cluster, scenario.windows, scenario.closings), scenario.duration_s
    play = Simulation(
        world,
        scenario.policy,
        0.0,
        lambda job: durations[job.job],
        arrivals=scenario.jobs,
        rules=scenario.rules,
        history=RequestHistory(tuple(mib for _, mib in scenario.cluster.kinds)),
    )
    return record_simulation(play, scenario.jobs, scenario.until, progress)
