"""One cycle of the scheduler, decided and written as its loop does it."""

from collections.abc import Iterable

from scheduler.commit.step_runner import run_steps
from scheduler.commit.steps import Step, build_steps
from scheduler.core.cycle import run_cycle
from scheduler.lease import lead
from scheduler.loading.snapshots import load_world


def decide(now: float = 0.0) -> list[Step]:
    world = load_world()
    return build_steps(run_cycle(world.snapshot, world.policy, now), world)


def perform(steps: Iterable[Step]) -> int:
    """Write steps, and return how many were done."""
    with lead("cycle") as epoch:
        return run_steps(list(steps), epoch)
