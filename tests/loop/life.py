"""One life from its seed to its end."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.loop.acts import BAD_LUCK, LIFE
from tests.loop.world import ACTS, World


@contextmanager
def life(seed: int, acts: int = ACTS) -> Iterator[World]:
    """A world whose product runs on the model until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        world = World(seed, patch, acts)
        try:
            yield world
        finally:
            for worker in list(world.workers):
                worker.kill()


def run(seed: int, acts: int = ACTS) -> World:
    """One life. Raises Broken."""
    with life(seed, acts) as world:
        live(world)
        return world


def live(world: World) -> None:
    """Some hundred acts, then the faults stop, and everything that can end must end. Raises Broken."""
    weights = [*LIFE.values(), *(weight * world.luck for weight in BAD_LUCK.values())]
    for _ in range(world.acts):
        world.act(world.dice.choices([*LIFE, *BAD_LUCK], weights=weights)[0])
    world.end_well()
