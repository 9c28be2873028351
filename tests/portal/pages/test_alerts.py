"""The page of alerts: who sees what, and what is done there."""

from datetime import timedelta

import pytest
from django.utils import timezone

from monitoring.models import Alert, AlertRound, AlertRule, Silence
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def same_origin(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"


@pytest.fixture
def cast():
    cast = make.cast()
    cast.rita = make.admin()
    cast.job_alert = make.alert(
        "low_activity",
        "job-412",
        value=3.5,
        owners=[cast.ada.pk],
        teams=[cast.nlp.pk],
        told={f"user:{cast.ada.pk}": ""},
    )
    cast.node_alert = make.alert("node_lost", "n1", value=130, node=cast.node)
    AlertRound.objects.create(pk=1, at=timezone.now())
    return cast


def read(person) -> str:
    return browser(person).get("/alerts/").content.decode()


def test_who_it_concerns_sees_it_with_value_time_and_who_was_told(cast):
    page = read(cast.ada)
    assert "Job hardly uses its GPUs" in page and "3.5 %" in page and "/j/job-412/" in page and "you" in page
    assert "Machine is silent" not in page
    assert "job-412" in read(cast.bob)  # the lead
    assert "ada" in read(cast.rita) and "Machine is silent" in read(cast.rita)
    assert "All quiet" in read(cast.eve) and "job-412" not in read(cast.eve)


def test_what_fires_is_counted_beside_the_page_until_it_is_acknowledged(cast):
    for person, count in ((cast.ada, 1), (cast.rita, 2), (cast.eve, 0)):
        page = browser(person).get("/alerts/").content.decode()
        assert ("side-count" in page) == (count > 0), person
    assert browser(cast.ada).post(f"/alerts/{cast.job_alert.pk}/acknowledge").status_code == 302
    cast.job_alert.refresh_from_db()
    assert cast.job_alert.acknowledged_by == "ada"
    assert "side-count" not in read(cast.ada) and "acknowledged by ada" in read(cast.ada)


def test_only_admins_answer_for_machines(cast):
    Alert.objects.filter(pk=cast.node_alert.pk).update(owners=[cast.ada.pk])
    assert browser(cast.ada).post(f"/alerts/{cast.node_alert.pk}/acknowledge").status_code == 403
    assert browser(cast.rita).post(f"/alerts/{cast.node_alert.pk}/acknowledge").status_code == 302


def test_a_silence_needs_a_reason_and_is_for_oneself_unless_one_is_an_admin(cast):
    path = f"/alerts/{cast.job_alert.pk}/silence"
    browser(cast.ada).post(path, {"hours": "4", "reason": " "})
    assert not Silence.objects.exists()
    browser(cast.ada).post(path, {"hours": "4", "reason": "a known bug"})
    own = Silence.objects.get()
    assert (own.rule, own.label, own.for_all) == (cast.job_alert.rule, "job-412", False)
    assert "silenced: a known bug" in read(cast.ada) and "silenced" not in read(cast.bob)
    browser(cast.rita).post(path, {"hours": "1", "reason": "for all"})
    assert "silenced: for all" in read(cast.bob)
    assert browser(cast.bob).post(f"/alerts/silences/{own.pk}/end").status_code == 404
    assert browser(cast.ada).post(f"/alerts/silences/{own.pk}/end").status_code == 302
    assert Silence.objects.filter(until__gt=timezone.now()).count() == 1


def test_an_engine_that_is_late_is_the_first_alert(cast):
    AlertRound.objects.update(at="2026-01-01T00:00Z")
    assert "have not been judged for" in read(cast.eve)


def test_an_action_is_confirmed_and_undone_by_one_click(cast):
    rule = cast.node_alert.rule
    rule.action = "cordon_node"
    rule.save()
    Alert.objects.filter(pk=cast.node_alert.pk).update(acts="asks")
    assert "Cordon n1" in read(cast.rita)
    browser(cast.rita).post(f"/alerts/{cast.node_alert.pk}/act")
    cast.node.refresh_from_db()
    assert cast.node.state == "CORDONED" and "n1 back into service" in read(cast.rita)
    browser(cast.rita).post(f"/alerts/{cast.node_alert.pk}/undo")
    cast.node.refresh_from_db()
    assert cast.node.state == "READY"


def test_a_planned_stop_is_told_on_the_jobs_page_where_it_is_prevented(cast):
    job = make.job(cast.ada, gpu="1", pool="train")
    AlertRule.objects.filter(pk=cast.job_alert.rule_id).update(action="stop_job")
    alert = Alert.objects.filter(pk=cast.job_alert.pk)
    alert.update(acts="warned", acts_at=timezone.now() + timedelta(minutes=30), subject_id=job.pk, label=job.public_id)
    page = f"/j/{job.public_id}/"

    def told(person) -> bool:
        return "The job is stopped at" in browser(person).get(page).content.decode()

    assert told(cast.ada) and not told(make.user("ben", cast.nlp))
    answer = browser(cast.ada).post(f"/alerts/{cast.job_alert.pk}/acknowledge", {"next": page})
    assert (answer.status_code, answer["Location"]) == (302, page) and alert.get().acknowledged_by == "ada"


def test_the_stop_of_a_job_is_told_confirmed_and_called_off_by_one_click(cast):
    job = make.job(cast.ada, gpu="1", pool="train")
    AlertRule.objects.filter(pk=cast.job_alert.rule_id).update(action="stop_job")
    alert = Alert.objects.filter(pk=cast.job_alert.pk)
    alert.update(acts="asks", subject_id=job.pk, label=job.public_id)
    assert f"Warn, then stop {job.public_id}" in read(cast.rita) and "Warn, then" not in read(cast.ada)
    browser(cast.rita).post(f"/alerts/{cast.job_alert.pk}/act")
    assert alert.get().acts == "warned" and "the job is stopped at" in read(cast.ada)
    assert f"Do not stop {job.public_id}" in read(cast.rita) and "Do not stop" not in read(cast.ada)
    browser(cast.rita).post(f"/alerts/{cast.job_alert.pk}/undo")
    assert alert.get().acts == "undone" and "the job is stopped at" not in read(cast.ada)
    alert.update(acts="done")
    assert f"Queue {job.public_id} again" in read(cast.rita)
