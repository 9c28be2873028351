"""Rules that stop jobs: after a warning that reached the owner, and never what is well again or not known."""

from datetime import timedelta

import pytest
from django.utils import timezone

from common.errors import Conflict, InvalidInput
from events.models import Event, Notice
from jobs.states import JobState
from monitoring.alerts.actions import act_on_alerts, confirm_action, undo_action
from monitoring.alerts.round import judge_alerts
from monitoring.alerts.services import acknowledge_alert, check_rule
from monitoring.alerts.stopping import WARNING, find_stop
from monitoring.models import Alert, AlertRule, AlertState
from portal.wording.events import describe_event
from portal.wording.notices import view_notice
from tests import make

NOW = timezone.now()
STOPS = {"subject": "job", "metric": "waiting_s", "comparison": "at_least", "audience": ["owner", "admin"]}


def warned(**fields) -> Alert:
    usual = {"state": "FIRING", "acts": "warned", "acts_at": NOW}
    return Alert(rule=AlertRule(**STOPS, threshold=60, action="stop_job"), **{**usual, **fields})


@pytest.mark.parametrize(
    ("fields", "reached", "do"),
    [
        ({}, NOW - WARNING, "stop"),
        ({}, NOW - WARNING + timedelta(seconds=1), ""),
        ({}, None, "ask"),
        ({"acts_at": NOW + timedelta(seconds=1)}, NOW - WARNING, ""),
        ({"acts_at": NOW + timedelta(seconds=1)}, None, ""),
        ({"state": "RESOLVED"}, NOW - WARNING, "call_off"),
        ({"acknowledged_at": NOW - timedelta(minutes=1)}, NOW - WARNING, "call_off"),
        ({"acknowledged_at": NOW - WARNING - timedelta(minutes=1)}, NOW - WARNING, "stop"),
        ({"state": "NO_DATA"}, NOW - WARNING, "warn_anew"),
    ],
)
def test_a_job_is_stopped_only_after_a_warning_that_reached_its_owner(fields, reached, do):
    assert find_stop(warned(**fields), reached, NOW) == do


def test_a_rule_that_stops_nothing_any_more_calls_it_off():
    alert = warned()
    alert.rule.action = ""
    assert find_stop(alert, NOW - WARNING, NOW) == "call_off"


@pytest.fixture
def world(db):
    cast = make.cast()
    cast.rita = make.admin()
    judge_alerts({})
    AlertRule.objects.update(enabled=False)
    cast.job = make.job(cast.ada, gpu="1", pool="train", name="train me")
    cast.rule = AlertRule.objects.create(**STOPS, name="too long", threshold=1e-9, clear_for_s=0, action="stop_job")
    return cast


def look() -> Alert:
    judge_alerts({})
    return Alert.objects.get()


def pass_warning(alert: Alert, *, reached: bool = True) -> None:
    """Half an hour goes by after the warning."""
    was = alert.acts_at.isoformat()
    due = alert.acts_at - WARNING - timedelta(seconds=1)
    Alert.objects.filter(pk=alert.pk).update(acts_at=due)
    notice = Notice.objects.get(kind="stop_warned", params__at=was)
    notice.params["at"] = due.isoformat()
    notice.read_at = due - WARNING if reached else None
    notice.save()


def test_the_owner_is_warned_and_the_job_is_stopped_later(world):
    alert = look()
    assert (alert.state, alert.acts) == ("FIRING", "warned") and alert.acts_at > timezone.now() + WARNING / 2
    notice = Notice.objects.get(kind="stop_warned")
    assert (notice.user_id, notice.label) == (world.ada.pk, world.job.public_id) and notice.due_at is not None
    assert "“too long” fires" in view_notice(notice).text and "train me" in view_notice(notice).title
    assert look().acts == "warned"
    pass_warning(alert)
    look()
    world.job.refresh_from_db()
    assert (world.job.state, world.job.reason) == (JobState.CANCELLED, "alert")
    verbs = list(Event.objects.filter(kind="alert").exclude(verb="state").order_by("id").values_list("verb", flat=True))
    assert verbs == ["warned", "stopped"] and Alert.objects.get().acts == "done"
    (told,) = Event.objects.filter(kind="job", verb="stop_warned")
    assert told.actor == "alerts" and "An alert rule stops the job at" in describe_event(told)
    undo_action(actor=world.rita, alert=alert)
    world.job.refresh_from_db()
    assert world.job.state == JobState.QUEUED
    with pytest.raises(Conflict):
        undo_action(actor=world.rita, alert=alert)


def test_a_warning_that_reached_nobody_asks_an_admin_who_may_stop_at_once(world):
    pass_warning(look(), reached=False)
    alert = look()
    assert alert.acts == "asks" and look().acts == "asks"
    world.job.refresh_from_db()
    assert world.job.state == JobState.QUEUED
    confirm_action(actor=world.rita, alert=alert)
    world.job.refresh_from_db()
    assert world.job.state == JobState.CANCELLED


@pytest.mark.parametrize("by", ["ada", "rita"])
def test_who_acknowledges_it_keeps_the_job(world, by):
    alert = look()
    acknowledge_alert(actor=getattr(world, by), alert=alert)
    pass_warning(alert)
    for _ in range(2):
        assert look().acts == "undone"
    world.job.refresh_from_db()
    assert world.job.state == JobState.QUEUED and Event.objects.filter(verb="stop_called_off").count() == 1


def test_who_acknowledged_it_before_an_admin_had_it_stopped_may_do_so_again(world):
    AlertRule.objects.filter(pk=world.rule.pk).update(action="")
    alert = look()
    acknowledge_alert(actor=world.ada, alert=alert)
    AlertRule.objects.filter(pk=world.rule.pk).update(action="stop_job")
    Alert.objects.update(acts="asks", acknowledged_at=timezone.now() - timedelta(hours=2))
    confirm_action(actor=world.rita, alert=alert)
    assert Alert.objects.get().acts == "warned" and look().acts == "warned"
    acknowledge_alert(actor=world.ada, alert=alert)
    assert look().acts == "undone"


def test_what_is_well_again_is_not_stopped(world):
    alert = look()
    pass_warning(alert)
    AlertRule.objects.filter(pk=world.rule.pk).update(threshold=1e9)
    alert = look()
    assert (alert.state, alert.acts) == (AlertState.RESOLVED, "undone")
    world.job.refresh_from_db()
    assert world.job.state == JobState.QUEUED


def test_what_is_not_known_is_not_stopped_and_warned_of_anew(world, monkeypatch):
    alert = look()
    pass_warning(alert)
    with monkeypatch.context() as broken:
        broken.setattr("monitoring.alerts.round.load_readings", lambda *_: {})
        alert = look()
    assert (alert.state, alert.acts, alert.acts_at) == (AlertState.NO_DATA, "", None)
    alert = look()
    assert (alert.acts, Notice.objects.filter(kind="stop_warned").count()) == ("warned", 2)


def test_an_admin_calls_it_off(world):
    alert = look()
    undo_action(actor=world.rita, alert=alert)
    pass_warning(alert)
    assert look().acts == "undone"
    world.job.refresh_from_db()
    assert world.job.state == JobState.QUEUED


def test_beyond_two_jobs_an_hour_it_asks(world):
    for _ in range(2):
        make.job(world.ada, gpu="1", pool="train")
    judge_alerts({})
    assert sorted(Alert.objects.values_list("acts", flat=True)) == ["asks", "warned", "warned"]
    alert = Alert.objects.get(acts="asks")
    confirm_action(actor=world.rita, alert=alert)
    alert.refresh_from_db()
    assert alert.acts == "warned" and alert.acts_at is not None


def test_a_job_that_holds_more_than_a_tenth_of_a_pool_is_not_stopped_unasked(world):
    AlertRule.objects.filter(pk=world.rule.pk).update(enabled=False)
    job = make.job(world.bob, gpu="1/4", pool="dev")
    make.start(job, world.gpus[0])
    rule = AlertRule.objects.create(
        **STOPS | {"metric": "gpu_busy_percent", "name": "x"}, threshold=1, action="stop_job"
    )
    Alert.objects.create(
        rule=rule, subject_id=job.pk, label=job.public_id, state="FIRING", since=NOW, judged_at=NOW, told_at=NOW
    )
    act_on_alerts()
    assert Alert.objects.get(rule=rule).acts == "asks"


def test_only_rules_about_jobs_stop_jobs_and_their_owner_is_told():
    for wrong, code in (
        ({"subject": "card", "metric": "temperature_c"}, "stop_without_job"),
        ({"audience": ["admin"]}, "action_untold"),
        ({"action": "drain_node"}, "action_without_machine"),
    ):
        rule = AlertRule(**{**STOPS, "threshold": 60, "name": "x", "action": "stop_job", **wrong})
        with pytest.raises(InvalidInput) as no:
            check_rule(rule)
        assert code in [one.code for one in no.value.errors]
