"""People who are away, from rows: what counts as a sign of them, what they hold, and that they are told once."""

from datetime import timedelta
from threading import Barrier, Thread

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import ApiToken, SshKey, User
from accounts.ssh_keys import add_ssh_key
from events.models import Event, Notice
from events.notices import Channels, choose_channels
from files.models import PlaceUsage
from jobs.models import Job
from monitoring.people.absence import Held
from monitoring.people.loading import load_away
from monitoring.people.reminding import remind_away
from notebooks.services import create_notebook
from portal.tasks import build_mail
from portal.wording.notices import view_notice
from tests import make

pytestmark = pytest.mark.django_db
LONG_AGO = timedelta(days=60)


@pytest.fixture
def cast():
    """ada, who is away and has two notebooks; bob and eve signed in today."""
    cast = make.cast()
    for name in ("lab", "plots"):
        create_notebook(user=cast.ada, name=name, gpu="1/4")
    User.objects.update(joined_at=timezone.now() - LONG_AGO, last_login=timezone.now())
    User.objects.filter(pk=cast.ada.pk).update(last_login=timezone.now() - LONG_AGO, email="ada@example.com")
    return cast


def away(**which):
    return {one.username: one for one in load_away(timezone.now(), **which)}


def notices():
    return list(Notice.objects.filter(kind="away").order_by("pk"))


def test_who_signed_in_long_ago_and_has_notebooks_is_away(cast):
    found = away()
    assert list(found) == ["ada"]
    assert found["ada"].held == Held(notebooks=2) and found["ada"].count_days(timezone.now()) == 60


def test_a_token_used_yesterday_is_a_sign(cast):
    make.token(cast.ada)
    assert "ada" in away()
    ApiToken.objects.update(last_used_at=timezone.now() - timedelta(days=1))
    assert away() == {}


def test_an_ssh_key_used_yesterday_is_a_sign(cast):
    add_ssh_key(user=cast.ada, key=make.ssh_key())
    assert "ada" in away()
    SshKey.objects.update(last_used_at=timezone.now() - timedelta(days=1))
    assert away() == {}


def test_a_job_that_runs_or_ended_lately_is_a_sign(cast):
    job = make.job(cast.ada, gpu="1/4", pool="dev")
    Job.objects.update(submitted_at=timezone.now() - LONG_AGO)
    assert away()["ada"].ran_at is not None
    make.start(job)
    Job.objects.update(started_at=timezone.now() - LONG_AGO)
    assert away() == {}
    make.end(job)
    assert away() == {}
    Job.objects.update(ended_at=timezone.now() - timedelta(days=31))
    assert list(away()) == ["ada"]


def test_a_home_with_files_and_a_guarantee_of_a_team_of_ones_own_are_held(cast):
    alone = make.team("alone")
    carl = make.user("carl", alone)
    User.objects.filter(pk=carl.pk).update(joined_at=timezone.now() - LONG_AGO)
    usage = PlaceUsage.objects.create(kind="home", number=carl.uid, bytes=4096, files=0)
    assert "carl" not in away()
    PlaceUsage.objects.filter(pk=usage.pk).update(bytes=3 * 10**9, files=7)
    make.quota(alone, cast.dev, gpu_milli_guarantee=1500)
    make.quota(alone, cast.train, gpu_milli_guarantee=1000, cpu_milli_guarantee=4000)
    assert away()["carl"].held == Held(home_bytes=3 * 10**9, gpu_milli=2500, cpu_milli=4000)
    make.add_member(user=cast.bob, team=alone, role="member")
    assert away()["carl"].held == Held(home_bytes=3 * 10**9)


def test_deleted_notebooks_are_not_held(cast):
    cast.ada.notebooks.update(deleted_at=timezone.now())
    assert away() == {}


def test_of_a_team_only_its_members_and_what_they_hold_there(cast):
    PlaceUsage.objects.create(kind="home", number=cast.ada.uid, bytes=10**9, files=7)
    assert away(teams={cast.nlp.pk})["ada"].held == Held(notebooks=2)
    assert away(teams={cast.vision.pk}) == {}


def test_they_are_told_once_and_again_after_thirty_days(cast):
    remind_away()
    remind_away()
    (notice,) = notices()
    assert notice.user_id == cast.ada.pk and notice.in_portal and notice.due_at is not None
    Event.objects.filter(verb="away_reminded").update(at=timezone.now() - timedelta(days=29, hours=23))
    remind_away()
    assert len(notices()) == 1
    Event.objects.filter(verb="away_reminded").update(at=timezone.now() - timedelta(days=30))
    remind_away()
    assert len(notices()) == 2


def test_the_mail_says_what_is_held_and_that_nothing_is_taken(cast):
    PlaceUsage.objects.create(kind="home", number=cast.ada.uid, bytes=12 * 10**9, files=7)
    remind_away()
    (notice,) = notices()
    mail = build_mail(notice, User.objects.get(pk=cast.ada.pk))
    assert mail.subject == "Tessera: You have not been here for 60 days and still hold something"
    assert "Still yours: 2 notebooks, 12 GB in the home. Nothing is taken from you." in mail.body
    assert view_notice(notice).path == "/notebooks/"


def test_who_switched_both_channels_off_is_counted_as_told(cast):
    choose_channels(user_id=cast.ada.pk, choices={"away": Channels(portal=False, mail=False)})
    remind_away()
    assert notices() == [] and Event.objects.filter(verb="away_reminded").count() == 1


def test_who_is_suspended_is_listed_and_not_told(cast):
    User.objects.filter(pk=cast.ada.pk).update(suspended_at=timezone.now())
    assert away()["ada"].suspended
    remind_away()
    assert notices() == []


def test_without_days_nobody_is_listed_or_told(cast, settings):
    settings.TESSERA_AWAY_DAYS = 0
    assert away() == {}
    remind_away()
    assert notices() == []


def test_loading_takes_the_same_statements_for_many(cast, django_assert_num_queries):
    for number in range(20):
        create_notebook(user=make.user(f"p{number}", cast.nlp), name="lab", gpu="1/4")
    User.objects.update(joined_at=timezone.now() - LONG_AGO)
    with django_assert_num_queries(8):
        assert len(away()) == 21


@pytest.mark.django_db(transaction=True)
def test_two_workers_tell_them_once(cast):
    start = Barrier(2)

    def work():
        start.wait()
        try:
            remind_away()
        finally:
            connection.close()

    workers = [Thread(target=work) for _ in range(2)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert len(notices()) == 1
