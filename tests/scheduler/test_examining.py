"""What the doctor says of the platform itself. Of a cluster: tests/runtimes/kubernetes/test_installation_checks.py."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from cluster.models import Agent
from scheduler.health import installation_checks
from scheduler.models import Lease
from tests import make

pytestmark = pytest.mark.django_db


def found() -> dict[str, installation_checks.Finding]:
    return {one.about: one for one in installation_checks.run_installation_checks()}


@pytest.fixture
def rounds(settings, no_processes):
    """Both loops have just gone round. The database is on another disk."""
    settings.TESSERA_DISK_RESERVE_MIB = 0
    for name in installation_checks.LOOPS:
        Lease.objects.create(name=name, last_ok_at=timezone.now())


def test_all_is_well_where_the_loops_go_round(rounds):
    assert {name: one.tone for name, one in found().items()} == dict.fromkeys(
        ("database", "cycle", "reconcile", "agents", "valkey", "mail"), "ok"
    )


def test_a_jump_of_the_clock_is_told_while_deadlines_wait(rounds):
    Lease.objects.filter(name="cycle").update(clock_jump_s=-90_000)
    told = found()["clock"]
    assert told.tone == "note" and "jumped back by 1 day, 1:00:00" in told.words and "Nothing ends" in told.remedy


def test_little_room_beside_the_database_is_told(rounds, settings, monkeypatch):
    settings.TESSERA_DISK_RESERVE_MIB = 128
    tones = []
    for free in (2000, 1000, 100):
        monkeypatch.setattr(installation_checks, "free_mib", lambda free=free: free)
        tones.append(found()["disk"].tone)
    assert tones == ["ok", "note", "bad"] and "below 128 MiB" in found()["disk"].remedy


def test_a_loop_that_stands_still_is_bad_and_says_since_when(rounds):
    Lease.objects.filter(name="cycle").update(last_ok_at=timezone.now() - timedelta(minutes=5))
    Lease.objects.filter(name="reconcile").delete()
    seen = found()
    assert seen["cycle"].tone == seen["reconcile"].tone == "bad"
    assert "300 s ago" in seen["cycle"].words and "never succeeded" in seen["reconcile"].words


def test_a_machine_with_cards_and_no_agent_is_named_with_the_remedy(rounds):
    node = make.node("g1", pool=make.pool())
    make.gpu(node, simulated=False)
    seen = found()["agents"]
    assert seen.tone == "note" and "g1" in seen.words and seen.remedy.endswith("tessera agent add g1")


def test_an_agent_that_fell_silent_is_bad(rounds):
    make.agent("g1")
    Agent.objects.update(reported_at=timezone.now() - timedelta(hours=1))
    assert found()["agents"].tone == "bad" and "g1" in found()["agents"].words


def test_the_command_ends_badly_where_something_is_bad_and_speaks_json(rounds, capsys):
    call_command("doctor")
    assert "The loop of the scheduler goes round." in capsys.readouterr().out
    Lease.objects.all().delete()
    with pytest.raises(CommandError, match="2 of 6 are bad"):
        call_command("doctor", "--json")
    assert {one["about"] for one in json.loads(capsys.readouterr().out) if one["tone"] == "bad"} == {
        "cycle",
        "reconcile",
    }


def test_a_machine_whose_network_several_teams_share_is_told_with_the_remedy(rounds):
    words = "Jobs share the machine's network: apt install passt."
    make.node("one", pool=make.pool(), facts={"network": words})
    make.node("two", pool=make.pool("other"), facts={"network": "own"})
    make.team("red")
    assert "network" not in found()
    make.team("blue")
    told = found()["network"]
    assert told.tone == "note" and "network of one:" in told.words and told.remedy == words
