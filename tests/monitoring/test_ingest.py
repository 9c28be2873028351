"""Ticks as rows: repeats change nothing, only a machine's own cards and tasks count, and what is unknown stays so."""

from datetime import timedelta

import numpy as np
import pytest
from django.db import connection
from django.utils import timezone

from monitoring.models import CardNow, NodeNow, Sample, TaskNow
from monitoring.samples.ingest import take_samples
from monitoring.series.charts import Ask, chart_cards
from monitoring.series.keys import Kind
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    cast = make.cast()
    cast.card = cast.gpus[0]
    cast.task = make.start(make.job(cast.ada, gpu="1/4"), cast.card)[0]
    return cast


def tick(world, seq: int, up_s: float, *, age_ms: int = 0, counted_s: float = 0, card=(), task=(), share=()) -> dict:
    """A tick of the one card and its task. counted_s: how long before it the task was counted."""
    uuid = world.card.uuid
    shares = [{"uuid": uuid, "source": "measured", **dict(share)}]
    return {
        "seq": seq,
        "age_ms": age_ms,
        "up_ms": round(1000 * up_s),
        "cards": [{"uuid": uuid, "source": "measured", **dict(card)}],
        "tasks": [{"task": world.task.uuid.hex, "age_ms": round(1000 * counted_s), **dict(task), "shares": shares}],
    }


def send(world, *ticks: dict, run: str = "boot/1"):
    return take_samples(world.node, {"run": run, "first": ticks[0]["seq"] if ticks else 1, "ticks": list(ticks)})


def rows() -> list[dict]:
    return [list(model.objects.values()) for model in (NodeNow, CardNow, TaskNow)]


def test_means_are_differences_of_totals(world):
    first = tick(world, 1, 100, card={"busy_ms": 7000, "used_mib": 900}, task={"cpu_ms": 100, "read_kib": 0})
    later = {"cpu_ms": 20_100, "memory_mib": 512, "peak_mib": 600, "processes": 3, "read_kib": 2048}
    second = tick(
        world, 2, 110, counted_s=2, card={"busy_ms": 13_300, "used_mib": 950}, task=later, share={"busy_ms": 2000}
    )
    assert send(world, first).next == 2
    card, task = CardNow.objects.get(), TaskNow.objects.get()
    assert (card.busy_percent, card.used_mib, task.cpu_milli) == (None, 900, None)  # of one look there is no mean
    taken = send(world, second)
    assert (taken.taken, taken.next, taken.refused) == (1, 3, {})
    card, task = CardNow.objects.get(), TaskNow.objects.get()
    assert (card.busy_percent, card.used_mib, card.temperature_c) == (63.0, 950, None)
    assert (task.cpu_milli, task.memory_mib, task.peak_mib, task.processes) == (2500, 512, 600, 3)  # 20 s of CPU in 8 s
    assert (task.read_kib_s, task.write_kib_s) == (256, None)
    assert task.shares == [{"uuid": card.gpu.uuid, "source": "measured", "up_ms": 110_000, "busy_ms": 2000}]
    send(world, tick(world, 3, 120, card={"busy_ms": 13_300}, share={"busy_ms": 4500}))
    assert TaskNow.objects.get().shares[0]["busy_percent"] == 25.0
    card = CardNow.objects.get()
    assert (card.busy_percent, card.used_mib) == (0.0, None)  # what was not told this time is not what was told before


def test_what_only_some_cards_count_becomes_means_and_curves_of_what_is_known(world):
    counted = {"sm_ms": 1000, "dram_ms": 10**17, "pcie_rx_kib": 5000, "throttle_heat_ms": 70}
    first = tick(world, 1, 100, age_ms=10_000, card=counted)
    later = {"sm_ms": 5310, "dram_ms": 10**17, "pcie_rx_kib": 25_000, "throttle_heat_ms": 60}
    assert send(world, first, tick(world, 2, 110, card=later)).refused == {"dram_ms": 2}
    assert CardNow.objects.get().counted == {
        "sm_ms": 5310,
        "pcie_rx_kib": 25_000,
        "throttle_heat_ms": 60,  # of a driver that was loaded anew: nothing is known of the time between
        "sm_centi": 4310,
        "pcie_rx_kib_s": 2000,
    }
    now = timezone.now()
    chart = chart_cards([world.card], Ask(now - timedelta(minutes=1), now))
    lines = {line.metric: line.values[~np.isnan(line.values)] for line in chart.lines}
    assert lines.keys() == {
        "gpu_busy_percent",
        "gpu_memory_mib",
        "temperature_c",
        "power_w",
        "sm_percent",
        "pcie_rx_kib_s",
    }
    assert (lines["sm_percent"][-1], lines["pcie_rx_kib_s"][-1]) == pytest.approx((43.1, 2000))


def test_repeats_and_older_ticks_change_nothing(world):
    ticks = [tick(world, seq, 10 * seq, card={"busy_ms": 1000 * seq}) for seq in (1, 2, 3)]
    send(world, *ticks)
    before = rows()
    assert send(world, *ticks).taken == send(world, ticks[1]).taken == 0
    assert rows() == before


def test_ticks_are_taken_in_their_order_however_they_came(world):
    ticks = [tick(world, seq, 10 * seq, card={"busy_ms": 1000 * seq * seq}) for seq in (3, 1, 2, 2)]
    assert send(world, *ticks).taken == 3
    card = CardNow.objects.get()
    assert (card.busy_ms, card.busy_percent) == (9000, 50.0)


def test_a_lost_tick_costs_resolution_only(world):
    send(world, tick(world, 1, 10, card={"busy_ms": 0}))
    send(world, tick(world, 5, 50, card={"busy_ms": 10_000}))
    assert CardNow.objects.get().busy_percent == 25.0


def test_a_new_run_counts_anew_and_repeats_of_the_old_one_are_known(world):
    old = tick(world, 9, 900, card={"busy_ms": 800_000}, task={"cpu_ms": 7})
    send(world, old)
    send(world, tick(world, 1, 5, card={"busy_ms": 1000}, task={"cpu_ms": 9}), run="boot/2")
    card, task = CardNow.objects.get(), TaskNow.objects.get()
    assert (card.busy_ms, card.busy_percent, card.term, task.cpu_milli) == (1000, None, 2, None)
    assert send(world, old).taken == 0
    send(world, tick(world, 2, 15, card={"busy_ms": 6000}, task={"cpu_ms": 5009}), run="boot/2")
    assert (CardNow.objects.get().busy_percent, TaskNow.objects.get().cpu_milli) == (50.0, 500)


def test_a_total_that_falls_is_no_negative_rate_and_no_spike(world):
    for seq, busy_ms in enumerate((5000, 100, 5100), 1):
        send(world, tick(world, seq, 10 * seq, card={"busy_ms": busy_ms}))
        assert CardNow.objects.get().busy_percent == (50.0 if seq == 3 else None)


def test_counters_that_were_not_read_since_keep_their_rate(world):
    send(world, tick(world, 1, 10, task={"cpu_ms": 0}))
    send(world, tick(world, 2, 20, task={"cpu_ms": 5000}))
    send(world, tick(world, 3, 30, counted_s=10, task={"cpu_ms": 5000}))
    assert TaskNow.objects.get().cpu_milli == 500
    send(world, tick(world, 4, 40, task={"cpu_ms": 5000}))
    assert TaskNow.objects.get().cpu_milli == 0


def test_only_cards_and_tasks_of_the_machine_count(world):
    strange = make.gpu(make.node("n9", pool=world.dev))
    other = make.start(make.job(world.ada, gpu="1/4"), strange)[0]
    foreign = tick(world, 1, 10, card={"busy_ms": 1})
    foreign["cards"] += [{"uuid": uuid, "source": "measured", "busy_ms": 1} for uuid in (strange.uuid, "GPU-none")]
    foreign["tasks"] += [{"task": uuid, "age_ms": 0, "cpu_ms": 1} for uuid in (other.uuid.hex, "0" * 32)]
    foreign["tasks"][0]["shares"].append({"uuid": strange.uuid, "source": "measured", "busy_ms": 1})
    assert send(world, foreign).refused == {
        "card of another machine": 2,
        "task of another machine": 2,
        "card that the task does not hold": 1,
    }
    assert list(CardNow.objects.values_list("gpu__uuid", flat=True)) == [world.card.uuid]
    assert list(TaskNow.objects.values_list("task", flat=True)) == [world.task.pk]


@pytest.mark.parametrize("sent", [None, {}, {"run": 7, "ticks": []}, {"run": "r", "ticks": [7]}])
def test_a_body_without_sense_changes_nothing(world, sent):
    send(world, tick(world, 1, 10))
    before = rows()
    taken = take_samples(world.node, sent)
    assert taken.taken == 0 and taken.refused and rows() == before


def test_the_moment_is_the_platforms_by_the_age(world):
    send(world, tick(world, 1, 10, age_ms=60_000))
    age = timezone.now() - CardNow.objects.get().at
    assert timedelta(seconds=60) <= age < timedelta(seconds=90)


def test_the_tables_need_no_log_and_their_rows_move_within_a_page(world):
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, relpersistence, reloptions FROM pg_class WHERE relname LIKE 'monitoring_%now'")
        names = ("cardnow", "nodenow", "processnow", "tasknow", "taskusenow")
        assert sorted(cursor.fetchall()) == [(f"monitoring_{name}", "u", ["fillfactor=50"]) for name in names]


def test_each_tick_is_kept_as_what_it_says_of_the_time_since_the_one_before(world):
    later = {"cpu_ms": 20_100, "memory_mib": 512, "processes": 3}
    first = tick(world, 1, 100, age_ms=31_000, card={"busy_ms": 7000, "used_mib": 900}, task={"cpu_ms": 100})
    busy, used = {"busy_ms": 13_000}, {"busy_ms": 2000}
    second = tick(world, 2, 130, age_ms=1000, counted_s=2, card=busy, task=later, share=used)
    again = tick(world, 3, 131, counted_s=3, share={"busy_ms": 2500})  # its counters were not read since
    send(world, first, second, again)
    send(world, second)
    kept: dict[Kind, list] = {}
    for one in Sample.objects.order_by("at"):
        kept.setdefault(Kind(one.kind), []).append((one.span_ms, one.values))
    assert kept == {
        Kind.CARD: [
            (10_000, [None, 900, *[None] * 12]),
            (30_000, [2000, *[None] * 13]),
            (1000, [None] * 14),
        ],
        Kind.TASK: [(10_000, [None] * 7), (28_000, [714, 512, 3, *[None] * 4])],
        Kind.SHARE: [(10_000, [None, None]), (30_000, [None, None]), (1000, [5000, None])],
    }


def test_no_sample_speaks_for_more_than_two_minutes(world):
    send(world, tick(world, 1, 100, card={"busy_ms": 0}), tick(world, 2, 4000, card={"busy_ms": 3_900_000}))
    assert Sample.objects.filter(kind=Kind.CARD, span_ms=120_000, values__0=10_000).exists()


def test_counters_that_were_not_read_since_say_nothing_new(world):
    """The same reading, told again 2 s later, with a millisecond of rounding."""
    used = {"cpu_ms": 5000, "memory_mib": 512}
    send(world, tick(world, 1, 100, age_ms=4000, task={"cpu_ms": 0}), tick(world, 2, 110, age_ms=2000, task=used))
    send(world, tick(world, 3, 112, counted_s=1.999, task=used))
    assert TaskNow.objects.get().cpu_milli == 500
    assert Sample.objects.filter(kind=Kind.TASK).count() == 2
