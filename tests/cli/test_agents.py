"""`tessera agent`: against the real portal, as an admin and as somebody else."""

import json

import pytest

from cluster.agents import enrol_agent, take_report
from cluster.models import Agent
from tests import make


@pytest.fixture
def root(portal, cast, tessera):
    signed_in = tessera("login", portal, "--token-stdin", input=make.token(make.admin()) + "\n")
    assert signed_in.exit_code == 0, signed_in.stderr
    return tessera


@pytest.fixture
def agent(cast):
    return make.agent("g1", make.report(make.reported_gpu(0), make.reported_gpu(1, fault="It is lost.")))


def test_a_machine_is_let_in_by_what_is_printed(root, portal):
    added = root("agent", "add", "g1")
    token = added.stdout.partition("TESSERA_AGENT_TOKEN=")[2].partition(" ")[0]
    assert added.stdout.endswith(f"python -m agent --server {portal}\n") and "approve g1" in added.stderr
    assert enrol_agent(token=token, key=make.AGENT_KEY).node_name == "g1"
    assert "g1" in root("agent", "ls").stdout and root("agent", "ls", "-o", "name").stdout == "g1\n"


def test_what_waits_is_shown_and_approved_when_one_says_yes(root, agent):
    assert root("agent", "ls").stdout.splitlines()[1].split()[-3:] == ["2xV100-32GB", "1", "2"]
    shown = root("agent", "show", "g1").stdout
    assert "GPU 1: It is lost." in shown and "GPU 0 is new: V100-32GB" in shown
    refused = root("agent", "approve", "g1", input="n\n")
    assert refused.exit_code == 2 and Agent.objects.get().approved == {}
    assert root("agent", "approve", "g1", input="y\n").stdout.endswith("g1 is approved.\n")
    assert len(Agent.objects.get().approved) == 2
    assert "Nothing of g1 waits" in root("agent", "approve", "g1").stderr
    assert json.loads(root("agent", "show", "g1", "-o", "json").stdout)["gpus"][0]["approved"] is True


def test_an_agent_is_revoked(root, agent):
    assert "speaks no more" in root("agent", "revoke", "g1").stderr
    assert root("agent", "ls").stdout.splitlines()[1].split()[1] == "revoked"


def test_a_machine_is_drained_and_taken_back(root, cast):
    job = make.job(cast.ada, gpu="1/4", pool="dev")
    make.start(job)
    assert root("nodes", "ls").stdout.splitlines()[1].split()[:7] == ["n1", "ready", "dev", "2", "1", "?", "?"]
    drained = root("nodes", "drain", "n1", "--why", "new fans").stdout
    assert drained == f"n1 is draining; 1 task runs there: {job.public_id}.\n"
    assert root("nodes", "cordon", "n1").stdout.startswith("n1 is cordoned;")
    assert root("nodes", "uncordon", "n1", "-o", "name").stdout == "n1\n"
    assert "does not exist" in root("nodes", "drain", "n9").stderr


def test_it_is_said_to_which_switch_a_machine_is_connected(root, cast):
    assert root("nodes", "switch", "n1", "leaf-3").stdout == "n1 is connected to switch leaf-3\n"
    assert "switch leaf-3" in root("nodes", "show", "n1").stdout
    assert root("nodes", "switch", "n1", "").stdout == "n1 is connected to no known switch\n"
    assert "63" in root("nodes", "switch", "n1", "x" * 64).stderr


def test_one_card_is_cordoned_and_taken_back(root, cast):
    closed = root("nodes", "cordon", "n1:0", "--why", "fans are replaced").stdout
    assert closed == "n1:0 is out of service: fans are replaced\n"
    assert root("nodes", "uncordon", "n1:0").stdout == "n1:0 is in service\n"
    assert "why" in root("nodes", "cordon", "n1:0").stderr
    assert "n1 has no card 7" in root("nodes", "cordon", "n1:7", "--why", "x").stderr
    assert "cordoned, not drained" in root("nodes", "drain", "n1:0").stderr


def test_who_is_no_admin_is_told_so(ada, agent):
    take_report(agent, make.report(make.reported_gpu(0)))
    for words in (("add", "g2"), ("approve", "g1", "-y"), ("revoke", "g1")):
        refused = ada("agent", *words)
        assert refused.exit_code == 4 and "administrator" in refused.stderr
    assert ada("agent", "show", "g9").exit_code == 3
