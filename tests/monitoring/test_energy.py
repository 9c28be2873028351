"""What a card drew is shared among its holders: it adds up, whoever sends what when."""

from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.models import Gpu
from common.steady_clock import steady_now
from monitoring.models import TaskUse, TaskUseNow
from monitoring.samples.ingest import take_samples
from monitoring.usage.counting import Count
from monitoring.usage.energy import Holder, share_energy
from monitoring.usage.energy_report import ENERGY_GROUPS, KWH_MJ, Energy, leave_out_simulated, sum_energy
from monitoring.usage.report import Period
from quotas.models import Holding
from tests import make

NOW = steady_now


def holder(milli: int, worked_ms: int | None, at: int | None = 0) -> Holder:
    before = Count("r", 1, NOW(), "measured", busy_ms=100, energy_at=at)
    after = Count("r", 2, NOW(), "measured", busy_ms=None if worked_ms is None else 100 + worked_ms, energy_at=at)
    return Holder(milli, before, after, read=worked_ms is not None)


def parts(holders: list[Holder], drawn: int) -> list[int | None]:
    return [count.energy_mj for count in share_energy(holders, drawn)]


def test_who_works_has_it_and_else_who_holds():
    assert parts([holder(250, 300), holder(750, 100)], 4000) == [3000, 1000]
    assert parts([holder(250, 300), holder(750, 0)], 4000) == [4000, 0]
    assert parts([holder(250, 0), holder(750, 0)], 4000) == [1000, 3000]
    assert parts([holder(250, 300), holder(750, None)], 4000) == [1000, 3000]
    assert parts([holder(250, None)], 4000) == [4000]


def test_what_is_not_known_is_not_nothing():
    assert parts([holder(500, 1, at=None), holder(500, 3)], 4000) == [None, 3000]
    (count,) = share_energy([holder(500, 1, at=9000)], 4000)  # its driver was loaded anew
    assert (count.energy_mj, count.energy_at) == (None, 4000)


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.none() | st.integers(0, 10_000)), min_size=1, max_size=8),
    st.integers(0, 10**12),
)
def test_the_parts_add_up_to_what_the_card_drew(asked, drawn):
    found = parts([holder(*one) for one in asked], drawn)
    assert 0 <= drawn - sum(found) < len(asked) and min(found) >= 0


@pytest.fixture
def world(db):
    cast = make.cast()
    cast.card = cast.gpus[0]
    cast.tasks = [
        make.start(make.job(who, gpu=gpu), cast.card)[0] for who, gpu in ((cast.ada, "1/4"), (cast.bob, "1/2"))
    ]
    return cast


def send(world, seq: int, energy_mj: int | None, busy: list[int], run: str = "boot/1", ticks: int = 1) -> None:
    uuid = world.card.uuid
    tasks = [
        {"task": task.uuid.hex, "age_ms": 0, "shares": [{"uuid": uuid, "source": "measured", "busy_ms": ms}]}
        for task, ms in zip(world.tasks, busy, strict=False)
    ]
    card = {"uuid": uuid, "source": "measured", "busy_ms": sum(busy), "energy_mj": energy_mj}
    tick = {"seq": seq, "age_ms": 0, "up_ms": 10_000 * seq, "cards": [card], "tasks": tasks}
    take_samples(world.node, {"run": run, "first": seq, "ticks": [tick]})


def drawn(world) -> list[int | None]:
    rows = {row.holding.task: row.energy_mj for row in TaskUseNow.objects.filter(holding__gpu__isnull=False)}
    return [rows.get(task.uuid) for task in world.tasks]


def test_tasks_on_a_card_have_their_parts_of_it(world):
    send(world, 1, 10_000, [1000, 1000])
    assert drawn(world) == [None, None]
    send(world, 2, 13_000, [2000, 3000])
    assert drawn(world) == [1000, 2000]
    send(world, 2, 13_000, [2000, 3000])  # again
    send(world, 3, None, [3000, 4000])
    assert drawn(world) == [1000, 2000]
    send(world, 4, 15_000, [4000, 5000])  # what was missed is caught up
    assert drawn(world) == [2000, 3000]


def test_who_holds_and_is_not_heard_of_has_a_part_by_what_it_holds(world):
    send(world, 1, 10_000, [1000])
    send(world, 2, 13_000, [2000])
    assert drawn(world) == [1000, 2000]


def test_an_agent_that_starts_anew_loses_none_and_a_driver_that_does_only_that_span(world):
    send(world, 1, 10_000, [1000, 1000])
    send(world, 1, 16_000, [0, 0], run="boot/2")
    assert drawn(world) == [2000, 4000]
    send(world, 2, 500, [0, 0], run="boot/2")
    send(world, 3, 800, [100, 200], run="boot/2")
    assert drawn(world) == [2100, 4200]


def test_who_comes_later_has_none_of_what_was_drawn_before(world):
    later = world.tasks.pop()
    Holding.objects.filter(task=later.uuid).update(released_at=steady_now())
    send(world, 1, 10_000, [1000])
    send(world, 2, 12_000, [2000])
    Holding.objects.filter(task=later.uuid).update(released_at=None)
    world.tasks.append(later)
    send(world, 3, 15_000, [3000, 1000])
    assert drawn(world)[0] > 2000 and drawn(world)[1] is None
    send(world, 4, 16_000, [4000, 2000])
    assert drawn(world)[1] == 500


HOUR = timedelta(hours=1)


def keep(holding: Holding, hours: float, energy_mj: int | None) -> None:
    now = steady_now()
    Holding.objects.filter(pk=holding.pk).update(held_from=now - hours * HOUR)
    row = {"run": "r", "up_ms": 1, "at": now, "source": "measured", "energy_mj": energy_mj}
    TaskUse.objects.update_or_create(holding=holding, defaults=row)


def test_a_report_sums_what_was_drawn_and_tells_what_is_not_known(world):
    first, second = (Holding.objects.get(task=task.uuid, gpu__isnull=False) for task in world.tasks)
    keep(first, 10, 5 * KWH_MJ)
    keep(second, 10, None)
    now = steady_now()
    (team,) = sum_energy("team", Period(now - 2 * HOUR, now), now, None).values()
    assert team.kwh == pytest.approx(1, abs=0.01)
    assert team.unmetered / team.held == pytest.approx(2 / 3, abs=0.01)
    people = sum_energy("user", Period(now - 2 * HOUR, now), now, None)
    assert (people["ada"].is_known, people["bob"].kwh, list(people)) == (True, None, ["ada", "bob"])
    for by in ENERGY_GROUPS:
        total = sum(sum_energy(by, Period(now - 20 * HOUR, now), now, None).values(), Energy())
        assert total.drawn == 5 * KWH_MJ, by
    assert sum_energy("team", Period(now - 2 * HOUR, now), now, [world.vision.pk]) == {}


def test_simulated_cards_count_only_where_there_are_no_others(world):
    real, simulated = Energy(7, 1, 0), Energy(5, 1, 0, simulated=True)
    assert leave_out_simulated([("nlp", real), ("nlp", simulated)]) == [("nlp", real)]
    assert leave_out_simulated([("nlp", simulated)]) == [("nlp", simulated)]
    keep(Holding.objects.filter(gpu__isnull=False).first(), 1, 9)
    now = steady_now()
    assert sum_energy("node", Period(now - HOUR, now), now, None)["n1"].simulated
    Gpu.objects.filter(pk=world.gpus[1].pk).update(simulated=False)
    same = {"team": world.vision, "user": world.eve, "node": world.node, "gpu": world.gpus[1], "gpu_milli": 1000}
    Holding.objects.create(task=uuid4(), pool=world.gpus[1].pool, held_from=now - HOUR, **same)
    assert list(sum_energy("team", Period(now - HOUR, now), now, None)) == ["vision"]
