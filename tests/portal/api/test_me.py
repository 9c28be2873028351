"""The caller and the own tokens."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from accounts.models import ApiToken
from accounts.scopes import SCOPES
from accounts.services import create_token
from accounts.ssh_keys import add_ssh_key, find_key
from events.models import Event
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
ASK = {"name": "ci", "scopes": ["jobs:read"], "days": 30}


def test_me_says_who_calls_and_with_what(ada):
    me = ada.get("me").json()
    assert (me["username"], me["platform_role"]) == ("ada", "none")
    assert [(team["name"], team["role"]) for team in me["teams"]] == [("nlp", "member")]
    assert me["scopes"] == sorted(SCOPES) and me["token"]["name"] == "test" and "secret" not in me["token"]


def test_one_changes_ones_own_profile_and_what_is_left_out_stays(ada, cast):
    changed = ada.patch("me", {"full_name": "Ada Lovelace", "time_zone": "Asia/Shanghai"})
    assert changed.status_code == 200 and changed.json()["time_zone"] == "Asia/Shanghai"
    ada.patch("me", {"language": "zh-hans"})
    me = ada.get("me").json()
    assert (me["full_name"], me["time_zone"], me["language"]) == ("Ada Lovelace", "Asia/Shanghai", "zh-hans")
    [error] = ada.patch("me", {"time_zone": "Mars/Olympus"}).json()["errors"]
    assert (error["pointer"], error["code"]) == ("/time_zone", "unknown_zone")
    assert ada.patch("me", {"username": "root"}).json()["username"] == "ada"
    assert Api(make.token(cast.ada, "jobs:write", "tokens:write")).patch("me", {"email": ""}).status_code == 403


def test_a_new_token_is_shown_once_and_works(ada):
    made = ada.post("me/tokens", ASK)
    assert made.status_code == 201 and made.json()["secret"].startswith("tes_")
    assert Api(made.json()["secret"]).get("jobs").status_code == 200
    listed = ada.get("me/tokens").json()["results"]
    assert {token["name"] for token in listed} == {"ci", "test"} and all("secret" not in token for token in listed)
    assert not ApiToken.objects.filter(digest=made.json()["secret"]).exists()


def test_a_token_never_makes_a_stronger_one(ada, cast):
    weak = Api(make.token(cast.ada, "tokens:write", "jobs:read"))
    refused = weak.post("me/tokens", {**ASK, "scopes": ["jobs:write"]})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/scopes")
    [error] = refused.json()["errors"]
    assert error["code"] == "scope_beyond_token" and "jobs:read, tokens:write" in error["detail"]
    assert weak.post("me/tokens", ASK).status_code == 201


def test_a_token_never_outlives_the_token_that_creates_it(cast):
    short = Api(make.token(cast.ada, days=5))
    [error] = short.post("me/tokens", {**ASK, "days": 366}).json()["errors"]
    assert (error["pointer"], error["code"], error["params"]["largest"]) == ("/days", "outlives_token", 4)
    assert "at most 4 days" in error["detail"] and ApiToken.objects.count() == 1
    made = short.post("me/tokens", {**ASK, "days": 4, "scopes": ["tokens:write"]}).json()
    assert made["made_by"] == short.get("me").json()["token"]["id"]
    [error] = Api(made["secret"]).post("me/tokens", {**ASK, "days": 4, "scopes": ["tokens:write"]}).json()["errors"]
    assert error["params"]["largest"] == 3


def test_a_token_of_a_token_ends_with_it_where_no_days_are_named(cast):
    last = Api(make.token(cast.ada, days=1))
    [error] = last.post("me/tokens", {**ASK, "days": 1}).json()["errors"]
    assert (error["pointer"], error["code"]) == ("/days", "outlives_token") and "less than a day" in error["detail"]
    made = last.post("me/tokens", {"name": "ci", "scopes": ["jobs:read"]}).json()
    assert made["expires_at"] == last.get("me").json()["token"]["expires_at"]


def test_revoking_a_token_revokes_all_that_it_created(ada, cast):
    stolen = Api(make.token(cast.ada))
    child = stolen.post("me/tokens", {"name": "child", "scopes": ["tokens:write"]}).json()
    grandchild = Api(child["secret"]).post("me/tokens", {"name": "grandchild", "scopes": ["tokens:write"]}).json()
    assert ada.delete(f"me/tokens/{stolen.get('me').json()['token']['id']}").status_code == 204
    assert {Api(made["secret"]).get("me").status_code for made in (child, grandchild)} == {401}
    assert ada.get("me").status_code == 200


def test_a_revoked_token_works_no_more_and_only_its_owner_may_revoke_it(ada, eve):
    made = ada.post("me/tokens", ASK).json()
    assert eve.delete(f"me/tokens/{made['id']}").status_code == 404
    assert ada.delete(f"me/tokens/{made['id']}").status_code == 204
    assert Api(made["secret"]).get("me").status_code == 401
    assert ada.delete(f"me/tokens/{made['id']}").status_code == 404
    assert ada.delete("me/tokens/" + "9" * 40).status_code == 404


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"name": ""}, "/name"), ({"name": "a\0b"}, "/name"), ({"name": "x" * 65}, "/name"), ({"name": ["x"]}, "/name"),
        ({"scopes": []}, "/scopes"), ({"scopes": ["root"]}, "/scopes"), ({"scopes": "jobs:read"}, "/scopes"),
        ({"days": 0}, "/days"), ({"days": 10**30}, "/days"), ({"days": "soon"}, "/days"),
    ],
)  # fmt: skip
def test_a_token_that_cannot_be_is_refused_by_field(ada, wrong, pointer):
    refused = ada.post("me/tokens", {**ASK, **wrong})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"].startswith(pointer)
    assert ApiToken.objects.count() == 1


def test_use_is_noted_at_most_once_a_minute(ada, django_assert_num_queries):
    ada.get("version")
    noted = ApiToken.objects.get().last_used_at
    with django_assert_num_queries(1):
        ada.get("version")
    assert noted is not None and ApiToken.objects.get().last_used_at == noted


def test_a_page_calls_by_its_session_and_needs_its_csrf_token_to_write(cast, settings):
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.ada)
    own = {"Origin": settings.TESSERA_PUBLIC_URL}
    me = client.get("/api/v1/me").json()
    assert me["token"] is None and me["scopes"] == list(SCOPES)
    refused = client.post("/api/v1/jobs", {"run": "true"}, content_type="application/json", headers=own)
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf_failed")


def test_a_session_with_its_csrf_token_may_write(cast, settings, rf):
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.ada)
    session = client.session
    session["_csrftoken"] = "a" * 32
    session.save()
    own = {"Origin": settings.TESSERA_PUBLIC_URL, "X-CSRFToken": "a" * 32}
    made = client.post("/api/v1/jobs", {"run": "true"}, content_type="application/json", headers=own)
    assert made.status_code == 201
    foreign = {**own, "Origin": "https://evil.example"}
    assert (
        client.post("/api/v1/jobs", {"run": "x"}, content_type="application/json", headers=foreign).status_code == 403
    )


def test_a_suspended_person_has_no_session_left(cast):
    client = Client()
    client.force_login(cast.ada)
    cast.ada.suspended_at = cast.ada.joined_at
    cast.ada.save()
    assert client.get("/api/v1/me").status_code == 401


def test_ssh_keys_come_and_go_and_need_their_scope(ada, eve, cast):
    made = ada.post("me/ssh-keys", {"key": make.ssh_key(), "name": "laptop"})
    assert (made.status_code, made.json()["name"], made.json()["kind"]) == (201, "laptop", "ssh-ed25519")
    assert [key["id"] for key in ada.get("me/ssh-keys").json()["results"]] == [made.json()["id"]]
    taken = eve.post("me/ssh-keys", {"key": make.ssh_key()}).json()["errors"][0]
    assert (taken["pointer"], taken["code"]) == ("/key", "ssh_key_of_another")
    weak = Api(make.token(cast.ada, "jobs:write"))
    assert weak.post("me/ssh-keys", {"key": make.ssh_key(2)}).status_code == 403
    assert eve.delete(f"me/ssh-keys/{made.json()['id']}").status_code == 404
    assert ada.delete(f"me/ssh-keys/{made.json()['id']}").status_code == 204


def test_an_ssh_key_may_have_an_end(ada):
    at = (timezone.now() + timedelta(days=3)).replace(microsecond=0).isoformat()
    asked = {"key": make.ssh_key(), "expires_at": at}
    assert ada.post("me/ssh-keys", asked).json()["expires_at"] == at.replace("+00:00", "Z")
    for wrong, code in (("2020-01-01T00:00:00Z", "in_the_past"), ("soon", "invalid"), (7, "invalid")):
        refused = ada.post("me/ssh-keys", {"key": make.ssh_key(2), "expires_at": wrong})
        [error] = refused.json()["errors"]
        assert (refused.status_code, error["pointer"], error["code"]) == (400, "/expires_at", code)


def test_a_key_ends_with_the_token_that_added_it(cast):
    token, secret = create_token(user=cast.ada, name="ci", scopes=["tokens:write"], days=5)
    ada = Api(secret)
    made = ada.post("me/ssh-keys", {"key": make.ssh_key()}).json()
    assert (made["made_by"], parse_datetime(made["expires_at"])) == (token.pk, token.expires_at)
    later = (token.expires_at + timedelta(seconds=1)).isoformat()
    refused = ada.post("me/ssh-keys", {"key": make.ssh_key(2), "expires_at": later})
    [error] = refused.json()["errors"]
    assert (refused.status_code, error["pointer"], error["code"]) == (400, "/expires_at", "ssh_key_outlives_token")


def test_revoking_a_token_removes_the_keys_of_all_that_it_made(ada, cast):
    child = Api(ada.post("me/tokens", {"name": "ci", "scopes": ["tokens:write"]}).json()["secret"])
    assert child.post("me/ssh-keys", {"key": make.ssh_key()}).status_code == 201
    by_hand = add_ssh_key(user=cast.ada, key=make.ssh_key(2))
    other = Api(make.token(cast.ada))
    assert other.post("me/ssh-keys", {"key": make.ssh_key(3)}).status_code == 201
    ada.delete(f"me/tokens/{ada.get('me').json()['token']['id']}")
    kept = other.get("me/ssh-keys").json()["results"]
    assert [key["fingerprint"] for key in kept if key["made_by"] is None] == [by_hand.fingerprint]
    assert len(kept) == 2 and find_key(by_hand.fingerprint)
    assert Event.objects.filter(verb="ssh_key_removed").count() == 1


def test_one_token_above_the_limit_is_refused_until_one_ends(ada, cast, settings):
    settings.TESSERA_MOST_TOKENS = 3
    expired = make.expired_token(cast.eve)
    ids = [ada.post("me/tokens", {"name": "ci", "scopes": ["jobs:read"]}).json()["id"] for _ in range(2)]
    refused = ada.post("me/tokens", {"name": "ci", "scopes": ["jobs:read"]})
    [error] = refused.json()["errors"]
    assert (refused.status_code, error["pointer"], error["code"]) == (400, "/name", "too_many_tokens")
    assert "as many tokens as a person may have, 3. Revoke" in error["detail"]
    ada.delete(f"me/tokens/{ids[0]}")
    assert ada.post("me/tokens", {"name": "ci", "scopes": ["jobs:read"]}).status_code == 201
    ApiToken.objects.filter(pk=ids[1]).update(expires_at="2020-01-01T00:00Z")
    assert ada.post("me/tokens", {"name": "ci", "scopes": ["jobs:read"]}).status_code == 201
    assert expired and create_token(user=cast.eve, name="mine", scopes=["jobs:read"])


def test_the_version_says_where_ssh_answers(nobody, settings, tmp_path):
    settings.TESSERA_DATA, settings.TESSERA_SSH_PORT = tmp_path, 8471
    assert nobody.get("version").json()["ssh"] is None
    kind, blob, _ = make.ssh_key().split()
    (tmp_path / "ssh_host_ed25519_key.pub").write_text(f"{kind} {blob}\n")
    ssh = nobody.get("version").json()["ssh"]
    assert (ssh["port"], ssh["host_key"]) == (8471, f"{kind} {blob}") and ssh["fingerprint"].startswith("SHA256:")
