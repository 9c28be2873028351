"""How well a job uses what it holds: the same on its page, by the API, and in the notice of its end."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from events.models import Notice
from jobs.models import Job, Task
from monitoring.models import TaskUse
from monitoring.usage.at_once import FEWEST
from portal.tasks import build_mail
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    """ada's half of a card, which is 20 % busy and uses a tenth of its memory."""
    cast = make.cast()
    cast.job = make.job(cast.ada, gpu="1/2", cpu=2, memory="8GiB", pool="dev", name="llama", max_time="1d")
    cast.task = make.start(cast.job, cast.gpus[0])[0]
    make.use(cast.task, busy=0.2, peak=0.1)
    return cast


@pytest.fixture
def look(client):
    def look(person, path):
        client.force_login(person)
        return client.get(path).content.decode()

    return look


def ask(cast, person=None):
    return Api(make.token(person or cast.ada)).get(f"jobs/{cast.job.public_id}/efficiency")


def test_a_running_slice_is_resized_in_one_click(cast, look, client):
    page = look(cast.ada, f"/j/{cast.job.public_id}/")
    assert "It keeps its share of the GPU busy 20 % of the time." in page and "Low use" in page
    assert "GPU memory peaks at 1.7 GB of 17 GB." in page and "⅛ GPU (4.3 GB) fits." in page
    assert '<input type="hidden" name="gpu" value="1/8">' in page and "Seen 100 % of the time." in page
    there = {"Origin": settings.TESSERA_PUBLIC_URL}
    client.post(f"/j/{cast.job.public_id}/resize", {"gpu": "1/8"}, headers=there)
    assert Task.objects.get().resize["gpu"] == "1/8"


def test_a_job_that_ended_is_copied_with_the_field_changed(cast, look):
    make.end(cast.job)
    page = look(cast.ada, f"/j/{cast.job.public_id}/")
    assert "⅛ GPU (4.3 GB) would have fitted." in page
    assert f"/jobs/new?from={cast.job.public_id}&amp;gpu=1%2F8" in page
    assert f"/jobs/new?from={cast.job.public_id}&amp;memory=2GB" in page
    form = look(cast.ada, f"/jobs/new?from={cast.job.public_id}&memory=2GB")
    assert "memory: 2GB" in form and "gpu: 1/2" in form


def test_the_api_says_the_same(cast):
    told = ask(cast).json()
    verdicts = [(verdict["code"], verdict["gpu_hours"]) for verdict in told["verdicts"]]
    assert verdicts[0] == ("low_activity", pytest.approx(4, abs=0.01))
    assert [code for code, _ in verdicts] == ["low_activity", "too_much_memory", "host_memory_high"]
    assert told["verdicts"][1]["advice"] == {"field": "gpu", "value": "1/8", "text": "⅛ GPU (4.3 GB) fits."}
    assert (told["gpu_busy_percent"], told["coverage_percent"], told["running"]) == (20.0, 100.0, True)
    assert told["gpu_hours"]["held"] == pytest.approx(5, abs=0.01) and told["gpu_hours"]["unknown"] < 0.01
    assert ask(cast, cast.eve).status_code == 404


def test_a_smaller_slice_is_advised_with_how_often_it_started_at_once(cast):
    for number in range(FEWEST):
        job = make.job(cast.ada, gpu="1/8", pool="dev")
        make.end(make.start(job, cast.gpus[0])[0].job)
        if number < 3:
            since = timezone.now() - timedelta(hours=2)
            Job.objects.filter(pk=job.pk).update(submitted_at=since, eligible_at=since)
    (advice,) = [one["advice"] for one in ask(cast).json()["verdicts"] if one["code"] == "too_much_memory"]
    assert advice["text"] == "⅛ GPU (4.3 GB) fits. It started at once in 70 % of cases in the last 30 days."


def test_of_a_job_that_was_hardly_seen_nothing_is_said(cast, look):
    make.use(cast.task, busy=0.2, peak=0.1, seen=0.7)
    (verdict,) = ask(cast).json()["verdicts"]
    assert (verdict["code"], verdict["advice"]) == ("unknown", None)
    page = look(cast.ada, f"/j/{cast.job.public_id}/")
    assert "It was seen 70 % of the time: too little to judge." in page and "Apply to a copy" not in page


def test_a_job_without_samples_is_not_judged_and_its_figures_are_not_known(cast, look):
    TaskUse.objects.all().delete()
    told = ask(cast).json()
    assert told["verdicts"][0]["code"] == "unknown" and told["gpu_busy_percent"] is None
    page = look(cast.ada, f"/j/{cast.job.public_id}/")
    assert "Not judged" in page and "not known" in page


def test_the_notice_and_the_mail_of_its_end_say_the_costliest(cast, look):
    make.end(cast.job, "FAILED", "exit_nonzero", 1)
    notice = Notice.objects.get(kind="job_failed")
    said = "It kept its share of the GPU busy 20 % of the time."
    assert said in look(cast.ada, "/notices/") and said in build_mail(notice, cast.ada).body
    cast.job.refresh_from_db()
    Api(make.token(cast.ada)).post(f"jobs/{cast.job.public_id}:retry")
    assert said not in look(cast.ada, "/notices/")  # it is of an earlier attempt now


def test_with_the_table_of_uses_broken_pages_and_mails_are_as_before(cast, look):
    make.end(cast.job, "FAILED", "exit_nonzero", 1)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE monitoring_taskuse RENAME TO gone")
    assert "Requested resources" in look(cast.ada, f"/j/{cast.job.public_id}/")
    assert "llama" in build_mail(Notice.objects.get(kind="job_failed"), cast.ada).body
    assert ask(cast).json()["verdicts"][0]["code"] == "too_short"
