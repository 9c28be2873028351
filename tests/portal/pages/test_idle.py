"""What is held and idle: whose it is, what follows, and what may be done about it, for each person their part."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from events.models import Event, Notice
from jobs.models import Job
from monitoring.idle.rungs import Rung
from monitoring.models import Exemption, IdleTold, IdleWatch
from tests import make
from tests.monitoring.idle.world import run_for

pytestmark = pytest.mark.django_db
ORIGIN = {"Origin": settings.TESSERA_PUBLIC_URL}
SEEN = {"gpu_percent": 0.0, "cpu_percent": 1.0, "gpu_mib": 4000, "held": True}


@pytest.fixture
def cast():
    cast = make.cast()
    cast.job = make.job(cast.ada, name="explore", gpu="1/4", pool="dev")
    make.start(cast.job)
    run_for(cast.job, 90)
    now = timezone.now()
    plan = [[int(Rung.ACTED), (now + timedelta(minutes=9)).isoformat()]]
    cast.watch = IdleWatch.objects.create(
        job=cast.job, since=now - timedelta(minutes=51), looked_at=now, finding="idle", evidence=SEEN, then="stop",
        rung=Rung.WARNED, rung_at=now, plan=plan,
    )  # fmt: skip
    IdleTold.objects.create(watch=cast.watch, ladder=1, rung=Rung.WARNED, user=cast.ada)
    return cast


@pytest.fixture
def look(client):
    def look(person, path="/idle/"):
        client.force_login(person)
        return client.get(path).content.decode()

    return look


@pytest.fixture
def post(client, cast):
    def post(person, action, **fields):
        client.force_login(person)
        return client.post(
            f"/idle/{cast.job.public_id}/{action}", {"next": "/idle/", **fields}, follow=True, headers=ORIGIN
        )

    return post


def test_its_owner_sees_what_was_seen_and_what_follows(cast, look):
    page = look(cast.ada)
    assert "explore" in page and "51 min" in page and "GPU 0 %, CPU 1 %" in page and "stopped at" in page
    assert "¼ of ¼ GPU that is held is idle." in page and "Ask ada" not in page and "Exempt…" not in page


def test_a_stranger_sees_whose_it_is_and_not_what(cast, look):
    page = look(cast.eve)
    assert "ada · nlp" in page and "explore" not in page and "CPU 1 %" not in page and "/snooze" not in page


def test_by_policy_a_stranger_sees_that_something_is_idle_and_not_whose(cast, look, settings):
    settings.TESSERA_VISIBILITY = "team"
    page = look(cast.eve)
    assert "51 min" in page and "nlp" in page
    assert "explore" not in page and "ada" not in page and "CPU 1 %" not in page and "/snooze" not in page


def test_every_page_says_it_to_its_owner_which_delivers_the_notice(cast, look):
    assert "has been idle for 51 minutes" in look(cast.ada, "/queue/")
    assert IdleTold.objects.get().shown_at is not None
    assert "has been idle for" not in look(cast.bob, "/queue/")


def test_rows_and_the_page_of_a_job_say_it(cast, look):
    assert "idle 51 min → stopped at" in look(cast.ada, "/jobs/")
    assert "has been idle for 51 minutes." in look(cast.ada, "/")
    assert "Idle for 51 minutes." in look(cast.ada, f"/j/{cast.job.public_id}/")


def test_its_terminal_says_it_and_asks_again_until_the_task_ends(cast, look, client):
    path, part = f"/terminal/{cast.job.public_id}/", {"HX-Request": "true"}
    page = look(cast.ada, path)
    assert "has been idle for 51 minutes" in page and "Idle for 51 min: stopped at" not in page
    answer = client.get(path, headers=part)
    assert "Idle for 51 min: stopped at" in answer.content.decode() and "<html" not in answer.content.decode()
    make.end(cast.job)
    assert client.get(path, headers=part).status_code == 286 and client.get(path).status_code == 409


def test_its_owner_keeps_it_twice_a_day(cast, post):
    assert "It is kept for an hour." in post(cast.ada, "snooze").content.decode()
    watch = IdleWatch.objects.get()
    assert watch.rung == Rung.NOTED and watch.ladder == 2 and watch.snoozed_until > timezone.now()
    post(cast.ada, "snooze")
    assert "which is the most" in post(cast.ada, "snooze").content.decode()
    assert Event.objects.filter(verb="idle_snoozed").count() == 2


def test_a_colleague_asks_its_owner_once_an_hour(cast, post):
    post(cast.bob, "nudge")
    assert Notice.objects.get(user_id=cast.ada.pk, kind="idle_noticed").params["by"] == "bob"
    assert "within the last hour" in post(cast.bob, "nudge").content.decode()


def test_a_lead_exempts_it_for_a_day_at_most(cast, post, look):
    assert post(cast.ada, "exempt", hours="8", reason="mine").status_code == 403
    assert "must be from 1 to 24" in post(cast.bob, "exempt", hours="25", reason="demo").content.decode()
    post(cast.bob, "exempt", hours="8", reason="a demo at five")
    assert "a demo at five" in look(cast.ada) and "exempt until" in look(cast.ada)
    row = Exemption.objects.get()
    post_end = f"/idle/exemptions/{row.pk}/end"
    assert post_end in look(cast.bob) and post_end in look(cast.ada) and "a demo" not in look(cast.eve)


def test_a_lead_releases_it_at_once(cast, post):
    post(cast.bob, "release")
    job = Job.objects.get(pk=cast.job.pk)
    assert (job.stop_reason, job.stop_requested_by) == ("idle", "bob")
    assert Notice.objects.get(user_id=cast.ada.pk, kind="idle_acted").params["by"] == "bob"
