"""What GPU-hours cost: the most exact price of each day, in whole numbers that add up."""

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import InvalidInput, NotPermitted
from jobs.models import Task
from jobs.states import TaskState
from monitoring.costs.prices import create_price, delete_price, find_price, list_edges
from monitoring.costs.sums import Cost, sum_costs
from monitoring.models import Price, TaskUse
from monitoring.usage.report import GROUPS, HOUR_MILLI_MS, Period
from quotas.models import Holding
from tests import make

START = datetime(2026, 11, 1, tzinfo=UTC)
NOW = START + timedelta(days=10)
HOUR = timedelta(hours=1)
MODEL = "V100-32GB"


def price(milli: int, *, day: int = 1, pool=None, model: str = "") -> Price:
    return Price(pool_id=pool, model=model, begins=date(2026, 11, day), milli=milli)


def test_the_most_exact_price_holds_and_of_alike_ones_the_newest():
    known = [price(1), price(2, day=5), price(3, model=MODEL), price(4, pool=7), price(5, pool=7, model=MODEL, day=9)]
    day = [date(2026, 10, 31), date(2026, 11, 1), date(2026, 11, 5), date(2026, 11, 9)]
    assert find_price(known, 7, MODEL, day[0]) is None
    assert [find_price(known, 1, "A100", at) for at in day] == [None, 1, 2, 2]
    assert [find_price(known, 1, MODEL, at) for at in day] == [None, 3, 3, 3]
    assert [find_price(known, 7, MODEL, at) for at in day] == [None, 4, 4, 5]


def test_a_time_is_cut_where_a_price_begins_and_nowhere_else():
    known = [price(1, day=3), price(2, day=3, model=MODEL), price(1, day=20)]
    third = START + timedelta(days=2)
    assert list_edges(known, START, NOW) == [START, third, NOW]
    assert list_edges(known, third, NOW) == [third, NOW]


@pytest.fixture
def world(db):
    return make.cast()


def hold(world, begins, ends, *, milli=1000, gpu=0, person=None, **did) -> Holding:
    who = person or world.ada
    team = world.vision if who == world.eve else world.nlp
    card = world.gpus[gpu]
    where = {"team": team, "user": who, "pool": card.pool, "node": world.node, "gpu": card}
    row = Holding.objects.create(task=uuid4(), **where, gpu_milli=milli, held_from=begins, released_at=ends)
    if did:
        TaskUse.objects.create(holding=row, run="r", up_ms=1, at=NOW, source="measured", **did)
    return row


def test_without_any_price_there_is_no_cost(world):
    hold(world, START, NOW)
    assert sum_costs("team", Period(START, NOW), NOW, None) is None


def test_a_holding_costs_the_price_of_each_of_its_days_and_a_slice_its_part(world):
    price(1000, day=1).save()
    price(3000, day=2).save()
    did = {"seen_ms": 4 * 3_600_000, "active_ms": 2 * 3_600_000, "idle_ms": 2 * 3_600_000}
    hold(world, START + 22 * HOUR, START + 26 * HOUR, milli=500, **did)
    (cost,) = sum_costs("user", Period(START, NOW), NOW, None).values()
    assert (cost.count("held"), cost.count("idle"), cost.unpriced) == (2 * 500 + 2 * 1500, 500 + 1500, 0)


def test_what_has_no_price_is_not_free_but_told_apart(world):
    price(1000, pool=world.gpus[1].pool_id).save()
    hold(world, START, START + HOUR)
    hold(world, START, START + 2 * HOUR, gpu=1)
    costs = sum_costs("pool", Period(START, NOW), NOW, None)
    assert costs == {
        world.gpus[0].pool.name: Cost(unpriced=HOUR_MILLI_MS),
        world.gpus[1].pool.name: Cost(held=2 * 1000 * HOUR_MILLI_MS),
    }


def fail(world, *, reason: str, begins, ends, saved=None, milli: int = 1000) -> None:
    """A try that held a card and ended for a reason."""
    job = make.job(world.ada, gpu="1", pool="dev")
    (task,) = make.start(job, world.gpus[0])
    Holding.objects.filter(task=task.uuid).update(held_from=begins)
    make.end(job, TaskState.FAILED, reason, 1)
    Holding.objects.filter(task=task.uuid).update(held_from=begins, released_at=ends, gpu_milli=milli)
    Task.objects.filter(pk=task.pk).update(started_at=begins, ended_at=ends, checkpointed_at=saved)


def test_what_faults_cost_is_what_was_held_since_the_last_checkpoint(world):
    price(1000, day=1).save()
    price(3000, day=2).save()
    fail(
        world, reason="node_lost", begins=START + 20 * HOUR, ends=START + 26 * HOUR, saved=START + 22 * HOUR, milli=500
    )
    fail(world, reason="exit_nonzero", begins=START, ends=START + 2 * HOUR)
    before = sum_costs("team", Period(START, START + 25 * HOUR), NOW, None)["nlp"]
    assert (before.lost, before.count("held")) == (0, 2 * 1000 + 4 * 500 + 1500)  # the try ended later
    costs = sum_costs("team", Period(START, NOW), NOW, None)
    assert costs["nlp"].count("lost") == 2 * 500 + 2 * 1500
    later = sum_costs("model", Period(START + 24 * HOUR, NOW), NOW, None)[MODEL]
    assert (later.count("lost"), later.count("held")) == (2 * 1500, 2 * 1500)
    for by in GROUPS:
        assert sum(cost.lost for cost in sum_costs(by, Period(START, NOW), NOW, None).values()) == costs["nlp"].lost
    assert sum_costs("team", Period(START, NOW), NOW, [world.vision.pk]) == {}


@given(
    st.lists(st.tuples(st.integers(0, 239), st.integers(1, 100), st.integers(1, 1000), st.booleans()), max_size=5),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 9)), min_size=1, max_size=3, unique_by=lambda one: one[1]),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_grouping_costs_the_same_to_the_last_digit(world, rows, prices):
    Holding.objects.all().delete()
    Price.objects.all().delete()
    Price.objects.bulk_create([price(milli, day=day) for milli, day in prices])
    wanted = Fraction(0)
    for begins, hours, milli, of_eve in rows:
        hold(world, START + begins * HOUR, START + (begins + hours) * HOUR, milli=milli, gpu=of_eve)
        for hour in range(begins, min(begins + hours, 240)):
            wanted += Fraction(milli, 1000) * (find_price(prices_of(), 1, MODEL, (START + hour * HOUR).date()) or 0)
    for by in GROUPS:
        costs = sum_costs(by, Period(START, NOW), NOW, None)
        assert Fraction(sum(cost.held for cost in costs.values()), HOUR_MILLI_MS) == wanted


def prices_of() -> list[Price]:
    return list(Price.objects.all())


def test_an_amount_is_rounded_once_half_up():
    assert Cost(held=HOUR_MILLI_MS // 2).count("held") == 1
    assert Cost(held=HOUR_MILLI_MS // 2 - 1).count("held") == 0
    assert Cost(held=15 * HOUR_MILLI_MS).count("held", milli=10) == 2


def test_only_admins_set_prices_and_nonsense_is_told(world):
    admin = make.admin()
    with pytest.raises(NotPermitted):
        create_price(actor=world.bob, price=price(1))
    made = create_price(actor=admin, price=price(1, model=MODEL))
    with pytest.raises(InvalidInput) as refused:
        create_price(actor=admin, price=price(2, model=MODEL))
    assert [error.code for error in refused.value.errors] == ["price_twice"]
    with pytest.raises(InvalidInput) as refused:
        create_price(actor=admin, price=price(-1, model="H900"))
    assert [error.code for error in refused.value.errors] == ["unknown_gpu_model", "out_of_range"]
    with pytest.raises(NotPermitted):
        delete_price(actor=world.bob, price=made)
    delete_price(actor=admin, price=made)
    assert not Price.objects.exists()
