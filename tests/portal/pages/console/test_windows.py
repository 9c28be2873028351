"""Lending windows in the console: the week's picture, and a form for one."""

from datetime import datetime, time
from zoneinfo import ZoneInfo

import pytest

from cluster.models import Window
from events.models import Event
from portal.pages.console.windows import draw_week, find_monday
from portal.wording.changes import name_days
from tests import make
from tests.browser import browser

LIST, NEW = "/console/windows/", "/console/windows/new"
UTC, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
WEDNESDAY = datetime(2026, 11, 25, 21, 30, tzinfo=UTC)


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture(autouse=True)
def here(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"


@pytest.fixture
def root(cast):
    return browser(make.admin())


@pytest.fixture
def train(cast):
    return cast.train


def asked(lender, borrower, **fields) -> dict:
    usual = {"weekdays": ["1", "2"], "begins": "20:00", "ends": "08:00", "zone": "UTC", "holidays": ""}
    return {"lender": lender.pk, "borrower": borrower.pk} | usual | fields


def drawn(*windows: Window):
    return draw_week(windows, find_monday(WEDNESDAY), WEDNESDAY)


@pytest.mark.django_db
def test_a_week_is_drawn_over_midnight_and_cut_at_its_ends(cast, train):
    (lane,) = drawn(make.window(cast.dev, train, weekdays="37", begins=time(20), ends=time(8)))
    assert (lane.lender, lane.borrower, lane.is_open) == ("dev", "train", True)
    assert [(band.begin, band.width) for band in lane.bands] == [(0.0, 4.76), (40.48, 7.14), (97.62, 2.38)]
    assert lane.bands[1].words == "Wed 20:00 – Thu 08:00"


@pytest.mark.django_db
def test_a_holiday_and_another_zone_are_in_the_picture(cast, train):
    (lane,) = drawn(make.window(cast.dev, train, weekdays="", holidays="2026-11-26", zone="Europe/Berlin"))
    assert [band.words for band in lane.bands] == ["Wed 23:00 – Thu 23:00"]
    monday = find_monday(WEDNESDAY.astimezone(BERLIN))
    (lane,) = draw_week(Window.objects.all(), monday, WEDNESDAY)
    assert [band.words for band in lane.bands] == ["Thu 00:00 – Fri 00:00"]


@pytest.mark.django_db
def test_what_stands_in_two_windows_is_told_and_what_only_meets_is_not(cast, train):
    make.window(cast.dev, train, weekdays="1", begins=time(8), ends=time(12))
    make.window(cast.dev, train, weekdays="1", begins=time(12), ends=time(14))
    assert drawn(*Window.objects.all())[0].overlaps == []
    make.window(cast.dev, train, weekdays="12", begins=time(13), ends=time(18))
    (lane,) = drawn(*Window.objects.all())
    assert [part.words for part in lane.overlaps] == ["Mon 13:00 – Mon 14:00"]
    assert [band.words for band in lane.bands] == ["Mon 08:00 – Mon 18:00", "Tue 13:00 – Tue 18:00"]


@pytest.mark.parametrize(
    ("days", "words"), [("1234567", "every day"), ("12345", "Mon–Fri"), ("67", "Sat, Sun"), ("135", "Mon, Wed, Fri")]
)
def test_days_are_named_short(days, words):
    assert name_days(days) == words


@pytest.mark.django_db
def test_one_is_added_changed_and_deleted_with_its_history(root, cast, train):
    assert "No lending windows yet" in root.get(LIST).content.decode()
    assert root.post(NEW, asked(cast.dev, train))["Location"] == LIST
    window = Window.objects.get()
    assert (window.weekdays, window.opens, window.closes) == ("12", "20:00", "08:00")
    page = root.get(LIST).content.decode()
    assert "dev → train" in page and "next day" in page
    root.post(f"{LIST}{window.pk}/", asked(cast.dev, train, ends="09:00", weekdays=["6"]))
    root.post(f"{LIST}{window.pk}/delete")
    assert not Window.objects.exists()
    events = Event.objects.filter(kind="window").order_by("pk")
    assert [(event.verb, event.actor) for event in events] == [
        ("window.made", "rita"),
        ("window.changed", "rita"),
        ("window.deleted", "rita"),
    ]
    assert "until: 08:00 → 09:00" in root.get(LIST).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"zone": "Mars/Olympus"}, "zone", "Enter a time zone"),
        ({"weekdays": []}, "weekdays", "Choose at least one day"),
        ({"weekdays": ["8"]}, "weekdays", "8"),
        ({"begins": "25:00"}, "begins", "valid time"),
        ({"holidays": "Christmas"}, "holidays", "Enter dates like"),
        ({"borrower": 0}, "borrower", "valid choice"),
    ],
)
def test_each_error_stands_at_its_field_and_nothing_is_saved(root, cast, train, given, field, words):
    answer = root.post(NEW, asked(cast.dev, train) | given)
    assert answer.status_code == 400 and words in " ".join(answer.context["form"].errors[field])
    assert not Window.objects.exists()


@pytest.mark.django_db
def test_a_pool_lends_neither_to_itself_nor_to_two(root, cast, train):
    assert "cannot lend to itself" in root.post(NEW, asked(train, train)).content.decode()
    root.post(NEW, asked(cast.dev, train))
    assert "dev already lends to train" in root.post(NEW, asked(cast.dev, make.pool("more"))).content.decode()


@pytest.mark.django_db
def test_an_auditor_reads_and_changes_nothing(cast, train):
    window = make.window(cast.dev, train)
    auditor = browser(make.user("otto", platform_role="auditor"))
    assert "dev → train" in auditor.get(LIST).content.decode()
    assert auditor.get(NEW).status_code == 403
    for at in (NEW, f"{LIST}{window.pk}/", f"{LIST}{window.pk}/delete"):
        assert auditor.post(at, asked(cast.dev, train)).status_code == 403
    assert Window.objects.filter(pk=window.pk).exists()
