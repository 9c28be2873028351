"""The console's pages on agents: a machine is invited, what waits is approved as it was seen, a key is revoked."""

import html
import re

import pytest
from django.test import Client

from cluster.agents import enrol_agent, take_report
from cluster.models import Agent, Enrolment
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
AGENTS, ENROLMENTS = "/admin/cluster/agent/", "/admin/cluster/enrolment/"


@pytest.fixture(autouse=True)
def _same_origin(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"


@pytest.fixture
def root():
    make.pool("dev")
    return browser(make.admin())


@pytest.fixture
def agent():
    return make.agent("g1", make.report(make.reported_gpu(0), make.reported_gpu(1, fault="<b>Lost</b>")))


def page_of(person: Client, agent: Agent) -> str:
    return person.get(f"{AGENTS}{agent.pk}/change/").content.decode()


def approve(person: Client, agent: Agent, page: str):
    seen = re.search(r'name="seen" value="([0-9a-f]+)"', page)[1]
    return person.post(f"{AGENTS}{agent.pk}/change/", {"approve": "on", "seen": seen}, follow=True)


def test_a_machine_is_invited_and_the_token_is_shown_once(root):
    shown = html.unescape(root.post(f"{ENROLMENTS}add/", {"node_name": "g1"}, follow=True).content.decode())
    token = re.search(r"TESSERA_AGENT_TOKEN=(ten_[\w-]+) python -m agent --server http://testserver", shown)[1]
    assert token not in root.get(ENROLMENTS).content.decode()
    assert enrol_agent(token=token, key=make.AGENT_KEY).node_name == "g1"
    assert "used" in root.get(ENROLMENTS).content.decode()
    assert root.post(f"{ENROLMENTS}add/", {"node_name": "../g1"}).status_code == 200  # the form again, with its error
    assert Enrolment.objects.count() == 1


def test_what_waits_is_listed_and_approved(root, agent):
    page = page_of(root, agent)
    assert "GPU 0 is new: V100-32GB" in page and "GPU 1: &lt;b&gt;Lost&lt;/b&gt;" in page
    assert "2 × V100-32GB" in root.get(AGENTS).content.decode()
    approve(root, agent, page)
    agent.refresh_from_db()
    assert len(agent.approved) == 2 and "is new" not in page_of(root, agent)


def test_nothing_is_approved_that_nobody_looked_at(root, agent):
    page = page_of(root, agent)
    take_report(agent, make.report(make.reported_gpu(5)))
    assert "Someone else changed this" in approve(root, agent, page).content.decode()
    agent.refresh_from_db()
    assert agent.approved == {}


def test_to_save_without_approving_approves_nothing(root, agent):
    root.post(f"{AGENTS}{agent.pk}/change/", {"seen": ""})
    agent.refresh_from_db()
    assert agent.approved == {}


def test_a_key_is_revoked(root, agent):
    root.post(AGENTS, {"action": "revoke", "_selected_action": [agent.pk]})
    agent.refresh_from_db()
    assert agent.revoked_at is not None and "revoked" in root.get(AGENTS).content.decode()


def test_an_auditor_looks_and_changes_nothing(root, agent):
    greta = browser(make.user("greta", platform_role="auditor"))
    page = page_of(greta, agent)
    assert "GPU 0 is new" in page and 'name="approve"' not in page
    assert greta.post(f"{AGENTS}{agent.pk}/change/", {"approve": "on", "seen": ""}).status_code == 403
    assert greta.post(f"{ENROLMENTS}add/", {"node_name": "g2"}).status_code == 403
    assert greta.post(AGENTS, {"action": "revoke", "_selected_action": [agent.pk]}).status_code in {200, 302, 403}
    agent.refresh_from_db()
    assert agent.approved == {} and agent.revoked_at is None
