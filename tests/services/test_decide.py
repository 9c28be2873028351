"""How many replicas a service has: by requests in flight, to zero and back, and from one revision to the next."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.jobfile.serving import Canary, Serving
from services.canaries.judging import Answered, Trial
from services.decide import (
    BACK_OFF,
    DRAIN_AT_LEAST,
    DRAIN_AT_MOST,
    STABLE_S,
    ReplicaSeen,
    ServiceSeen,
    count_crash,
    decide,
)
from services.traffic import Traffic

NOW = datetime(2027, 1, 5, 12, tzinfo=UTC)
SERVING = Serving(port=8000, replicas=(0, 4), target=8, idle_s=600)
AGES = [None, timedelta(0), timedelta(seconds=59), timedelta(seconds=61), timedelta(seconds=601)]


def see(*replicas: ReplicaSeen, **known) -> ServiceSeen:
    usual = {"rollout": None, "stopped": False, "woken_at": None, "busy_at": None, "low_since": None, "in_flight": 0}
    return ServiceSeen(**{"serving": SERVING, "current": 1, "replicas": replicas, **usual, **known})


def up(pk: int, in_flight: int = 0, revision: int = 1, **known) -> ReplicaSeen:
    return ReplicaSeen(pk, revision, True, in_flight, **known)


def starting(pk: int, revision: int = 1) -> ReplicaSeen:
    return ReplicaSeen(pk, revision, False)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("seen", "started"),
    [
        (see(), 0),
        (see(in_flight=1), 1),
        (see(in_flight=8), 1),
        (see(in_flight=9), 2),
        (see(in_flight=1000), 4),  # the most
        (see(in_flight=20), 3),
        (see(starting(1), in_flight=20), 2),
        (see(up(1), up(2), up(3), in_flight=20), 0),
        (see(woken_at=ago(1)), 1),
        (see(woken_at=ago(601)), 0),
        (see(busy_at=ago(599)), 1),
        (see(in_flight=None), 0),
        (see(in_flight=9, stopped=True), 0),
        (see(in_flight=9, failed=True), 0),
        (see(in_flight=9, retry_at=ago(-1)), 0),
        (see(in_flight=9, retry_at=ago(1)), 2),
        (see(serving=replace(SERVING, replicas=(2, 4))), 2),
        (see(serving=replace(SERVING, replicas=(2, 4)), in_flight=None), 2),
        (see(up(1, draining_at=NOW), in_flight=1), 1),  # what drains counts no more
    ],
)
def test_it_starts_as_many_at_once_as_the_requests_need(seen, started):
    assert len(decide(seen, NOW).start) == started


def test_what_is_beyond_the_least_may_be_stopped_for_others():
    seen = see(starting(1), serving=replace(SERVING, replicas=(2, 4)), in_flight=100)
    assert decide(seen, NOW).start == (False, True, True)


@pytest.mark.parametrize(
    ("seen", "drained"),
    [
        (see(up(1), busy_at=ago(599)), ()),
        (see(up(1), busy_at=ago(601)), (1,)),  # asleep
        (see(up(1)), (1,)),
        (see(up(1), up(2), in_flight=8, low_since=ago(59)), ()),
        (see(up(1, 5), up(2, 3), in_flight=8, low_since=ago(60)), (2,)),
        (see(up(1, 8), starting(2), in_flight=8, low_since=ago(60)), (2,)),
        (see(up(1), up(2), in_flight=None, busy_at=ago(601), low_since=ago(61)), ()),  # nobody says: no fewer
        (see(up(1), up(2), in_flight=9, stopped=True), (2, 1)),
        (see(up(1), in_flight=None, stopped=True), (1,)),
        (see(up(1), serving=replace(SERVING, replicas=(1, 4))), ()),
    ],
)
def test_it_ends_what_is_not_needed_for_a_while(seen, drained):
    assert decide(seen, NOW).drain == drained


@pytest.mark.parametrize(
    ("replica", "in_flight", "ends"),
    [
        (up(1, 0, draining_at=NOW - DRAIN_AT_LEAST), 0, True),
        (up(1, 0, draining_at=ago(1)), 0, False),  # a gateway may not have read yet that it drains
        (up(1, 1, draining_at=ago(59)), 1, False),
        (up(1, 0, draining_at=ago(59)), None, False),
        (up(1, 1, draining_at=NOW - DRAIN_AT_MOST), 1, True),
        (ReplicaSeen(1, 1, False, 0, NOW), 0, True),  # it never had a request
        (up(1), 0, False),
    ],
)
def test_a_replica_ends_once_it_has_answered(replica, in_flight, ends):
    assert decide(see(replica, in_flight=in_flight, busy_at=NOW), NOW).end == ((1,) if ends else ())


@pytest.mark.parametrize(
    ("replicas", "known", "promoted", "drained"),
    [
        ([up(1)], {"in_flight": 1}, False, ()),
        ([up(1), starting(2, 2)], {"in_flight": 1}, False, ()),
        ([up(1), up(2, revision=2)], {"in_flight": 1}, True, (1,)),
        ([up(1), up(2), up(3, revision=2), starting(4, 2)], {"in_flight": 16}, False, ()),
        ([up(1), up(2), up(3, revision=2), up(4, revision=2)], {"in_flight": 16}, True, (1, 2)),
        ([], {"in_flight": 0}, True, ()),  # it sleeps
        ([up(1)], {"in_flight": 0}, True, (1,)),  # nobody needs the old one any more
        ([up(1)], {"in_flight": None}, False, ()),  # nobody says that
        ([], {"in_flight": 0, "woken_at": NOW}, False, ()),  # it is to be tried first
    ],
)
def test_a_new_revision_answers_once_it_is_ready(replicas, known, promoted, drained):
    plan = decide(see(*replicas, rollout=2, **known), NOW)
    assert (plan.promote, plan.drain) == (promoted, drained)


def test_a_rollout_that_is_given_up_drains():
    assert decide(see(up(1), starting(2, 2), in_flight=1), NOW).drain == (2,)


BAD = (Answered(Traffic(40, 30), Traffic(400)),)


@pytest.mark.parametrize(
    ("replicas", "known", "trial", "said"),
    [
        ([], {"in_flight": 0}, Trial(Canary()), {}),  # it sleeps, and so does the canary
        ([], {"in_flight": 1}, Trial(Canary()), {"start": (True,), "start_canary": True}),
        ([up(1)], {"in_flight": 1}, Trial(Canary()), {"start_canary": True}),
        ([up(1)], {"in_flight": 1}, Trial(Canary(), retry_at=ago(-1)), {}),  # it crashed a moment ago
        ([up(1), starting(2, 2)], {"in_flight": 1}, Trial(Canary()), {}),
        ([up(1), up(2, revision=2)], {"in_flight": 1}, Trial(Canary()), {"begin_trial": True}),
        ([up(1), up(2, revision=2)], {"in_flight": 30}, Trial(Canary(), ago(9)), {"start": (True,) * 3}),
        ([up(1), up(2, revision=2)], {"in_flight": 1}, Trial(Canary(), ago(1799)), {}),
        ([up(1), up(2, revision=2)], {"in_flight": 1}, Trial(Canary(), ago(1800)), {"end_trial": True}),
        ([up(1), up(2, revision=2)], {"in_flight": 1}, Trial(Canary(), ago(1800), None), {}),  # nobody knows how it was
        ([up(1), up(2, revision=2)], {"in_flight": None}, Trial(Canary(), ago(1800)), {}),
        ([up(1), up(2, revision=2)], {"in_flight": 1}, Trial(Canary(), ago(9), BAD), {"drain": (2,), "back": "errors"}),
        (
            [up(1), up(2, revision=2)],
            {"in_flight": 1},
            Trial(Canary(), ago(1800), BAD),
            {"drain": (2,), "back": "errors"},
        ),
        ([up(1), up(2, revision=2), up(3, revision=2)], {"in_flight": 1}, Trial(Canary(), ago(9)), {"drain": (3,)}),
        ([up(1), up(2, revision=2)], {"in_flight": 0}, Trial(Canary(), ago(9)), {"drain": (1, 2)}),  # it falls asleep
    ],
)
def test_a_canary_has_one_replica_beside_the_good_ones(replicas, known, trial, said):
    plan = decide(see(*replicas, rollout=2, trial=trial, **known), NOW)
    told = {"start": plan.start, "drain": plan.drain, "back": plan.back and plan.back.kind}
    told |= {name: getattr(plan, name) for name in ("start_canary", "begin_trial", "end_trial")}
    assert {name: value for name, value in told.items() if value} == said and not plan.promote


def test_crashes_in_a_row_back_off_until_the_revision_has_failed():
    crashes, waits = 0, []
    for _ in range(4):
        crashes, wait = count_crash(crashes, 0.0)
        waits.append(wait)
    assert waits == [*BACK_OFF, None]
    assert count_crash(3, STABLE_S) == (1, BACK_OFF[0])


moments = st.sampled_from(AGES).map(lambda age: None if age is None else NOW - age)
replicas = st.builds(
    ReplicaSeen, st.integers(1, 99), st.sampled_from([1, 2]), st.booleans(), st.integers(0, 20), moments
)
answered = st.builds(
    Answered,
    st.builds(Traffic, st.integers(30, 60), st.integers(0, 30), st.just({})),
    st.builds(Traffic, st.integers(0, 300), st.just(0), st.just({})),
)
trials = st.builds(
    Trial, st.just(Canary(for_s=60)), moments, st.none() | st.lists(answered, max_size=2).map(tuple), moments
)


def with_trial(seen: ServiceSeen, trial: Trial | None) -> ServiceSeen:
    return replace(seen, trial=trial if seen.rollout else None)


services = st.builds(
    ServiceSeen,
    serving=st.builds(
        Serving,
        port=st.just(8000),
        replicas=st.tuples(st.integers(0, 2), st.integers(2, 5)),
        target=st.integers(1, 9),
        idle_s=st.sampled_from([30, 600]),
    ),
    current=st.just(1),
    rollout=st.sampled_from([None, 2]),
    stopped=st.booleans(),
    woken_at=moments,
    busy_at=moments,
    low_since=moments,
    in_flight=st.none() | st.integers(0, 60),
    replicas=st.lists(replicas, max_size=6, unique_by=lambda one: one.pk).map(tuple),
    retry_at=st.none() | st.just(ago(-5)),
    failed=st.booleans(),
)
services = st.builds(with_trial, services, st.none() | trials)


@given(services)
def test_whatever_is_seen(seen):
    plan = decide(seen, NOW)
    least, most = seen.serving.replicas
    mine = {one.pk for one in seen.replicas if one.revision == seen.scaled and one.draining_at is None}
    left = len(mine - set(plan.drain))
    assert left + len(plan.start) <= max(most, left)
    assert not (plan.start and set(plan.drain) & mine)
    if not seen.stopped:
        assert left >= min(least, len(mine))
        if seen.in_flight is None:
            assert left >= min(len(mine), most)  # silence never scales down
        if seen.in_flight and not (seen.failed or seen.retry_at):
            assert left + len(plan.start) >= 1
    ready = {one.pk for one in seen.replicas if one.ready and one.revision == seen.current and one.draining_at is None}
    if seen.rollout and not plan.promote and not seen.stopped:
        assert not ready & set(plan.drain)  # the good revision stays
    if seen.trial:
        canary = {one.pk for one in seen.replicas if one.revision == seen.rollout and one.draining_at is None}
        assert len(canary - set(plan.drain)) + plan.start_canary <= 1 and not plan.promote
        assert plan.back is None or not (canary - set(plan.drain) or plan.start_canary or plan.end_trial)
    assert set(plan.end) <= {one.pk for one in seen.replicas if one.draining_at is not None}


@given(services, st.lists(st.integers(0, 60), min_size=1, max_size=6))
def test_it_comes_to_rest_at_what_is_needed(seen, loads):
    """Whatever happened before: with steady requests and ready replicas, it has what they need, and keeps it."""
    seen, now = replace(seen, failed=False, retry_at=None, stopped=False), NOW
    if seen.trial:
        seen = replace(seen, trial=replace(seen.trial, answered=seen.trial.answered or (), retry_at=None))
    for load in [*loads, *[loads[-1]] * 40]:
        now += timedelta(seconds=30)
        plan = decide(replace(seen, in_flight=load), now)
        seen = carry_out(seen, plan, now)
    least, most = seen.serving.replicas
    needed = min(max(least, -(-loads[-1] // seen.serving.target)), most)
    if not needed and seen.trial and seen.trial.since is None:
        return  # the canary was not ready once before it fell asleep: the next requests are its trial
    assert seen.rollout is None
    assert [one.revision for one in seen.replicas] == [seen.current] * needed


def carry_out(seen: ServiceSeen, plan, now: datetime) -> ServiceSeen:
    left = [one for one in seen.replicas if one.pk not in plan.end]
    left = [
        replace(one, draining_at=now, in_flight=0) if one.pk in plan.drain else replace(one, in_flight=0)
        for one in left
    ]
    first = max((one.pk for one in left), default=100) + 1
    left = [replace(one, ready=True) for one in left]
    left += [ReplicaSeen(first + n, seen.scaled, False) for n in range(len(plan.start))]
    if plan.start_canary:
        left.append(ReplicaSeen(first + len(plan.start), seen.rollout, False))
    current, rollout = (seen.scaled, None) if plan.promote else (seen.current, seen.rollout)
    rollout = None if plan.back else rollout
    trial = None if plan.back or plan.end_trial else seen.trial
    if trial and plan.begin_trial:
        trial = replace(trial, since=now)
    woken_at = seen.woken_at if plan.awake else None
    kept = {"busy_at": plan.busy_at, "low_since": plan.low_since, "woken_at": woken_at}
    return replace(seen, replicas=tuple(left), current=current, rollout=rollout, trial=trial, **kept)
