"""No rung before its time, none before the last one was delivered, and none on what is not known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.idle.clock import Clock
from monitoring.idle.evidence import Idle, Unknown, Why
from monitoring.idle.ladder import Climb, Hold, Ladder, Standing, Stay, TellLead, compare, plan_times
from monitoring.idle.rules import build_ladder, load_rules, tighten
from monitoring.idle.rungs import Rung, Then
from monitoring.models import IdleRule

T0 = datetime(2026, 1, 5, 8, tzinfo=UTC)
NOTEBOOKS = Ladder({Rung.NOTED: 1800, Rung.WARNED: 2700, Rung.ACTED: 3600}, Then.RELEASE_GPU)


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def decide(minutes: float, ladder: Ladder = NOTEBOOKS, **standing):
    known = {"clock": Clock(T0, 0, at(minutes)), "started_at": at(-60), **standing}
    return compare(ladder, Standing(**known), Idle(T0, False), at(minutes))


def noted(minutes: float) -> dict:
    return {"rung": Rung.NOTED, "rung_at": at(minutes)}


def warned(minutes: float) -> dict:
    return {"rung": Rung.WARNED, "rung_at": at(minutes)}


@pytest.mark.parametrize(
    ("minutes", "standing", "step"),
    [
        (29, {}, Stay(Hold.NOT_DUE)),
        (30, {}, Climb(Rung.NOTED)),
        (44, noted(30), Stay(Hold.NOT_DUE)),
        (45, noted(30), Climb(Rung.WARNED)),
        (60, warned(45), Climb(Rung.ACTED)),
        (70, {}, Climb(Rung.NOTED)),  # the looks were away: the ladder is climbed from its foot
        (84, noted(70), Stay(Hold.NOT_DUE)),
        (85, noted(70), Climb(Rung.WARNED)),
        (99, warned(85), Stay(Hold.NOT_DUE)),
        (45, {**noted(30), "reached": False}, Stay(Hold.UNDELIVERED)),
        (60, {**noted(30), "reached": False}, TellLead()),
        (90, {**noted(30), "reached": False, "instead": True}, Stay(Hold.UNDELIVERED)),
        (30, {"started_at": at(11)}, Stay(Hold.YOUNG)),
        (31, {"started_at": at(11)}, Climb(Rung.NOTED)),
        (60, {**warned(45), "ends_at": at(74)}, Stay(Hold.ENDING)),
        (60, {**warned(45), "exempt_until": at(61)}, Stay(Hold.EXEMPT)),
        (60, {**warned(45), "stopping": True}, Stay(Hold.STOPPING)),
        (94, {**noted(30), "snoozed_until": at(110)}, Stay(Hold.SNOOZED)),
        (95, {**noted(30), "snoozed_until": at(110)}, Climb(Rung.WARNED)),
        (109, {**warned(95), "snoozed_until": at(110)}, Stay(Hold.SNOOZED)),
        (110, {**warned(95), "snoozed_until": at(110)}, Climb(Rung.ACTED)),
        (600, {"rung": Rung.ACTED, "rung_at": at(60)}, Stay(Hold.AT_TOP)),
    ],
)
def test_next_rung(minutes, standing, step):
    assert decide(minutes, **standing) == step


def test_the_clock_stands_where_nothing_is_known():
    stood = Standing(Clock(T0, 0, at(60)), Rung.WARNED, at(45), started_at=at(-60))
    assert compare(NOTEBOOKS, stood, Unknown(Why.STALE), at(60)) == Stay(Hold.UNKNOWN)
    later = replace(stood, clock=Clock(T0, 600, at(60)))
    assert compare(NOTEBOOKS, later, Idle(T0, False), at(69)) == Stay(Hold.NOT_DUE)
    assert compare(NOTEBOOKS, later, Idle(T0, False), at(70)) == Climb(Rung.ACTED)


def test_a_ladder_that_only_tells_has_no_last_rung():
    batch = load_rules([]).find_rule(1, "batch")
    ladder = build_ladder(batch)
    assert ladder.after_s == {Rung.NOTED: 1800, Rung.REMINDED: 7200} and ladder.then == Then.TELL
    assert decide(9999, ladder, rung=Rung.REMINDED, rung_at=at(120)) == Stay(Hold.AT_TOP)


def test_planned_times_are_those_at_which_rungs_are_taken():
    times = plan_times(NOTEBOOKS, Standing(Clock(T0, 120, T0), started_at=at(-60)))
    assert times == {Rung.NOTED: at(32), Rung.WARNED: at(47), Rung.ACTED: at(62)}


@given(
    st.integers(10, 600),
    st.sampled_from(list(Then)),
    st.tuples(st.integers(5, 60), st.integers(61, 90), st.integers(91, 120), st.integers(121, 600)),
    st.sampled_from([Then.TELL, Then.RELEASE_GPU, Then.STOP]),
)
def test_a_job_file_is_never_laxer_than_its_pool(for_min, then, minutes, pools_then):
    names = ("note_min", "remind_min", "warn_min", "act_min")
    pool = build_ladder(IdleRule(kind="batch", then=pools_then, **dict(zip(names, minutes, strict=True))))
    ladder = tighten(pool, 60 * for_min, then)
    for rung in (Rung.NOTED, Rung.WARNED, Rung.ACTED):
        if rung in pool.after_s:
            assert ladder.after_s[rung] <= pool.after_s[rung]
    times = [ladder.after_s[rung] for rung in sorted(ladder.after_s)]
    assert times == sorted(set(times))
    if then != Then.TELL:
        assert ladder.after_s[Rung.ACTED] <= 60 * for_min and ladder.then in {then, pools_then}
