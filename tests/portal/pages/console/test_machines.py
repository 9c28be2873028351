"""The console's page of machines: several out of service and back, and agents that ask to join."""

import html
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cluster.agents import enrol_agent, take_report
from cluster.models import Agent, Enrolment, Node
from events.models import Event
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
LIST, SERVICE, INVITE = "/console/machines/", "/console/machines/service", "/console/machines/invite"


@pytest.fixture(autouse=True)
def here(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def root(cast):
    make.node("n2", pool=cast.dev)
    return browser(make.admin())


@pytest.fixture
def agent():
    return make.agent("g1", make.report(make.reported_gpu(0), make.reported_gpu(1, fault="<b>Lost</b>")))


def read(answer) -> str:
    return html.unescape(answer.content.decode())


def states() -> dict[str, str]:
    return dict(Node.objects.values_list("name", "state"))


def test_machines_are_found_by_name_pool_and_state(root, cast):
    make.node("far", pool=make.pool("lab"))
    assert all(f"/nodes/{name}/" in read(root.get(LIST)) for name in ("n1", "n2", "far"))
    only = read(root.get(f"{LIST}?pool=lab"))
    assert "/nodes/far/" in only and "/nodes/n1/" not in only
    assert "/nodes/n2/" in read(root.get(f"{LIST}?q=N2")) and "/nodes/n1/" not in read(root.get(f"{LIST}?q=N2"))
    assert "No machine matches" in read(root.get(f"{LIST}?state=DRAINING"))


def test_what_a_drain_ends_is_told_before_and_by_name(root, cast):
    batch = make.job(cast.ada, pool="dev", gpu="1/4", preemptible=True, name="sweep")
    stays = make.job(cast.eve, pool="dev", gpu="1/2", name="long")
    make.start(batch, cast.gpus[0])
    make.start(stays, cast.gpus[0])
    page = read(root.get(f"{SERVICE}?to=drain&node=n1&node=n2"))
    assert "1 job is stopped and queued again. 1 job runs on. When 1 of them ends is not known." in page
    assert page.index("sweep") < page.index("long") and "ada" in page and "eve" in page
    assert states() == {"n1": "READY", "n2": "READY"}  # nothing before it is confirmed
    assert "2 jobs run on" in read(root.get(f"{SERVICE}?to=cordon&node=n1"))
    assert "Nothing runs there now" in read(root.get(f"{SERVICE}?to=drain&node=n2"))


def test_several_are_drained_and_taken_back_together_with_a_reason(root, cast):
    done = root.post(SERVICE, {"to": "drain", "node": ["n1", "n2"], "why": " new fans "}, follow=True)
    assert "Drain: 2 machines." in read(done) and states() == {"n1": "DRAINING", "n2": "DRAINING"}
    rows = Event.objects.filter(kind="node", to_state="DRAINING")
    assert [(row.actor, row.params) for row in rows] == [("rita", {"why": "new fans"})] * 2
    assert "Draining: nothing new starts, and jobs that can be queued again are stopped. new fans" in read(
        root.get("/console/audit/?kind=node")
    )
    root.post(SERVICE, {"to": "uncordon", "node": ["n1", "n2"]})
    assert states() == {"n1": "READY", "n2": "READY"}


def test_what_cannot_be_done_changes_nothing(root):
    assert root.post(SERVICE, {"to": "drain", "node": ["n1", "gone"]}).status_code == 404
    assert "Choose one machine or several" in read(root.post(SERVICE, {"to": "drain"}, follow=True))
    assert "Choose one machine or several" in read(root.get(f"{SERVICE}?to=burn&node=n1", follow=True))
    too_long = root.post(SERVICE, {"to": "cordon", "node": "n1", "why": "x" * 201})
    assert too_long.status_code == 400 and "at most 200 characters" in read(too_long)
    assert states() == {"n1": "READY", "n2": "READY"}


def test_a_machine_is_invited_and_the_command_is_shown_once(root):
    shown = read(root.post(INVITE, {"node": " g1 "}))
    token = re.search(r"TESSERA_AGENT_TOKEN=(ten_[\w-]+) python -m agent --server http://testserver", shown)[1]
    page = read(root.get(LIST))
    assert token not in page and "invited by rita" in page
    assert enrol_agent(token=token, key=make.AGENT_KEY).node_name == "g1"
    assert "has a key, and has not reported yet" in read(root.get(LIST))
    assert Event.objects.get(kind="enrolment").actor == "rita"
    assert "The machine was invited" in read(root.get("/console/audit/?kind=enrolment"))
    wrong = root.post(INVITE, {"node": "../g1"})
    assert wrong.status_code == 400 and "g1" in read(wrong) and Enrolment.objects.count() == 1


def test_what_asks_to_join_is_approved_as_it_was_seen(root, agent):
    page = read(root.get(LIST))
    assert "2 × V100-32GB" in page and "GPU 0 is new: V100-32GB" in page and "GPU 1: <b>Lost</b>" in page
    seen = re.search(r'name="seen" value="([0-9a-f]+)"', page)[1]
    take_report(agent, make.report(make.reported_gpu(5)))
    late = root.post("/console/agents/g1/approve", {"seen": seen, "from": "machines"}, follow=True)
    assert "Someone else changed this" in read(late) and Agent.objects.get().approved == {}
    seen = re.search(r'name="seen" value="([0-9a-f]+)"', read(late))[1]
    root.post("/console/agents/g1/approve", {"seen": seen, "from": "machines"})
    assert len(Agent.objects.get().approved) == 1 and "asks to join" not in read(root.get(LIST))


def test_one_that_is_refused_speaks_no_more(root, agent):
    told = read(root.post("/console/agents/g1/refuse", follow=True))
    assert "The agent of g1 is refused" in told and "Machines that ask to join" not in told
    assert Agent.objects.get().revoked_at is not None
    assert Event.objects.get(kind="agent", verb="revoked").actor == "rita"
    assert root.post("/console/agents/nobody/refuse").status_code == 404


def test_an_auditor_looks_and_changes_nothing(root, agent):
    greta = browser(make.user("greta", platform_role="auditor"))
    page = read(greta.get(LIST))
    assert "GPU 0 is new" in page and 'name="seen"' not in page and 'name="node"' not in page
    for path in (SERVICE, INVITE, "/console/agents/g1/approve", "/console/agents/g1/refuse"):
        assert greta.post(path, {"to": "drain", "node": "n1"}).status_code == 403
    assert greta.get(f"{SERVICE}?to=drain&node=n1").status_code == 403
    assert set(states().values()) == {"READY"} and Agent.objects.get().revoked_at is None


def test_an_installation_without_machines_says_so():
    page = read(browser(make.admin()).get(LIST))
    assert "There is no machine yet" in page and "Invite a machine" in page


def test_the_list_costs_the_same_for_many_machines(root, cast):
    _first, few = count_queries(root), count_queries(root)
    for number in range(30):
        make.gpu(make.node(f"x{number}", pool=cast.dev), uuid=f"GPU-x{number}")
        make.agent(f"x{number}", make.report(make.reported_gpu(number)), key=make.AGENT_KEY + str(number))
    assert count_queries(root) <= few + 1  # of cards that are reported elsewhere, once there is an agent


def count_queries(person: Client) -> int:
    with CaptureQueriesContext(connection) as made:
        person.get(LIST)
    return len(made)
