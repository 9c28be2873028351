"""Verdicts on jobs: each rule at its limit, the costliest first, and none where too little was seen."""

from dataclasses import replace

import pytest

from monitoring.usage.efficiency import judge
from monitoring.usage.job_use import CardUse, HostUse, JobUse, Size
from monitoring.usage.verdict import Advice

MINUTE = 60_000
HOUR = 60 * MINUTE
SIZES = (Size("1/8", 12, 4000), Size("1/4", 25, 8000), Size("1/2", 50, 16_000))


def card(**other) -> CardUse:
    """Half of a card, seen for ten hours, 60 % busy, most of its memory in use."""
    usual = {"milli": 500, "percent": 50, "memory_mib": 16_000, "held_ms": 10 * HOUR, "ran_ms": 10 * HOUR}
    usual |= {"known_ms": 10 * HOUR, "seen_ms": 10 * HOUR, "active_ms": 9 * HOUR, "idle_ms": 0, "tail_ms": 0}
    return CardUse(**{**usual, "busy_ms": 3 * HOUR, "peak_mib": 12_000, **other})


def host(**other) -> HostUse:
    usual = {"cpu_milli": 4000, "memory_mib": 32_000, "held_ms": 10 * HOUR, "ran_ms": 10 * HOUR}
    usual |= {"known_ms": 10 * HOUR, "seen_ms": 10 * HOUR, "cpu_ms": 10 * HOUR, "peak_mib": 16_000}
    return HostUse(**{**usual, **other})


def job(*cards: CardUse, hosts=None, **other) -> JobUse:
    return JobUse(cards, [host()] if hosts is None else hosts, **{"ran_ms": 10 * HOUR, "sizes": SIZES, **other})


def codes(use: JobUse) -> list[str]:
    return [verdict.code for verdict in judge(use)]


def whole(task="worker.0", **other) -> CardUse:
    """A whole card, 90 % busy, of which everything is known."""
    usual = {"milli": 1000, "percent": 100, "busy_ms": 9 * HOUR, "sm_ms": 6 * HOUR, "sm_of_ms": 10 * HOUR}
    return card(
        **{**usual, "throttle_ms": 0, "throttle_of_ms": 10 * HOUR, "task": task, "node": "n7", "gpu": 5, **other}
    )


def gang(*busy_hours: float, **other) -> JobUse:
    return job(*(whole(f"worker.{rank}", busy_ms=int(hours * HOUR), **other) for rank, hours in enumerate(busy_hours)))


def test_what_wastes_nothing_is_good():
    assert codes(job(card())) == codes(job()) == ["good"]
    assert job(card()).busy_percent == 60


@pytest.mark.parametrize(
    ("use", "code", "hours"),
    [
        (job(card(busy_ms=0, peak_mib=0, active_ms=0, tail_ms=10 * HOUR)), "never_used", 5.0),
        (job(card(busy_ms=int(1.4 * HOUR))), "low_activity", 5 * 0.72),
        (job(card(tail_ms=2 * HOUR + MINUTE)), "idle_tail", 0.5 * (2 + 1 / 60)),
        (job(card(peak_mib=6000, busy_ms=2 * HOUR)), "too_much_memory", 2.5),
        (job(card(busy_ms=2 * HOUR), hosts=[host(cpu_ms=37 * HOUR)]), "starved", 3.0),
        (job(card(), hosts=[host(peak_mib=30_400)]), "host_memory_low", 0),
        (job(card(), hosts=[host(peak_mib=6399)]), "host_memory_high", 0),
        (job(card(), ended_well=True, max_time_s=51 * 3600), "time_limit_far", 0),
        (job(whole(sm_ms=2 * HOUR)), "coarse_only", 7.0),
        (job(whole(throttle_ms=HOUR)), "throttled", 0),
        (job(card(faults=["gpu_xid"])), "gpu_fault", 0),
        (gang(9, 9, 9, 7), "straggler", 2.0),
    ],
)
def test_each_rule_holds_beyond_its_limit(use, code, hours):
    (verdict,) = judge(use)
    assert (verdict.code, verdict.gpu_hours) == (code, pytest.approx(hours))


@pytest.mark.parametrize(
    "use",
    [
        job(card(busy_ms=int(1.5 * HOUR))),
        job(card(tail_ms=2 * HOUR)),
        job(card(tail_ms=2 * HOUR + MINUTE), card()),  # a gang is idle only as a whole
        job(card(peak_mib=8000, busy_ms=2 * HOUR)),
        job(card(peak_mib=7000, busy_ms=2 * HOUR)),  # a quarter leaves no room
        job(card(peak_mib=6000)),  # a quarter would slow it down
        job(card(peak_mib=6000, busy_ms=2 * HOUR), sizes=()),
        job(card(busy_ms=2 * HOUR), hosts=[host(cpu_ms=36 * HOUR)]),
        job(card(), hosts=[host(peak_mib=30_399)]),
        job(card(), hosts=[host(peak_mib=6400)]),
        job(card(), hosts=[host(memory_mib=2000, peak_mib=60)]),  # nothing worth asking less for
        job(card(), max_time_s=51 * 3600),  # it was stopped
        job(card(busy_ms=None, peak_mib=None)),
        job(whole(sm_ms=int(2.5 * HOUR))),
        job(whole(sm_ms=HOUR, busy_ms=int(6.9 * HOUR))),  # it is not even occupied
        job(whole(sm_ms=HOUR, sm_of_ms=8 * HOUR - 1)),  # too little is known
        job(whole(throttle_ms=HOUR - 1)),
        job(whole(throttle_ms=HOUR, throttle_of_ms=7 * HOUR)),
        gang(10, 10, 10, 8),
        gang(9, 5),  # of two nobody knows which is slow
    ],
)
def test_no_rule_holds_at_its_limit(use):
    assert codes(use) == ["good"]


def test_the_costliest_is_first_and_what_says_less_is_left_out():
    low = card(busy_ms=0, peak_mib=900, tail_ms=4 * HOUR)
    found = {verdict.code: verdict.gpu_hours for verdict in judge(job(low))}
    assert found == {"too_much_memory": pytest.approx(3.75), "low_activity": 3, "idle_tail": 2}  # 5 GPU-hours in all
    assert list(found) == ["too_much_memory", "low_activity", "idle_tail"]
    assert codes(job(replace(low, of_card=True, peak_mib=0)))[0] != "never_used"
    assert codes(job(card(busy_ms=HOUR, tail_ms=9 * HOUR))) == ["idle_tail"]  # before, it was busy
    assert codes(job(card(busy_ms=HOUR), hosts=[host(cpu_ms=39 * HOUR)])) == ["starved"]


def test_advice_names_what_to_ask_for():
    assert judge(job(card(peak_mib=3000, busy_ms=2 * HOUR)))[0].advice == Advice(
        "gpu", "1/4"
    )  # an eighth would slow it
    assert judge(job(card(), hosts=[host(peak_mib=31_000)]))[0].advice == Advice("memory", 48_000)
    assert judge(job(card(), ended_well=True, max_time_s=51 * 3600))[0].advice == Advice("time", 15 * 3600)


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (job(card(busy_ms=0, seen_ms=8 * HOUR - 1)), "unknown"),
        (job(hosts=[host(seen_ms=0)]), "unknown"),
        (job(card(busy_ms=0), ran_ms=9 * MINUTE), "too_short"),
        (job(card(ran_ms=0), ran_ms=HOUR), "too_short"),
    ],
)
def test_of_what_was_hardly_seen_nothing_is_said_nor_advised(use, code):
    (verdict,) = judge(use)
    assert (verdict.code, verdict.gpu_hours, verdict.advice) == (code, 0, None)


def test_the_slowest_task_is_named_with_its_machine():
    (verdict,) = judge(gang(9, 9, 6, 9, 5))
    assert verdict.params == {"task": "worker.4", "node": "n7", "percent": pytest.approx(100 * 4 / 9), "tasks": 2}


def test_a_task_that_was_hardly_seen_is_no_straggler():
    hidden = whole("worker.4", busy_ms=HOUR, seen_ms=7 * HOUR)
    assert codes(job(*gang(9, 9, 9, 9).cards, hidden)) == ["good"]


def test_never_used_needs_better_eyes():
    unused = card(busy_ms=0, peak_mib=0, seen_ms=9 * HOUR)
    assert "never_used" not in codes(job(unused)) and "low_activity" in codes(job(unused))
