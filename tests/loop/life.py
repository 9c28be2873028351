"""One life from its seed to its end."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.loop.acts import BAD_LUCK, LIFE
from tests.loop.world import ACTS, Act, World

OFTEN = 8


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


def run(seed: int, acts: int = ACTS, often: tuple[Act, ...] = ()) -> World:
    """One life. often: acts that come OFTEN times as often as in others. Raises Broken."""
    with life(seed, acts) as world:
        world.often = often
        live(world)
        return world


def live(world: World) -> None:
    """Some hundred acts, then the faults stop, and everything that can end must end. Raises Broken."""
    weights = LIFE | {act: weight * world.luck for act, weight in BAD_LUCK.items()}
    weights |= {act: OFTEN * weights[act] for act in world.often}
    for _ in range(world.acts):
        world.act(world.dice.choices(list(weights), weights=list(weights.values()))[0])
    world.end_well()
