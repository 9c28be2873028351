"""Schedules are made, changed, suspended and deleted by whom may, and refused with the field that is wrong."""

from datetime import timedelta

import pytest

from common.errors import Impossible, InvalidInput, NameTaken, NotFound, NotPermitted, QuotaExceeded
from events.models import Event
from scheduler.preview.preview import check_possible
from schedules import services
from schedules.models import Schedule
from schedules.services import (
    ask_for_run,
    change_schedule,
    delete_schedule,
    find_schedule,
    resume_schedule,
    suspend_schedule,
)
from tests import make
from tests.schedules.conftest import FILE, NOON, new_schedule

pytestmark = pytest.mark.django_db


def change(person, schedule, **changes) -> Schedule:
    return change_schedule(actor=person, schedule=schedule, check=check_possible, containers=True, **changes)


def errors_of(refused) -> list[tuple[str, str]]:
    return [(error.pointer, error.code) for error in refused.value.errors]


@pytest.mark.parametrize(
    ("values", "errors"),
    [
        ({"cron": "daily"}, [("/cron", "bad_cron")]),
        ({"zone": "Berlin"}, [("/zone", "unknown_zone")]),
        ({"name": ""}, [("/name", "required")]),
        ({"overlap": "both"}, [("/overlap", "unknown_value")]),
        ({"missed": "twice"}, [("/missed", "unknown_value")]),
        ({"keep": 0}, [("/keep", "out_of_range")]),
        ({"until": NOON}, [("/until", "until_has_passed")]),
        ({"job_file": "gpu: 1\n"}, [("/job_file/run", "required")]),
        ({"job_file": "run: [\n"}, [("/job_file", "yaml_syntax")]),
        ({"job_file": FILE.replace("dev", "gone")}, [("/job_file/pool", "unknown_pool")]),
        ({"job_file": FILE.replace("nlp", "vision")}, [("/job_file/team", "unknown_team")]),
        ({"job_file": FILE + "start_at: 2027-06-01T00:00Z\n"}, [("/job_file/start_at", "start_at_in_schedule")]),
        ({"job_file": FILE + "code: .\n"}, [("/job_file/code", "code_not_uploaded")]),
        ({"cron": "x", "zone": "y"}, [("/cron", "bad_cron"), ("/zone", "unknown_zone")]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_its_field(cast, clock, values, errors):
    with pytest.raises(InvalidInput) as refused:
        new_schedule(cast.ada, **values)
    assert errors_of(refused) == errors
    assert not Schedule.objects.exists()


def test_a_job_that_could_never_run_is_refused_at_once(cast):
    with pytest.raises(Impossible):
        new_schedule(cast.ada, job_file=FILE.replace("1/4", "64"))


def test_jobs_of_after_are_looked_for_at_each_run_only(cast):
    assert new_schedule(cast.ada, job_file=FILE + "after: prepare\n").next_at


def test_names_are_ones_own(cast):
    new_schedule(cast.ada)
    new_schedule(cast.bob)
    with pytest.raises(NameTaken):
        new_schedule(cast.ada)
    other = new_schedule(cast.ada, name="other")
    with pytest.raises(NameTaken):
        change(cast.ada, other, name="nightly")


def test_there_is_a_most(cast, monkeypatch):
    monkeypatch.setattr(services, "MOST_SCHEDULES", 1)
    new_schedule(cast.ada)
    with pytest.raises(QuotaExceeded):
        new_schedule(cast.ada, name="other")


def test_the_same_request_makes_one(cast):
    made = [new_schedule(cast.ada, key="once", body=b"1") for _ in range(2)]
    assert made[0] == made[1] == Schedule.objects.get()


def test_a_change_moves_the_next_time_and_the_team(cast, clock):
    make.add_member(user=cast.ada, team=cast.vision)
    schedule = new_schedule(cast.ada)
    assert change(cast.ada, schedule, zone="Asia/Shanghai").next_at.hour == 18
    assert change(cast.ada, schedule, job_file=FILE.replace("nlp", "vision")).team == cast.vision
    told = Event.objects.filter(kind="schedule").order_by("pk")
    assert [(event.verb, event.actor) for event in told] == [
        ("created", "ada"), ("changed", "ada"), ("file_changed", "ada"),
    ]  # fmt: skip
    assert told[1].params == {"from": {"zone": "UTC"}, "to": {"zone": "Asia/Shanghai"}}


def test_a_change_of_one_that_is_suspended_does_not_wake_it(cast, clock):
    schedule = new_schedule(cast.ada)
    suspend_schedule(actor=cast.ada, schedule=schedule)
    assert change(cast.ada, schedule, cron="0 4 * * *").next_at is None


def test_one_whose_last_time_has_passed_may_be_renamed(cast, clock):
    schedule = new_schedule(cast.ada, until=NOON + timedelta(days=1))
    clock(NOON + timedelta(days=2))
    Schedule.objects.update(next_at=None)
    assert change(cast.ada, schedule, name="old").state == "ended"


def test_its_lead_and_an_admin_may_suspend_resume_and_delete_but_not_change_or_run(cast):
    for person in (cast.bob, make.admin()):
        schedule = new_schedule(cast.ada)
        assert suspend_schedule(actor=person, schedule=schedule).state == "suspended"
        assert resume_schedule(actor=person, schedule=schedule).state == "active"
        with pytest.raises(NotPermitted):
            change(person, schedule, cron="0 4 * * *")
        with pytest.raises(NotPermitted):
            ask_for_run(actor=person, schedule=schedule)
        delete_schedule(actor=person, schedule=schedule)


def test_a_colleague_sees_it_and_a_stranger_does_not(cast):
    schedule, colleague = new_schedule(cast.ada), make.user("cleo", cast.nlp)
    assert find_schedule(colleague, schedule.public_id) == schedule
    for refused in (suspend_schedule, delete_schedule):
        with pytest.raises(NotPermitted):
            refused(actor=colleague, schedule=schedule)
    for wrong in (schedule.public_id, "sch-0", "nonsense"):
        with pytest.raises(NotFound):
            find_schedule(cast.eve, wrong)


def test_who_left_the_team_has_no_say_any_more(cast):
    schedule = new_schedule(cast.ada)
    cast.ada.memberships.all().delete()
    with pytest.raises(NotPermitted):
        ask_for_run(actor=cast.ada, schedule=schedule)
