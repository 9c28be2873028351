"""Slices that become larger and smaller all the time, under every fault of a life: no card is ever promised or limited
beyond what it has, and nobody above a limit.
"""

from collections import Counter

import pytest

from events.models import Event
from tests.loop import acts, life
from tests.whole import part_of

PARTS, SEEDS = part_of(4, 2), 10
RARE = {acts.wish: 1.0, acts.cordon: 0.2, acts.follow_node: 4.0, acts.maintain: 0.1, acts.lend: 0.1}
OFTEN = {acts.resize: 25.0, acts.submit: 8.0}


def draw_slice(dice) -> tuple[dict, int, int, list[int]]:
    """A slice that nobody ends for a while. As acts.draw_job says it."""
    file = {"run": f"sleep {dice.choice(['20', 'infinity'])}", "gpu": dice.choice(["1/8", "1/4", "1/2"]), "nodes": 1}
    return {**file, "cpu": "500m", "memory": "1GiB", "priority": "normal"}, dice.choice([1, 2, 3]), 2, [1]


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.slow] if part else []) for part in range(PARTS)]
)
def test_slices_that_change_size_all_the_time_stay_within_their_cards(part, monkeypatch):
    monkeypatch.setattr(acts, "draw_job", draw_slice)
    monkeypatch.setattr(life, "LIFE", acts.LIFE | RARE | OFTEN)
    monkeypatch.setattr(life, "BAD_LUCK", {act: weight for act, weight in acts.BAD_LUCK.items() if act in FAULTS})
    told: Counter[str] = Counter()
    for seed in range(SEEDS * part, SEEDS * (part + 1)):
        world = life.run(seed)
        told.update(row["verb"] for row in world.rows(Event))
    assert told["resized"] > 5 and told["resize_refused"] > 3, told


FAULTS = (acts.kill, acts.put_to_sleep, acts.cut_off, acts.end_badly)
"""Machines stay, so that much is done on them."""
