"""The bell: how many are unread, the list, the words, and the choice of what one is told."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events.models import Notice, NoticeChoice
from events.notices import notices_of, notify
from jobs.models import Job
from jobs.states import TaskState
from portal.pages.account.notice_groups import list_days
from portal.pages.account.notices import PAGE
from portal.wording.notices import view_notice
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def ada(cast, client, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(cast.ada)
    return client


@pytest.fixture
def failed(cast):
    job = make.job(cast.ada, pool="dev", name="train")
    Job.objects.update(queued_at=Now() - timedelta(minutes=5), eligible_at=Now() - timedelta(minutes=5))
    make.start(job)
    return make.end(job, TaskState.FAILED, "out_of_memory", exit_code=None)


def test_the_bell_counts_what_is_unread_on_every_page(ada, failed):
    shown = ada.get("/").content.decode()
    assert 'id="bell"' in shown and '<span class="bell-count" aria-hidden="true">2</span>' in shown
    assert "2 unread notices" in ada.get("/notices/bell").content.decode()


def test_the_list_says_what_happened_why_and_where(ada, failed):
    shown = ada.get("/notices/").content.decode()
    assert f'<a href="/j/{failed.public_id}/">train ({failed.public_id}) failed</a>' in shown
    assert "The program used more memory than the job asked for." in shown


def test_reading_one_and_reading_all(ada, failed):
    first = Notice.objects.first()
    assert ada.post("/notices/read", {"id": first.pk}).status_code == 302
    assert list(Notice.objects.filter(read_at__isnull=False)) == [first]
    ada.post("/notices/read")
    assert not Notice.objects.filter(read_at__isnull=True).exists()
    assert "bell-count" not in ada.get("/").content.decode()


def test_anothers_notice_is_neither_shown_nor_marked(ada, cast):
    job = make.job(cast.bob, pool="dev", name="secret-plan")
    notice = notify(user_id=cast.bob.pk, kind="job_started", about=job, params={"name": job.name})
    ada.post("/notices/read", {"id": notice.pk})
    notice.refresh_from_db()
    assert notice.read_at is None and "secret-plan" not in ada.get("/notices/").content.decode()


def test_a_hostile_name_is_only_text(ada, cast):
    job = make.job(cast.ada, pool="dev", name="<img src=x onerror=alert(1)>")
    notify(user_id=cast.ada.pk, kind="job_started", about=job, params={"name": job.name})
    assert "<img src=x" not in ada.get("/notices/").content.decode()


def test_the_matrix_shows_and_keeps_what_is_chosen(ada, cast):
    assert 'name="job_failed.mail"' in ada.get("/settings/notifications/").content.decode()
    ada.post("/settings/notifications/", {"job_failed.portal": "on", "job_succeeded.mail": "on"})
    chosen = {row.kind: (row.portal, row.mail) for row in NoticeChoice.objects.filter(user_id=cast.ada.pk)}
    assert chosen["job_failed"] == (True, False) and chosen["job_succeeded"] == (False, True)
    assert chosen["job_started"] == (False, False)


def test_numbers_that_are_none_are_refused_or_left_alone(ada):
    assert ada.post("/notices/read", {"id": "1; drop"}).status_code == 404
    assert ada.get("/notices/?before=x").status_code == 200


def test_the_list_is_cut_into_pages(ada, cast):
    job = make.job(cast.ada, pool="dev")
    for _ in range(PAGE + 1):
        notify(user_id=cast.ada.pk, kind="job_started", about=job)
    shown = ada.get("/notices/").content.decode()
    last = Notice.objects.order_by("-pk")[PAGE - 1].pk
    assert f"?before={last}" in shown
    assert ada.get(f"/notices/?before={last}").content.decode().count('id="notice-') == 1


def tell(cast, count, kind="job_succeeded", hours_ago=0.0) -> list[Notice]:
    """So many jobs of ada had one fate then."""
    made = [notify(user_id=cast.ada.pk, kind=kind, about=make.job(cast.ada, pool="dev")) for _ in range(count)]
    at = datetime(2026, 11, 28, 12, tzinfo=UTC) - timedelta(hours=hours_ago)
    Notice.objects.filter(pk__in=[one.pk for one in made]).update(created_at=at)
    return made


def lines_of(person, now=datetime(2026, 11, 28, 13, tzinfo=UTC)) -> list[tuple[str, list[int]]]:
    days = list_days(map(view_notice, notices_of(person.pk).order_by("-pk")), now)
    return [(day.words, [len(line.notices) for line in day.lines]) for day in days]


def test_many_jobs_of_one_fate_within_an_hour_are_one_row(cast):
    tell(cast, 2, hours_ago=3)
    tell(cast, 40, hours_ago=1)
    tell(cast, 1, "job_failed", hours_ago=0.5)
    tell(cast, 3)
    assert lines_of(cast.ada) == [("Today", [3, 1, 40, 1, 1])]


def test_days_are_those_of_the_reader(cast):
    for hours in (60, 30, 0):
        tell(cast, 1, hours_ago=hours)
    assert [words for words, _lines in lines_of(cast.ada)] == ["Today", "Yesterday", "Nov. 26, 2026"]
    with timezone.override("Pacific/Auckland"):  # 13 hours ahead: noon is one o'clock of the next day
        assert [words for words, _lines in lines_of(cast.ada)] == ["Today", "Nov. 27, 2026", "Nov. 26, 2026"]


def test_a_run_says_how_many_and_whose_names_and_is_read_at_once(ada, cast):
    made = tell(cast, 5)
    other = notify(user_id=cast.ada.pk, kind="job_failed", about=make.job(cast.ada, pool="dev"))
    shown = ada.get("/notices/").content.decode()
    assert "5 jobs are done" in shown and "and 2 more" in shown and f'id="run-{made[0].pk}"' in shown
    answer = ada.post("/notices/read", {"id": [one.pk for one in made], "next": "/notices/?before=999"})
    assert answer.url == "/notices/?before=999"
    assert list(Notice.objects.filter(read_at=None)) == [other]
    assert ada.post("/notices/read", {"next": "https://evil.example/"}).url == "/"


def test_an_empty_list_says_what_comes_here(ada):
    assert "Nothing yet" in ada.get("/notices/").content.decode()


def test_many_notices_cost_as_many_questions_as_one(ada, cast):
    def count() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert ada.get("/notices/").status_code == 200
        return len(asked)

    for fate, reason in ((TaskState.SUCCEEDED, ""), (TaskState.FAILED, "exit_nonzero")):
        job = make.job(cast.ada, pool="dev")
        make.start(job)
        make.end(job, fate, reason)
    ada.get("/notices/")
    few = count()
    tell(cast, 30)
    tell(cast, 30, "job_failed")
    assert count() == few
