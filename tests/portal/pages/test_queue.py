"""The queue page: what waits and why for everybody, and nothing of a stranger's work."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.models import Job
from scheduler.models import Forecast, Lease
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    return make.cast()


@pytest.fixture
def look(client):
    """look(person, query) is the page as that person sees it."""

    def look(person, query="", **headers):
        client.force_login(person)
        return client.get(f"/queue/{query}", headers=headers).content.decode()

    return look


def wait(person, position=1, code="held", **spec):
    job = make.job(person, **spec)
    Job.objects.filter(pk=job.pk).update(
        wait_reasons=[{"code": code, "params": {"who": "bob"}}], wait_position=position, wait_of=9
    )
    return job


def test_the_first_line_says_what_waits_for_how_much(cast, look):
    wait(cast.ada, gpu="1", pool="train")
    assert "1 job is waiting for 1 GPU; 0 running." in look(cast.ada)
    wait(cast.ada, gpu="1/4", pool="dev")
    wait(cast.ada, gpu="1", pool="train")
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    assert "3 jobs are waiting for 2.25 GPUs; 1 running." in look(cast.ada)


def test_an_empty_queue_says_what_is_free(cast, look):
    make.start(make.job(cast.ada, gpu="1/2", pool="dev"))
    assert "Nothing is waiting. GPUs free: 1.5." in look(cast.ada)


def test_my_job_is_marked_and_linked(cast, look):
    job = wait(cast.ada, gpu="1/4", pool="dev", name="llama")
    page = look(cast.ada)
    assert f'id="{job.public_id}" class="is-mine"' in page and f'href="/j/{job.public_id}/"' in page


def test_a_team_mate_sees_whose_it_is(cast, look):
    wait(cast.ada, gpu="1/4", pool="dev", name="llama")
    page = look(cast.bob)
    assert "llama" in page and "ada" in page and "is-mine" not in page


def test_a_stranger_is_told_the_owner_and_not_what_it_is(cast, look):
    wait(cast.ada, gpu="1/4", pool="dev", name="secret-plan")
    page = look(cast.eve)
    assert '<span class="muted">ada</span>' in page and "secret-plan" not in page and "/j/" not in page


def test_by_policy_a_stranger_finds_no_trace_of_whose_it_is(cast, look, settings):
    settings.TESSERA_VISIBILITY = "team"
    waiting = wait(cast.ada, gpu="1/4", pool="dev", name="secret-plan")
    running = make.job(cast.ada, gpu="1/4", pool="dev", name="secret-run", time="1h")
    make.start(running)
    page = look(cast.eve).replace("combobox", "")
    assert "nlp" in page and "held by someone" in page and "held" in page and "¼" in page
    for secret in ("secret", "ada", "bob", waiting.public_id, running.public_id, "/j/", str(waiting.uuid)):
        assert secret not in page


def test_by_policy_a_stranger_is_not_told_the_team_either(cast, look, settings):
    settings.TESSERA_VISIBILITY = "private"
    wait(cast.ada, gpu="1/4", pool="dev")
    page = look(cast.eve)
    assert "another team" in page and "nlp" not in page


def test_the_rows_stand_in_the_order_in_which_they_start(cast, look):
    second = wait(cast.ada, position=2, gpu="1/4", pool="dev")
    first = wait(cast.ada, position=1, gpu="1/4", pool="dev")
    page = look(cast.ada)
    assert page.index(f'id="{first.public_id}"') < page.index(f'id="{second.public_id}"')


def test_a_reason_is_a_filter(cast, look):
    wait(cast.ada, gpu="1/4", pool="dev", name="kept", code="held")
    wait(cast.ada, gpu="1/4", pool="dev", name="left-out", code="fragmented")
    page = look(cast.ada, "?reason=held")
    assert "kept" in page and "left-out" not in page


def test_a_pool_is_a_filter(cast, look):
    wait(cast.ada, gpu="1/4", pool="dev", name="kept")
    wait(cast.ada, gpu="1", pool="train", name="left-out")
    page = look(cast.ada, "?pool=dev")
    assert "kept" in page and "left-out" not in page


def test_an_unknown_pool_is_not_found(cast, client):
    client.force_login(cast.ada)
    assert client.get("/queue/?pool=nowhere").status_code == 404


def test_a_scheduler_that_does_not_look_is_said(cast, look):
    Lease.objects.update(last_ok_at=timezone.now() - timedelta(seconds=61))
    assert "The scheduler has not run since" in look(cast.ada)


def test_a_scheduler_that_looks_is_not_talked_about(cast, look):
    assert "The scheduler has not run" not in look(cast.ada)


def test_a_refetch_gets_the_rows_and_the_first_line_only(cast, look):
    part = look(cast.ada, **{"HX-Request": "true"})
    assert "<html" not in part and 'id="answer" hx-swap-oob="true"' in part and "Nothing is waiting." in part


def test_a_visitor_is_sent_to_sign_in(client):
    assert client.get("/queue/?pool=dev").url == "/sign-in/?next=%2Fqueue%2F%3Fpool%3Ddev"


def test_a_range_of_starts_is_shown_to_those_who_see_the_job(cast, look):
    job, now = wait(cast.ada, gpu="1/4", pool="dev", name="llama"), timezone.now()
    soon = now + timedelta(hours=1)
    Forecast.objects.create(job=job, attempt=1, made_at=now, told_at=now, p10=soon, p50=soon, p90=soon)
    assert "About " in look(cast.ada) and "About " not in look(cast.eve)


def test_how_well_starts_were_foretold_is_said(cast, look):
    now = timezone.now()
    for late in (0, 1) * 10:
        job = make.job(cast.ada, gpu="1/4", pool="dev")
        Forecast.objects.create(
            job=job,
            attempt=1,
            made_at=now,
            told_at=now,
            first_p10=now,
            first_p90=now + timedelta(minutes=5),
            started_at=now + timedelta(hours=late),
        )
    assert "Of 20 starts in the last seven days, 50 % were in the range" in look(cast.ada)


def test_of_a_long_queue_the_head_is_shown_and_more_for_who_asks(cast, look, monkeypatch):
    for name in ("SHOWN", "LEAST_SHOWN"):
        monkeypatch.setattr(f"portal.pages.cluster.queue.{name}", 1)
    monkeypatch.setattr("portal.pages.cluster.queue.MOST_SHOWN", 3)
    names = [wait(cast.ada, position=place, gpu="1", pool="train").public_id for place in (1, 2, 3, 4)]
    for _ in range(2):
        make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    short, long = look(cast.ada), look(cast.ada, "?rows=3")
    assert f'id="{names[0]}"' in short and f'id="{names[1]}"' not in short and "and 3 more" in short
    assert 'href="?rows=3"' in short and "4 jobs are waiting for 4 GPUs; 2 running." in short
    assert f'id="{names[2]}"' in long and "and 1 more" in long and "Show up to" not in long


def test_of_more_than_are_counted_those_at_the_front_are_kept(cast, look, monkeypatch):
    monkeypatch.setattr("portal.pages.cluster.queued_jobs.MOST_ROWS", 2)
    last, new, first = (wait(cast.ada, position=place, gpu="1", pool="train") for place in (2, None, 1))
    page = look(cast.ada)
    assert page.index(f'id="{first.public_id}"') < page.index(f'id="{last.public_id}"')
    assert f'id="{new.public_id}"' not in page
