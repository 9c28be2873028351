"""The console's pages of people and teams: one step to invite, to make an account, to take access away."""

import csv
import io
import re

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import ApiToken, LoginLink, Membership, PlatformRole, Team, User
from events.models import Event
from quotas.models import Holding
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cheap(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def root(cast):
    return browser(make.admin())


def links(answer, path: str) -> list[str]:
    return sorted(set(re.findall(rf"http://testserver(/{path}/[\w-]+)", answer.content.decode())))


def test_one_step_invites_several_people_by_mail_and_shows_each_link_once(root, cast):
    given = {"emails": "hugo@lab.example; iris@lab.example,hugo@lab.example", "team": cast.nlp.pk, "role": "viewer"}
    answer = root.post("/console/people/invite", given)
    made = links(answer, "join")
    assert len(made) == 2 == LoginLink.objects.filter(team=cast.nlp, role="viewer").count()
    assert [message.to for message in mail.outbox] == [["hugo@lab.example"], ["iris@lab.example"]]
    assert all(any(path in message.body for message in mail.outbox) for path in made)
    assert links(root.get("/console/people/"), "join") == []
    assert "2 invitations have not been used" in root.get("/console/people/").content.decode()


def test_a_mail_server_that_is_away_loses_no_link(root, cast, monkeypatch):
    monkeypatch.setattr(EmailMessage, "send", lambda self: (_ for _ in ()).throw(OSError("away")))
    answer = root.post("/console/people/invite", {"emails": "a@b.example", "team": cast.nlp.pk, "role": "member"})
    assert len(links(answer, "join")) == 1
    assert "The mail server did not take it: send the link yourself." in answer.content.decode()


def test_what_is_no_address_is_named_and_invites_nobody(root, cast):
    answer = root.post(
        "/console/people/invite", {"emails": "a@b.example, nobody", "team": cast.nlp.pk, "role": "member"}
    )
    assert answer.status_code == 400 and "“nobody” is not a mail address." in answer.content.decode()
    assert not LoginLink.objects.exists() and not mail.outbox


def test_an_account_in_a_team_with_its_link_is_one_form(root, cast):
    answer = root.post("/console/people/new", {"username": "nina", "team": cast.nlp.pk, "role": "lead"})
    (path,) = links(answer, "sign-in")
    assert Membership.objects.get(user__username="nina").role == "lead"
    assert Client().get(path).status_code == 200
    again = root.post("/console/people/new", {"username": "NINA", "team": cast.nlp.pk, "role": "lead"})
    assert again.status_code == 400 and "taken" in again.content.decode()


def test_a_person_is_found_changed_suspended_and_let_in_again(root, cast):
    User.objects.filter(pk=cast.eve.pk).update(full_name="Eve Strange")
    page = root.get("/console/people/?q=strange").content.decode()
    assert "Eve Strange" in page and "/console/people/ada/" not in page
    root.post("/console/people/eve/", {"full_name": "Eve S", "email": "e@b.example", "platform_role": "auditor"})
    cast.eve.refresh_from_db()
    assert (cast.eve.full_name, cast.eve.email, cast.eve.platform_role) == ("Eve S", "e@b.example", "auditor")
    root.post("/console/people/eve/access", {"to": "suspended"})
    assert "/console/people/eve/" in root.get("/console/people/?state=suspended").content.decode()
    assert "Restore access" in root.get("/console/people/eve/").content.decode()
    root.post("/console/people/eve/access", {"to": "active"})
    assert User.objects.get(pk=cast.eve.pk).is_active


def test_an_admin_keeps_their_own_role_and_is_told_so(root):
    answer = root.post("/console/people/rita/", {"full_name": "", "email": "", "platform_role": "none"})
    assert answer.status_code == 400 and "You cannot give up your own role" in answer.content.decode()
    assert User.objects.get(username="rita").is_admin


def test_teams_are_made_and_members_come_change_and_go(root, cast):
    made = root.post("/console/teams/", {"name": "speech", "title": "Speech", "parent": cast.nlp.pk})
    assert made.url == "/console/quotas/#team-speech" and Team.objects.get(name="speech").parent == cast.nlp
    root.post("/console/teams/speech/members", {"person": "eve", "role": "member"})
    root.post("/console/people/eve/membership", {"team": "speech", "role": "lead", "from": "team"})
    assert Membership.objects.get(team__name="speech").role == "lead"
    assert "The role of eve became lead" in root.get("/console/teams/speech/").content.decode()
    root.post("/console/people/eve/membership", {"team": "speech", "remove": "1", "from": "team"})
    assert not Membership.objects.filter(team__name="speech").exists()
    wrong = root.post("/console/teams/speech/members", {"person": "zoe", "role": "member"})
    assert wrong.status_code == 400 and "There is no person “zoe”" in wrong.content.decode()
    below = root.post("/console/teams/nlp/", {"title": "", "parent": Team.objects.get(name="speech").pk})
    assert below.status_code == 400 and "A team cannot be below itself" in below.content.decode()


def test_an_auditor_sees_every_page_and_no_button_that_changes(cast):
    auditor = browser(make.user("otto", platform_role=PlatformRole.AUDITOR))
    for path in ("", "people/", "people/ada/", "teams/", "teams/nlp/", "quotas/", "audit/"):
        page = auditor.get(f"/console/{path}")
        assert page.status_code == 200
        main = page.content.decode().partition("<main")[2]
        assert 'method="post"' not in main, path
    assert auditor.post("/console/people/ada/access", {"to": "suspended"}).status_code == 403
    assert auditor.post("/console/teams/", {"name": "robots"}).status_code == 403


def test_the_overview_says_what_needs_a_person(root, cast):
    make.team("robots")
    page = root.get("/console/").content.decode()
    assert "1 thing needs a person." in page and "robots has no quota" in page
    make.quota(Team.objects.get(name="robots"), cast.dev)
    assert "Nothing needs a person" in root.get("/console/").content.decode()


def test_the_audit_log_is_filtered_by_who_what_and_when_and_sent_as_csv(root, cast):
    root.post("/console/people/eve/access", {"to": "suspended"})
    root.post("/console/teams/", {"name": "speech", "title": ""})
    page = root.get("/console/audit/?kind=team").content.decode()
    assert "The team was created" in page and "Access was suspended" not in page
    assert "Nothing matches" in root.get("/console/audit/?actor=ada").content.decode()
    assert "Nothing matches" in root.get("/console/audit/?until=2001-01-01").content.decode()
    assert "Access was suspended" in root.get("/console/audit/?since=2001-01-01&q=eve").content.decode()
    lines = root.get("/console/audit.csv").content.decode().splitlines()
    assert lines[0].startswith("id,at,actor,via,address") and len(lines) == 3
    assert "127.0.0.1" in lines[1] and "speech" in lines[1]
    assert Event.objects.filter(kind="team", address="127.0.0.1", via="").exists()


def test_the_list_says_when_people_were_seen_and_what_they_held(root, cast):
    (task,) = make.start(make.job(cast.ada, pool="dev", gpu="1/2"))
    make.use(task, hours=10)
    held = Holding.objects.get(task=task.uuid, gpu__isnull=False).gpu_milli / 100
    assert f'<td class="num">{held:.1f}</td>' in root.get("/console/people/?q=ada").content.decode()
    assert "never" in root.get("/console/people/?q=ada").content.decode()
    make.token(cast.ada)
    ApiToken.objects.filter(user=cast.ada).update(last_used_at="2026-03-01T10:00Z")
    User.objects.filter(pk=cast.ada.pk).update(last_login="2026-02-01T10:00Z")
    for path in ("/console/people/?q=ada", "/console/people/ada/"):
        assert "2026-03-01T10:00:00+00:00" in root.get(path).content.decode()


def test_people_are_sent_as_csv_as_the_list_finds_them(root, cast):
    suspended = {"full_name": '=HYPERLINK("http://evil.example")', "suspended_at": timezone.now()}
    User.objects.filter(pk=cast.eve.pk).update(**suspended)
    (task,) = make.start(make.job(cast.bob, pool="dev", gpu="1/2"))
    make.use(task, hours=10)
    answer = root.get("/console/people.csv")
    assert answer["Content-Disposition"] == 'attachment; filename="people.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [row["username"] for row in rows] == ["ada", "bob", "eve", "rita"]
    assert rows[1]["teams"] == "nlp:lead" and rows[1]["running"] == "1" and 4 < float(rows[1]["gpu_h_30d"]) < 6
    assert rows[2]["full_name"].startswith("'=HYPERLINK") and rows[2]["state"] == "suspended"
    assert rows[0]["seen_at"] == "" and rows[3]["platform_role"] == "admin"
    only = root.get("/console/people.csv?team=vision&state=suspended").content.decode().splitlines()
    assert len(only) == 2 and only[1].startswith("eve,")


def test_the_list_costs_the_same_for_many_people(root, cast):
    _first, few = count_queries(root), count_queries(root)
    for number in range(30):
        make.user(f"p{number}", cast.nlp)
    assert count_queries(root) == few


def count_queries(person: Client) -> int:
    with CaptureQueriesContext(connection) as made:
        person.get("/console/people/")
    return len(made)
