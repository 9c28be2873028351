"""Cycles over the present queue with one more job: what the next one would decide."""

from dataclasses import replace

from common.steady_clock import steady_time
from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.start_suggestions import Records, keep_first_in_line, replace_waiting
from scheduler.core.model.types import Plan
from scheduler.loading.snapshots import World
from scheduler.preview.forecast_recorder import FIRST


def run_with(job: Records, world: World, now: float) -> Plan:
    return run_cycle(replace_waiting(world.snapshot, (*world.snapshot.waiting, *job)), world.policy, now)


def keep_front(world: World) -> World:
    """Return the world without those far back in a long queue, whom no job that starts now meets."""
    if len(world.snapshot.waiting) <= FIRST:
        return world
    plan = run_cycle(world.snapshot, world.policy, steady_time())
    return replace(world, snapshot=keep_first_in_line(world.snapshot, plan, FIRST))
