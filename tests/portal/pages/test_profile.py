"""The page of one's profile, and that its language and time zone hold on pages and in mails."""

import pytest
from django.core import mail
from django.test import Client

from accounts.models import User
from accounts.profile import change_profile
from events.notices import notify
from portal.tasks import send
from tests import make

pytestmark = pytest.mark.django_db
PROFILE = {"full_name": "Ada Lovelace", "email": "ada@corp.example", "language": "", "time_zone": ""}
ENDS = {"at": "2026-11-28T17:00:00+00:00"}


@pytest.fixture
def ada() -> User:
    return make.user("ada", make.team("nlp"))


@pytest.fixture
def browser(ada, settings) -> Client:
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    client = Client(headers={"Origin": "http://testserver"})
    client.force_login(ada)
    return client


def test_what_is_saved_stands_in_the_form_and_the_user_name_in_none(browser):
    saved = browser.post(
        "/settings/profile/", {**PROFILE, "time_zone": "Asia/Shanghai", "username": "root"}, follow=True
    )
    shown = saved.content.decode()
    assert saved.redirect_chain == [("/settings/profile/", 302)] and "Saved." in shown
    assert 'value="Ada Lovelace"' in shown and 'value="Asia/Shanghai"' in shown and 'name="username"' not in shown
    assert User.objects.get().username == "ada"


def test_the_zones_can_be_searched_without_a_script(browser):
    shown = browser.get("/settings/profile/").content.decode()
    assert 'list="zones"' in shown and '<option value="America/New_York">' in shown


def test_a_zone_that_is_none_is_refused_beside_its_field_and_nothing_is_saved(browser):
    refused = browser.post("/settings/profile/", {**PROFILE, "time_zone": "Mars/Olympus"})
    shown = refused.content.decode()
    assert refused.status_code == 400 and "“Mars/Olympus” is not a time zone." in shown
    assert 'id="id_time_zone_error"' in shown and User.objects.get().full_name == ""


def test_the_language_holds_at_once_and_in_this_browser_also_before_sign_in(browser):
    browser.post("/settings/profile/", {**PROFILE, "language": "zh-hans"})
    assert '<html lang="zh-hans"' in browser.get("/").content.decode()
    browser.post("/sign-out/")
    assert '<html lang="zh-hans"' in browser.get("/sign-in/").content.decode()


def test_without_a_language_the_browsers_holds_again(browser):
    browser.post("/settings/profile/", {**PROFILE, "language": "zh-hans"})
    browser.post("/settings/profile/", PROFILE)
    assert '<html lang="en"' in browser.get("/", headers={"accept-language": "en"}).content.decode()
    assert '<html lang="zh-hans"' in browser.get("/", headers={"accept-language": "zh-CN"}).content.decode()


def test_times_of_pages_and_of_scripts_are_those_of_the_zone(browser, ada):
    notify(user_id=ada.pk, kind="about_to_end", about=ada, params=ENDS)
    shown = browser.get("/notices/").content.decode()
    assert "5 p.m. (UTC)" in shown and "data-zone" not in shown
    change_profile(ada, time_zone="Asia/Shanghai")
    shown = browser.get("/notices/").content.decode()
    assert "Nov. 29, 2026, 1 a.m. (Asia/Shanghai)" in shown and 'data-zone="Asia/Shanghai"' in shown


def test_days_of_reports_stay_those_of_utc_in_every_zone(browser, ada):
    change_profile(ada, time_zone="America/New_York")
    shown = browser.get("/reports/?from=2026-11-02&to=2026-11-08").content.decode()
    assert 'name="from" required value="2026-11-02"' in shown and 'name="to" value="2026-11-08"' in shown
    assert "complete up to Nov. 8, 2026, 7 p.m. (America/New_York)" in shown


def test_the_apis_times_are_of_utc_also_for_a_page(browser, ada):
    change_profile(ada, time_zone="Asia/Shanghai")
    notify(user_id=ada.pk, kind="about_to_end", about=ada, params=ENDS)
    (notice,) = browser.get("/api/v1/notices").json()["results"]
    assert notice["created_at"].endswith("Z") and "5 p.m. (UTC)" in notice["text"]


def test_mails_speak_the_language_and_the_zone_of_their_reader(settings, ada):
    settings.TESSERA_MAIL = True
    change_profile(ada, email="ada@corp.example", language="zh-hans", time_zone="Asia/Shanghai")
    notify(user_id=ada.pk, kind="about_to_end", about=ada, params=ENDS)
    send()
    (message,) = mail.outbox
    assert "2026年11月29日 01:00 (Asia/Shanghai)" in message.body


def test_a_report_by_mail_is_offered_in_ones_own_zone(browser, ada):
    change_profile(ada, time_zone="Asia/Shanghai")
    assert 'name="zone" value="Asia/Shanghai"' in browser.get("/settings/notifications/").content.decode()


def test_a_zone_costs_a_page_no_question(browser, ada, django_assert_num_queries):
    change_profile(ada, time_zone="Asia/Shanghai")
    browser.get("/settings/profile/")
    with django_assert_num_queries(7):
        assert browser.get("/settings/profile/").status_code == 200
