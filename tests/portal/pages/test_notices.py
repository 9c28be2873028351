"""The bell: how many are unread, the list, the words, and the choice of what one is told."""

import pytest

from events.models import Notice, NoticeChoice
from events.notices import notify
from jobs.states import TaskState
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
    for _ in range(51):
        notify(user_id=cast.ada.pk, kind="job_started", about=job)
    shown = ada.get("/notices/").content.decode()
    last = Notice.objects.order_by("-pk")[49].pk
    assert f"?before={last}" in shown
    assert ada.get(f"/notices/?before={last}").content.decode().count('id="notice-') == 1
