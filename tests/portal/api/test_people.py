"""People, teams and members by REST: admins change, auditors read, and each change is in the history."""

import pytest

from accounts.models import LoginLink, PlatformRole, User
from events.models import Event
from tests import make
from tests.api_client import BASE, Api

pytestmark = pytest.mark.django_db


def patch(api: Api, path: str, body: dict):
    return api.client.patch(BASE + path, body, content_type="application/json", headers=api.headers)


@pytest.fixture
def rita(cast):
    return make.admin()


@pytest.fixture
def root(rita):
    return Api(make.token(rita))


def test_an_admin_makes_an_account_in_a_team_and_a_link_that_signs_in(root):
    made = root.post("people", {"username": "nina", "full_name": "Nina N", "team": "nlp", "role": "lead"})
    assert made.status_code == 201 and made["Location"].endswith("/people/nina")
    assert made.json()["teams"] == [{"name": "nlp", "role": "lead"}]
    link = root.post("people/nina:link", {}).json()
    assert "/sign-in/" in link["url"]
    assert LoginLink.objects.get().user.username == "nina" and LoginLink.objects.get().created_by.username == "rita"


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/username", "required"),
        ({"username": "root"}, "/username", "reserved_username"),
        ({"username": "No!"}, "/username", "bad_value"),
        ({"username": "nina", "team": "nobodys"}, "/team", "no_such_team"),
        ({"username": "nina", "email": "no address"}, "/email", "invalid"),
        ({"username": "nina", "uid": 999}, "/uid", "min_value"),
    ],
)
def test_an_account_that_makes_no_sense_is_refused_at_its_field(root, body, pointer, code):
    answer = root.post("people", body)
    assert answer.status_code == 400
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert not User.objects.filter(username__iexact="nina").exists()


def test_a_name_is_given_once(root):
    answer = root.post("people", {"username": "ADA".lower()})
    assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")


def test_people_are_found_by_a_part_of_a_name_a_team_and_whether_they_are_suspended(root, cast, rita):
    User.objects.filter(pk=cast.eve.pk).update(full_name="Eve Strange", suspended_at="2026-01-01T00:00Z")

    def names(query):
        return [row["username"] for row in root.get(f"people?{query}").json()["results"]]

    assert names("q=strange") == ["eve"] == names("suspended=true") == names("team=vision")
    assert names("suspended=false") == ["ada", "bob", "rita"]
    assert names("limit=2&sort=-username") == ["rita", "eve"]


def test_a_suspended_person_is_out_at_once_and_comes_back(root, cast, ada):
    assert ada.get("me").status_code == 200
    assert patch(root, "people/ada", {"suspended": True}).json()["suspended_at"]
    assert ada.get("me").status_code == 401
    assert root.post("people/ada:link", {}).json()["errors"][0]["code"] == "suspended_person"
    assert patch(root, "people/ada", {"suspended": False, "full_name": "Ada L"}).json()["suspended_at"] is None
    assert ada.get("me").json()["full_name"] == "Ada L"


@pytest.mark.parametrize(
    ("body", "code"), [({"suspended": True}, "own_suspension"), ({"platform_role": "none"}, "own_role")]
)
def test_an_admin_does_not_lock_the_platform(root, rita, body, code):
    answer = patch(root, "people/rita", body)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, code)
    rita.refresh_from_db()
    assert rita.is_admin


def test_an_auditor_reads_and_changes_nothing(cast):
    auditor = Api(make.token(make.user("otto", platform_role=PlatformRole.AUDITOR)))
    assert auditor.get("people").status_code == auditor.get("people/ada").status_code == 200
    refused = [
        auditor.post("people", {"username": "nina"}),
        patch(auditor, "people/ada", {"full_name": "X"}),
        auditor.post("teams", {"name": "robots"}),
        auditor.post("teams/nlp/members", {"person": "eve"}),
    ]
    assert {answer.status_code for answer in refused} == {403}


def test_members_come_change_and_go(root, cast, bob, eve):
    added = root.post("teams/nlp/members", {"person": "eve", "role": "viewer"})
    assert added.status_code == 201 and added["Location"].endswith("/teams/nlp/members/eve")
    assert [row["person"] for row in bob.get("teams/nlp/members").json()["results"]] == ["ada", "bob", "eve"]
    assert patch(root, "teams/nlp/members/eve", {"role": "lead"}).json()["role"] == "lead"
    assert root.delete("teams/nlp/members/eve").status_code == 204
    assert eve.get("teams/nlp").status_code == 404 == root.delete("teams/nlp/members/eve").status_code
    lines = Event.objects.filter(kind="team").values_list("verb", "params__from__role", "params__to__role", "via")
    via = root.headers["Authorization"].split()[1][:10]
    assert list(lines) == [
        ("member_added", None, "viewer", via),
        ("member_changed", "viewer", "lead", via),
        ("member_removed", "lead", None, via),
    ]


def test_a_role_that_stays_leaves_no_line(root, cast):
    assert root.post("teams/nlp/members", {"person": "ada", "role": "member"}).status_code == 201
    assert not Event.objects.filter(kind="team").exists()
    assert root.post("teams/nlp/members", {"person": "zoe"}).json()["errors"][0]["code"] == "no_such_person"


def test_a_team_is_made_below_another_but_never_below_itself(root, cast, ada):
    made = root.post("teams", {"name": "speech", "title": "Speech", "parent": "nlp"}).json()
    assert (made["parent"], made["members"]) == ("nlp", 0)
    answer = patch(root, "teams/nlp", {"parent": "speech"})
    assert answer.json()["errors"][0]["code"] == "team_below_itself"
    assert patch(root, "teams/speech", {"parent": None, "title": ""}).json()["parent"] is None
    assert [row["name"] for row in ada.get("teams").json()["results"]] == ["nlp"]


def test_an_invitation_brings_one_person_into_the_team(root, cast):
    path = root.post("people:invite", {"team": "nlp", "role": "viewer"}).json()["url"]
    assert "/join/" in path
    assert (LoginLink.objects.get().team, LoginLink.objects.get().role) == (cast.nlp, "viewer")
    assert root.post("people:invite", {"team": "x"}).json()["errors"][0]["pointer"] == "/team"


def test_every_change_says_who_from_where_and_what_it_was(root, cast, rita):
    patch(root, "people/ada", {"email": "ada@example.org"})
    event = Event.objects.get(kind="user", verb="changed")
    assert (event.actor, event.object_id, event.address) == ("rita", cast.ada.pk, "127.0.0.1")
    assert event.params == {"from": {"email": ""}, "to": {"email": "ada@example.org"}}
    assert event.request_id and event.via.startswith("tes_")
