"""What people change of their own account."""

from zoneinfo import ZoneInfo

import pytest

from accounts.models import User
from accounts.profile import change_profile
from accounts.time_zones import list_zones, zone_of
from common.errors import InvalidInput
from events.models import Event
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return make.user("ada", email="ada@corp.example")


def test_a_change_is_kept_and_recorded_with_what_it_was(ada):
    change_profile(ada, email=" lovelace@corp.example ", time_zone="Asia/Shanghai")
    kept = User.objects.get(pk=ada.pk)
    assert (kept.email, kept.time_zone, kept.language) == ("lovelace@corp.example", "Asia/Shanghai", "")
    event = Event.objects.get(kind="user", verb="changed")
    assert event.actor == "ada" and event.params == {
        "from": {"email": "ada@corp.example", "time_zone": ""},
        "to": {"email": "lovelace@corp.example", "time_zone": "Asia/Shanghai"},
    }


def test_what_stays_is_no_event(ada):
    change_profile(ada, email="ada@corp.example")
    assert not Event.objects.filter(verb="changed").exists()


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("time_zone", "Mars/Olympus", "unknown_zone"),
        ("time_zone", "localtime", "unknown_zone"),
        ("language", "tlh", "unknown_value"),
        ("email", "not an address", "bad_value"),
        ("full_name", "x" * 101, "bad_value"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field_and_changes_nothing(ada, field, value, code):
    with pytest.raises(InvalidInput) as refused:
        change_profile(ada, **{field: value})
    assert [(error.pointer, error.code) for error in refused.value.errors] == [(f"/{field}", code)]
    assert getattr(ada, field) == getattr(User.objects.get(pk=ada.pk), field) != value


def test_two_people_may_have_one_mail_address(ada):
    eve = make.user("eve")
    assert change_profile(eve, email=ada.email).email == ada.email


def test_a_person_without_a_zone_and_one_whose_zone_is_gone_have_the_sites(ada, settings):
    settings.TIME_ZONE = "Europe/Berlin"
    assert zone_of(ada) == zone_of(None) == zone_of(User(time_zone="Mars/Olympus")) == ZoneInfo("Europe/Berlin")
    assert zone_of(User(time_zone="Asia/Shanghai")) == ZoneInfo("Asia/Shanghai")
    assert "UTC" in list_zones() and "localtime" not in list_zones()
