"""What only a whole card counts, for who holds it: exact over lost ticks, unknown over restarts; and its faults."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from monitoring.models import NodeCheckChange, TaskUseNow
from monitoring.samples.ingest import take_samples
from monitoring.usage.counting import Count
from monitoring.usage.figures import load_job_use
from monitoring.usage.whole_cards import count_whole_card
from quotas.models import Holding
from tests import make

NOW = datetime(2026, 11, 27, tzinfo=UTC)


@given(st.lists(st.tuples(st.integers(1, 100_000), st.floats(0, 1), st.booleans()), min_size=2, max_size=40))
def test_ticks_that_are_lost_change_no_total(steps):
    """Each step: how long, how much of it was at work, and whether its tick arrives. The first and the last do."""
    count, before, up_ms, sm_ms, told_at = Count("run", 0, NOW, "measured"), None, 0, 0, []
    for place, (span_ms, part, arrives) in enumerate(steps):
        up_ms, sm_ms = up_ms + span_ms, sm_ms + int(span_ms * part)
        if arrives or place in (0, len(steps) - 1):
            now = Count(**{**count.__dict__, "up_ms": up_ms})
            before, count = count, count_whole_card(before and count, now, {"sm_ms": sm_ms}, "run", up_ms)
            told_at.append((up_ms, sm_ms))
    assert count.sm_of_ms == told_at[-1][0] - told_at[0][0]
    assert (count.sm_ms or 0) == told_at[-1][1] - told_at[0][1]


def test_of_a_tick_that_tells_nothing_and_of_another_run_nothing_is_known():
    before = Count("run", 1000, NOW, "measured", sm_at=500, sm_ms=400, sm_of_ms=900, throttle_at=7, throttle_ms=1)
    silent = count_whole_card(before, Count(**{**before.__dict__, "up_ms": 2000}), {}, "run", 2000)
    assert (silent.sm_at, silent.sm_ms, silent.sm_of_ms) == (None, 400, 900)
    other = Count(**{**before.__dict__, "run": "next", "up_ms": 900})
    told = {"sm_ms": 800, "throttle_heat_ms": 9, "throttle_power_ms": 99}
    anew = count_whole_card(before, other, told, "next", 900)
    assert (anew.sm_at, anew.sm_ms, anew.throttle_at, anew.throttle_ms) == (800, 400, 9, 1)


@pytest.fixture
def world(db):
    cast = make.cast()
    cast.card = cast.gpus[0]
    cast.task = make.start(make.job(cast.ada, gpu="1", pool="dev"), cast.card)[0]
    return cast


def send(world, seq: int, **values: int) -> None:
    """A tick each ten seconds, of the card alone."""
    card = {"uuid": world.card.uuid, "source": "measured", "busy_ms": 9000 * seq, **values}
    tick = {"seq": seq, "age_ms": 0, "up_ms": 10_000 * seq, "cards": [card], "tasks": []}
    take_samples(world.node, {"run": "boot/1", "first": seq, "ticks": [tick]})


def test_who_holds_a_whole_card_has_what_its_parts_did(world):
    for seq in (1, 2, 5):
        send(world, seq, sm_ms=2000 * seq, throttle_heat_ms=500 * seq, throttle_brake_ms=70)
    use = TaskUseNow.objects.get(holding__gpu=world.card)
    assert (use.sm_ms, use.sm_of_ms, use.throttle_ms, use.throttle_of_ms) == (8000, 40_000, 2000, 40_000)
    (card,) = load_job_use(world.task.job).cards
    assert (card.sm_ms, card.sm_of_ms, card.throttle_ms, card.task, card.node, card.gpu) == (
        8000,
        40_000,
        2000,
        "main.0",
        "n1",
        world.card.index,
    )


def test_a_fault_counts_for_who_held_the_card_when_it_began(world):
    now = timezone.now()
    Holding.objects.update(held_from=now - timedelta(hours=2))
    changed = {"node": world.node, "card": world.card.uuid}
    for hours, name, state in ((3, "gpu_xid", "fail"), (1, "gpu_hot", "fail"), (1, "gpu_xid", "warn")):
        NodeCheckChange.objects.create(**changed, name=name, state=state, at=now - timedelta(hours=hours))
    assert not load_job_use(world.task.job).cards[0].faults
    NodeCheckChange.objects.create(**changed, name="gpu_off_bus", state="fail", at=now - timedelta(hours=1))
    assert load_job_use(world.task.job).cards[0].faults == ["gpu_off_bus"]
    make.end(world.task.job)
    Holding.objects.update(released_at=now - timedelta(minutes=90))
    assert not load_job_use(world.task.job).cards[0].faults
