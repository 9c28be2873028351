"""Coming in and going out: by password, by a link that its button spends, by an invitation; tokens are shown once."""

import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from accounts import guesses
from accounts.directory import invite_person
from accounts.models import ApiToken, LoginLink, TeamRole, User
from accounts.scopes import SCOPES
from accounts.services import make_login_link
from common import rates
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
NEW = "another long enough one"


@pytest.fixture(autouse=True)
def quiet_place(settings, monkeypatch):
    """Cheap hashes, no counts of other tests, and a clock that stands still so that no window ends within a test."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    for counted in (rates, guesses):
        monkeypatch.setattr(counted, "time", lambda: 1_000_000.0)
    cache.clear()


@pytest.fixture
def ada():
    return make.user("ada", make.team("nlp"), password=make.PASSWORD)


def sign_in(client, name="ada", password=make.PASSWORD, **more):
    return client.post("/sign-in/", {"username": name, "password": password, **more})


def is_in(client) -> bool:
    return client.get("/settings/tokens/").status_code == 200


# ---- by password ----


def test_a_password_opens_the_page_that_was_wanted(ada):
    client = browser()
    assert sign_in(client, next="/queue/?pool=dev").url == "/queue/?pool=dev" and is_in(client)


def test_the_name_is_found_in_any_case(ada):
    assert sign_in(browser(), name="Ada").status_code == 302


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("nobody", make.PASSWORD), ("", ""), ("ada", "")])
def test_a_wrong_password_stays_outside(ada, name, password):
    client = browser()
    assert sign_in(client, name, password).status_code == 400 and not is_in(client)


def test_a_name_that_is_not_there_is_answered_like_a_wrong_password(ada):
    one, other = sign_in(browser(), "ada", "wrong"), sign_in(browser(), "nobody", "wrong")
    sentence = "The user name and password do not match."
    assert sentence in one.content.decode() and sentence in other.content.decode()


def test_a_suspended_person_stays_outside(ada):
    User.objects.update(suspended_at=timezone.now())
    assert sign_in(browser()).status_code == 400


def test_the_session_gets_a_new_id(ada):
    client = browser()
    client.get("/sign-in/")
    client.session.save()
    before = client.cookies["tessera"].value if "tessera" in client.cookies else client.session.session_key
    sign_in(client)
    assert client.cookies["tessera"].value != before


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "///evil.example",
        "http:evil.example",
        "javascript:alert(1)",
        "\t//evil.example",
        "http://testserver@evil.example/",
        "jobs",
        "",
    ],
)
def test_next_is_a_path_of_ours_or_the_first_page(ada, wanted):
    assert sign_in(browser(), next=wanted).url == "/"


def test_who_is_in_is_sent_on(ada):
    assert browser(ada).get("/sign-in/?next=/queue/")["Location"] == "/queue/"


# ---- how often ----


def test_the_eleventh_try_at_an_account_within_a_minute_waits(ada):
    answers = [sign_in(browser(REMOTE_ADDR=f"10.0.0.{n}"), password="wrong").status_code for n in range(11)]
    assert answers == [400] * 10 + [429]


def test_the_answer_says_when_to_try_again(ada):
    for _ in range(10):
        sign_in(browser(), password="wrong")
    answer = sign_in(browser())
    assert answer.headers["Retry-After"] == "20" and "Wait 20 seconds" in answer.content.decode()


def test_guessing_at_one_account_does_not_stop_another(ada):
    make.user("bob", password=make.PASSWORD)
    for _ in range(11):
        sign_in(browser(), password="wrong")
    assert sign_in(browser(REMOTE_ADDR="10.0.0.2"), name="bob").status_code == 302


def test_a_browser_that_was_in_before_is_not_locked_out_by_others(ada):
    client = browser()
    sign_in(client)
    client.post("/sign-out/")
    for _ in range(11):
        sign_in(browser(REMOTE_ADDR="10.0.0.2"), password="wrong")
    assert sign_in(client).status_code == 302


def test_a_forged_mark_of_a_known_browser_is_worth_nothing(ada):
    client = browser()
    client.cookies["tessera-known"] = "ada:forged:signature"
    answers = [sign_in(client, password="wrong").status_code for _ in range(11)]
    assert answers[-1] == 429


def test_the_thirty_first_try_of_an_address_waits():
    answers = [sign_in(browser(), name=f"person{n}", password="wrong").status_code for n in range(31)]
    assert answers == [400] * 30 + [429]


def test_the_next_minute_is_a_new_one(ada, monkeypatch):
    for _ in range(11):
        sign_in(browser(), password="wrong")
    monkeypatch.setattr(guesses, "time", lambda: 1_000_060.0)
    assert sign_in(browser()).status_code == 302


@pytest.fixture
def without_cache(settings):
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": "unix:///nowhere"}}


def test_a_cache_that_does_not_answer_keeps_nobody_out(ada, without_cache):
    assert sign_in(browser()).status_code == 302


def test_guesses_are_limited_while_the_cache_does_not_answer(ada, without_cache):
    answers = [sign_in(browser(REMOTE_ADDR=f"10.0.0.{n}"), password="wrong").status_code for n in range(14)]
    assert answers == [400] * 10 + [429] * 4
    answers = [sign_in(browser(), name=f"person{n}", password="wrong").status_code for n in range(31)]
    assert answers == [400] * 30 + [429]


def test_guesses_at_the_old_password_are_limited_too(ada, without_cache):
    client = browser(ada)
    guess = {"old": "wrong", "new": NEW}
    assert [client.post("/settings/password/", guess).status_code for _ in range(11)] == [400] * 10 + [429]


# ---- by a link ----


def test_looking_at_a_link_does_not_spend_it(ada):
    path = make_login_link(user=ada)
    client = browser()
    for _ in range(2):
        assert "Sign in as ada" in client.get(path).content.decode()
    assert client.post(path)["Location"] == "/" and is_in(client)


def test_a_link_works_once(ada):
    path = make_login_link(user=ada)
    browser().post(path)
    client = browser()
    assert client.post(path).status_code == 404 and not is_in(client)


def test_an_old_link_says_what_to_do(ada):
    path = make_login_link(user=ada)
    LoginLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    answer = browser().get(path)
    assert answer.status_code == 404 and "Ask an admin of this installation for a new one" in answer.content.decode()


def test_a_link_of_a_suspended_person_opens_nothing(ada):
    path = make_login_link(user=ada)
    User.objects.update(suspended_at=timezone.now())
    assert browser().post(path).status_code == 404


def test_an_invitation_is_no_sign_in_link(ada):
    path = invite_person(actor=make.admin(), team=make.team("nlp"), role=TeamRole.MEMBER)
    assert browser().post(path.replace("/join/", "/sign-in/")).status_code == 404
    assert browser().get(path).status_code == 200  # and it is not spent


# ---- by an invitation ----


@pytest.fixture
def invitation():
    return invite_person(actor=make.admin(), team=make.team("nlp"), role=TeamRole.LEAD)


def test_a_newcomer_chooses_a_name_and_is_in_the_team(invitation):
    client = browser()
    client.post(invitation, {"username": "zoe", "full_name": "Zoe", "password": NEW})
    zoe = User.objects.get(username="zoe")
    assert is_in(client) and zoe.check_password(NEW) and zoe.memberships.get().role == TeamRole.LEAD


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"username": "Rita"}, "taken"),
        ({"username": "root"}, "account of the machine"),
        ({"username": "Zo e"}, "is not valid"),
        ({"password": "short"}, "too easy to guess"),
    ],
)
def test_a_mistake_in_an_invitation_does_not_spend_it(invitation, fields, words):
    given = {"username": "zoe", "full_name": "", "password": NEW, **fields}
    answer = browser().post(invitation, given)
    assert answer.status_code == 400 and words in answer.content.decode()
    assert LoginLink.objects.get().used_at is None


# ---- out, and a new password ----


def test_signing_out_needs_a_post_and_ends_the_session(ada):
    client = browser(ada)
    assert client.get("/sign-out/").status_code == 405 and is_in(client)
    client.post("/sign-out/")
    assert not is_in(client)


def test_a_new_password_ends_every_other_session(ada):
    here, there = browser(ada), browser(ada)
    here.post("/settings/password/", {"old": make.PASSWORD, "new": NEW})
    assert is_in(here) and not is_in(there)
    assert User.objects.get().check_password(NEW)


@pytest.mark.parametrize(("old", "new"), [("wrong", NEW), (make.PASSWORD, "short"), ("", NEW)])
def test_a_password_stays_where_the_old_or_the_new_is_wrong(ada, old, new):
    assert browser(ada).post("/settings/password/", {"old": old, "new": new}).status_code == 400
    assert User.objects.get().check_password(make.PASSWORD)


def test_who_came_by_a_link_chooses_a_password_without_an_old_one():
    person = make.user("first")
    browser(person).post("/settings/password/", {"new": NEW})
    assert User.objects.get().check_password(NEW)


# ---- tokens and invitations ----

TOKEN = {"name": "laptop", "scopes": ["jobs:read"], "days": "30"}


def test_the_secret_of_a_token_is_shown_once(ada):
    client = browser(ada)
    answer = client.post("/settings/tokens/", TOKEN)
    (secret,) = set(re.findall(r"tes_[\w-]{43}", answer.content.decode()))
    assert "no-store" in answer.headers["Cache-Control"] and secret.startswith(ApiToken.objects.get().prefix)
    assert secret not in client.get("/settings/tokens/").content.decode()


def test_a_new_token_may_do_a_days_work_unless_told_otherwise(ada):
    boxes = re.findall(r'<input[^>]*name="scopes"[^>]*>', browser(ada).get("/settings/tokens/").content.decode())
    ticked = {re.search(r'value="([^"]+)"', box)[1]: " checked" in box for box in boxes}
    of_admins = {"cluster:write", "alerts:write", "people:write", "quotas:write", "audit:read"}
    unusual = {*of_admins, "webhooks:write", "metrics:scrape", "metrics:tasks", "profile:write"}
    assert ticked == {scope: scope not in unusual for scope in SCOPES}


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"scopes": []}, {"scopes": ["root"]}, {"days": "9999"}, {"name": "\u202e"}]
)
def test_a_token_that_makes_no_sense_is_not_made(ada, wrong):
    assert browser(ada).post("/settings/tokens/", {**TOKEN, **wrong}).status_code == 400
    assert not ApiToken.objects.exists()


def test_a_token_is_revoked_by_its_owner_only(ada):
    make.token(ada)
    path = f"/settings/tokens/{ApiToken.objects.get().pk}/revoke"
    assert browser(make.user("eve")).post(path).status_code == 404 and ApiToken.objects.get().is_live
    assert browser(ada).post(path)["Location"] == "/settings/tokens/" and not ApiToken.objects.get().is_live


def test_only_an_admin_invites(ada):
    given = {"team": ada.teams.get().pk, "role": "member"}
    assert browser(ada).post("/console/people/invite", given).status_code == 403
    page = browser(make.admin()).post("/console/people/invite", given).content.decode()
    (path,) = set(re.findall(r"http://testserver(/join/[\w-]+)", page))
    assert browser().get(path).status_code == 200


def test_a_person_adds_and_removes_an_ssh_key():
    ada, client = make.user("ada"), browser()
    client.force_login(ada)
    assert client.post("/settings/ssh-keys/", {"key": make.ssh_key(), "name": "laptop"}).status_code == 302
    page = client.get("/settings/ssh-keys/").content.decode()
    assert "laptop" in page and ada.ssh_keys.get().fingerprint in page
    again = client.post("/settings/ssh-keys/", {"key": make.ssh_key()})
    assert again.status_code == 400 and "already added this key" in again.content.decode()
    assert client.post(f"/settings/ssh-keys/{ada.ssh_keys.get().pk}/remove").status_code == 302
    assert not ada.ssh_keys.exists()


def test_an_ssh_key_works_to_the_end_of_a_day_and_is_shown_as_expired_afterwards():
    ada, client = make.user("ada"), browser()
    client.force_login(ada)
    asked = {"key": make.ssh_key(), "name": "laptop", "expires_at": "2020-01-31"}
    refused = client.post("/settings/ssh-keys/", asked)
    assert refused.status_code == 400 and "This date has passed." in refused.content.decode()
    assert client.post("/settings/ssh-keys/", asked | {"expires_at": "2099-01-31"}).status_code == 302
    assert ada.ssh_keys.get().expires_at.isoformat() == "2099-01-31T23:59:59.999999+00:00"
    page = client.get("/settings/ssh-keys/").content.decode()
    assert "01/31/2099" in page and "1 key opens your notebooks" in page
    ada.ssh_keys.update(expires_at="2020-01-31T00:00Z")
    page = client.get("/settings/ssh-keys/").content.decode()
    assert "Expired" in page and "opens your notebooks and jobs by SSH" not in page
