"""Reports by mail: due once for each week or month, whoever asks how often, and of whole weeks and months."""

import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from common.errors import Conflict, InvalidInput, NotFound, QuotaExceeded
from common.steady_clock import steady_now
from events.models import Notice
from events.notices import Channels, choose_channels
from monitoring.models import ReportMail, Rhythm
from monitoring.report_mails import services
from monitoring.report_mails.rhythm import find_next, find_period
from monitoring.report_mails.services import create_report_mail, delete_report_mail, tell_due_reports
from tests import make

ZONES = ["UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "Pacific/Kiritimati", "Asia/Kathmandu"]
moments = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))


@given(st.sampled_from(Rhythm.values), st.integers(0, 23), st.sampled_from(ZONES), moments)
def test_each_week_and_month_is_told_once_soon_after_its_end(rhythm, hour, zone, after):
    at, ends = after, set()
    for _ in range(6):
        due = find_next(rhythm, hour, zone, at)
        period = find_period(rhythm, due)
        assert due > at and period.ends <= due < period.ends + timedelta(hours=25) and period.ends not in ends
        ends.add(period.ends)
        at = due
    assert len(ends) == 6
    firsts = sorted(ends)
    assert all(find_period(rhythm, later).begins == earlier for earlier, later in pairwise(firsts))


def test_it_is_the_hour_of_the_zone():
    friday = datetime(2026, 11, 27, 12, tzinfo=UTC)
    assert find_next(Rhythm.WEEKLY, 9, "Asia/Shanghai", friday) == datetime(2026, 11, 30, 1, tzinfo=UTC)
    assert find_next(Rhythm.WEEKLY, 6, "Asia/Shanghai", friday) == datetime(2026, 11, 30, 22, tzinfo=UTC)
    assert find_next(Rhythm.MONTHLY, 7, "America/New_York", friday) == datetime(2026, 12, 1, 12, tzinfo=UTC)


def ask(person, **named) -> ReportMail:
    return create_report_mail(ReportMail(user=person, **{"report": "usage", "by": "team", **named}))


@pytest.mark.django_db
def test_what_is_due_becomes_one_notice_and_is_due_again_next_time():
    ada = make.cast().ada
    mail = ask(ada)
    assert tell_due_reports() == 0
    ReportMail.objects.update(
        next_at=steady_now() - timedelta(days=40)
    )  # the platform was away: only the newest is told
    assert (tell_due_reports(), tell_due_reports()) == (1, 0)
    notice = Notice.objects.get()
    assert (notice.kind, notice.object_id, notice.in_portal, notice.due_at is not None) == (
        "report",
        mail.pk,
        False,
        True,
    )
    mail.refresh_from_db()
    assert datetime.fromisoformat(notice.params["to"]) <= steady_now() < mail.next_at


@pytest.mark.django_db
def test_who_switched_reports_off_gets_none():
    ada = make.cast().ada
    ask(ada)
    choose_channels(user_id=ada.pk, choices={"report": Channels(portal=False, mail=False)})
    ReportMail.objects.update(next_at=steady_now())
    assert tell_due_reports() == 1 and not Notice.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_beats_at_once_make_one_notice_of_each(monkeypatch):
    monkeypatch.setattr(services, "AT_ONCE", 2)
    cast = make.cast()
    for person in (cast.ada, cast.bob, cast.eve):
        for by in ("team", "user", "pool"):
            ask(person, by=by)
    for _ in range(3):
        Notice.objects.all().delete()
        ReportMail.objects.update(next_at=steady_now())
        barrier = threading.Barrier(4)

        def beat(barrier=barrier) -> None:
            barrier.wait()
            tell_due_reports()
            connection.close()

        beats = [threading.Thread(target=beat) for _ in range(4)]
        for each in beats:
            each.start()
        for each in beats:
            each.join()
        tell_due_reports()
        assert Notice.objects.count() == 9 == Notice.objects.values("object_id").distinct().count()


@pytest.mark.django_db
def test_nonsense_is_told_and_ones_own_mails_are_nobody_elses(monkeypatch):
    cast = make.cast()
    mail = ask(cast.ada)
    with pytest.raises(Conflict):
        ask(cast.ada, hour=9)
    with pytest.raises(InvalidInput) as refused:
        ask(cast.ada, by="pool", hour=24, zone="Mars/Base")
    assert [error.code for error in refused.value.errors] == ["out_of_range", "unknown_zone"]
    with pytest.raises(NotFound):
        delete_report_mail(cast.eve, mail.pk)
    monkeypatch.setattr(services, "MOST_MAILS", 1)
    with pytest.raises(QuotaExceeded):
        ask(cast.ada, by="pool")
    delete_report_mail(cast.ada, mail.pk)
    assert not ReportMail.objects.exists()
