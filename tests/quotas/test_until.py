"""Quotas until a moment: what returns, when, and what somebody does meanwhile."""

from datetime import UTC, datetime, timedelta

import pytest

from common.errors import InvalidInput, NotPermitted
from events.models import Event, Notice
from events.record_and_publish import SYSTEM
from jobs.states import TaskState
from quotas.models import Quota
from quotas.services import delete_quota, end_until, return_due_quotas, save_quota, save_quotas
from quotas.until import list_moments, plan_return, quota_at
from scheduler.tasks import return_quotas
from tests import make

FRIDAY = datetime(2030, 1, 4, 18, tzinfo=UTC)
MONDAY = FRIDAY + timedelta(days=3)


def amounts(limit: int | None = 4000, guarantee: int = 0, **fields) -> Quota:
    return Quota(gpu_milli_limit=limit, gpu_milli_guarantee=guarantee, **fields)


def planned(now: Quota, before: Quota | None, until) -> tuple:
    assert plan_return(now, before, until) == []
    return now.until, now.then


def test_what_is_changed_until_a_moment_returns_to_what_it_was():
    assert planned(amounts(6000), amounts(4000), FRIDAY) == (FRIDAY, {"gpu_milli_limit": 4000})


def test_a_second_change_keeps_what_it_was_first_and_moves_the_moment():
    before = amounts(6000, until=FRIDAY, then={"gpu_milli_limit": 4000})
    assert planned(amounts(8000, 1000), before, MONDAY) == (
        MONDAY,
        {"gpu_milli_limit": 4000, "gpu_milli_guarantee": 0},
    )


def test_what_is_changed_without_a_moment_lasts_and_the_rest_returns():
    before = amounts(6000, 1000, until=FRIDAY, then={"gpu_milli_limit": 4000, "gpu_milli_guarantee": 0})
    assert planned(amounts(5000, 1000), before, None) == (FRIDAY, {"gpu_milli_guarantee": 0})
    assert planned(amounts(5000, 2000), before, None) == (None, None)


def test_other_fields_leave_alone_what_returns():
    before = amounts(6000, until=FRIDAY, then={"gpu_milli_limit": 4000})
    assert planned(amounts(6000, weight=3), before, None) == (FRIDAY, {"gpu_milli_limit": 4000})


def test_what_is_put_back_by_hand_does_not_return():
    before = amounts(6000, until=FRIDAY, then={"gpu_milli_limit": 4000})
    assert planned(amounts(4000), before, FRIDAY) == (None, None)


def test_all_that_was_to_return_is_kept():
    before = amounts(6000, until=FRIDAY, then={"gpu_milli_limit": 4000})
    assert planned(amounts(6000), before, "kept") == (None, None)


def test_a_new_quota_until_a_moment_ends_then_unless_it_is_changed_to_last():
    assert planned(amounts(), None, FRIDAY) == (FRIDAY, None)
    before = amounts(until=FRIDAY)
    assert planned(amounts(), before, None) == (FRIDAY, None)
    assert planned(amounts(5000), before, None) == (None, None)
    assert planned(amounts(5000), before, MONDAY) == (MONDAY, None)


def test_a_moment_without_a_change_is_refused_unless_it_moves_another():
    (error,) = plan_return(amounts(), amounts(), FRIDAY)
    assert (error.pointer, error.code) == ("/until", "nothing_until")
    before = amounts(6000, until=FRIDAY, then={"gpu_milli_limit": 4000})
    assert planned(amounts(6000), before, MONDAY) == (MONDAY, {"gpu_milli_limit": 4000})


def test_a_quota_is_known_at_each_moment():
    quota = amounts(6000, until=FRIDAY, then={"gpu_milli_limit": 4000})
    before, at = FRIDAY - timedelta(seconds=1), FRIDAY
    assert [quota_at(quota, moment).gpu_milli_limit for moment in (None, before, at)] == [6000, 6000, 4000]
    assert quota_at(amounts(until=FRIDAY), FRIDAY) is None and quota.gpu_milli_limit == 6000
    assert list_moments([quota, amounts(), amounts(until=MONDAY), amounts(until=FRIDAY)]) == [FRIDAY, MONDAY]


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture
def root(cast):
    return make.admin()


@pytest.fixture
def now():
    return datetime.now(UTC)


@pytest.fixture
def quota(cast) -> Quota:
    Quota.objects.filter(team=cast.nlp, pool=cast.dev).update(gpu_milli_limit=1000)
    return Quota.objects.select_related("team", "pool").get(team=cast.nlp, pool=cast.dev)


def raise_until(quota: Quota, root, until, limit: int = 2000) -> Quota:
    quota.gpu_milli_limit = limit
    return save_quota(actor=root, quota=quota, until=until)


def make_due(quota: Quota, now: datetime) -> None:
    Quota.objects.filter(pk=quota.pk).update(until=now - timedelta(seconds=1))


def stored(quota: Quota) -> tuple:
    quota.refresh_from_db()
    return quota.gpu_milli_limit, quota.until, quota.then


def test_it_returns_by_itself_once_and_says_so(cast, root, quota, now):
    until = now + timedelta(days=2)
    raise_until(quota, root, until)
    assert return_due_quotas() == 0 and stored(quota) == (2000, until, {"gpu_milli_limit": 1000})
    make_due(quota, now)
    return_quotas()
    assert stored(quota) == (1000, None, None) and return_due_quotas() == 0
    first, then = Event.objects.filter(kind="quota").order_by("id")
    assert (first.verb, first.params["until"], first.actor) == ("quota.changed", until.isoformat(), "rita")
    assert (then.verb, then.actor, then.actor_id) == ("quota.returned", SYSTEM.name, None)
    assert then.params == {"from": {"gpu_milli_limit": 2000}, "to": {"gpu_milli_limit": 1000}}
    assert [notice.user_id for notice in Notice.objects.filter(kind="quota_changed")] == [cast.bob.pk] * 2


def test_what_runs_beyond_it_goes_on(cast, root, quota, now):
    raise_until(quota, root, now + timedelta(days=1))
    tasks = make.start(make.job(cast.ada, gpu=1, pool="dev"))
    Quota.objects.filter(pk=quota.pk).update(then={"gpu_milli_limit": 500})
    make_due(quota, now)
    assert return_due_quotas() == 1 and stored(quota)[0] == 500
    for task in tasks:
        task.refresh_from_db()
    assert {task.state for task in tasks} == {TaskState.RUNNING}


def test_a_later_change_cancels_it(root, quota, now):
    raise_until(quota, root, now + timedelta(days=1))
    raise_until(quota, root, None, limit=1500)
    assert stored(quota) == (1500, None, None)


def test_a_stale_row_does_not_bring_back_what_was_cancelled(root, quota, now):
    raise_until(quota, root, now + timedelta(days=1))
    stale = Quota.objects.select_related("team", "pool").get(pk=quota.pk)
    save_quota(actor=root, quota=quota, until="kept")
    stale.weight = 3
    save_quota(actor=root, quota=stale)
    assert stored(quota) == (2000, None, None)
    assert [event.verb for event in Event.objects.filter(kind="quota").order_by("id")] == [
        "quota.changed",
        "quota.kept",
        "quota.changed",
    ]


def test_a_new_quota_ends_at_its_moment(cast, root, now):
    robots = make.team("robots")
    quota = save_quota(actor=root, quota=Quota(team=robots, pool=cast.dev), until=now + timedelta(days=1))
    make_due(quota, now)
    return_due_quotas()
    assert not Quota.objects.filter(team=robots).exists()
    assert Event.objects.filter(kind="quota", actor=SYSTEM.name, verb="quota.deleted").count() == 1


def test_a_deleted_quota_does_not_return(root, quota, now):
    raise_until(quota, root, now + timedelta(days=1))
    delete_quota(actor=root, quota=quota)
    assert return_due_quotas() == 0 and not Quota.objects.filter(team=quota.team, pool=quota.pool).exists()


def test_it_is_let_return_at_once_by_an_admin_and_nobody_else(cast, root, quota, now):
    raise_until(quota, root, now + timedelta(days=1))
    with pytest.raises(NotPermitted):
        end_until(actor=cast.bob, quota=quota)
    end_until(actor=root, quota=quota)
    assert stored(quota) == (1000, None, None) and Event.objects.get(verb="quota.returned").actor == "rita"
    end_until(actor=root, quota=quota)
    assert Event.objects.filter(verb="quota.returned").count() == 1


@pytest.mark.parametrize(("days", "code"), [(-1, "until_past"), (0, "until_past"), (367, "until_too_far")])
def test_a_moment_that_cannot_be_is_refused(root, quota, now, days, code):
    with pytest.raises(InvalidInput) as no:
        raise_until(quota, root, now + timedelta(days=days))
    assert [(one.pointer, one.code) for one in no.value.errors] == [("/until", code)]
    assert stored(quota) == (1000, None, None)


def test_what_one_team_lends_another_until_a_moment_fits_then_too(cast, root, now):
    """The pool has one card, all guaranteed to nlp."""
    friday, later = now + timedelta(days=3), now + timedelta(days=5)
    nlp, vision = (
        Quota.objects.select_related("team", "pool").get(team=team, pool=cast.dev) for team in (cast.nlp, cast.vision)
    )
    nlp.gpu_milli_guarantee = 1000
    save_quota(actor=root, quota=nlp)
    nlp.gpu_milli_guarantee, vision.gpu_milli_guarantee = 500, 500
    for vision_until in (None, later):
        with pytest.raises(InvalidInput) as no:
            save_quotas(actor=root, quotas=[nlp, vision], until=[friday, vision_until])
        places = {(one.pointer, one.code, one.params["at"]) for one in no.value.errors}
        assert places == {
            ("/0/gpu_milli_guarantee", "clash_at_return", friday.timestamp()),
            ("/1/gpu_milli_guarantee", "clash_at_return", friday.timestamp()),
        }
    save_quotas(actor=root, quotas=[nlp, vision], until=[friday, friday])
    Quota.objects.filter(pool=cast.dev).update(until=now)
    assert return_due_quotas() == 2
    guarantees = dict(Quota.objects.filter(pool=cast.dev).values_list("team__name", "gpu_milli_guarantee"))
    assert guarantees == {"nlp": 1000, "vision": 0}


def test_what_lasts_may_not_take_what_returns_to_another(cast, root, now):
    nlp = Quota.objects.select_related("team", "pool").get(team=cast.nlp, pool=cast.dev)
    nlp.gpu_milli_guarantee = 1000
    save_quota(actor=root, quota=nlp)
    nlp.gpu_milli_guarantee = 0
    save_quota(actor=root, quota=nlp, until=now + timedelta(days=1))
    vision = Quota.objects.select_related("team", "pool").get(team=cast.vision, pool=cast.dev)
    vision.gpu_milli_guarantee = 500
    with pytest.raises(InvalidInput) as no:
        save_quota(actor=root, quota=vision)
    assert [(one.pointer, one.code) for one in no.value.errors] == [("/gpu_milli_guarantee", "clash_at_return")]
