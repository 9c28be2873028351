"""What machines say of their health: as it is now, since when, and what changed."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Agent
from monitoring.checks import check_version, drop_old_changes, list_changes, list_checks, list_wrong_checks
from monitoring.models import NodeCheck, NodeCheckChange
from monitoring.samples.ingest import take_samples
from monitoring.samples.wire import read_body
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    return make.cast()


def say(world, *checks: dict, run="boot/1", seq=1):
    tick = {"seq": seq, "age_ms": 0, "up_ms": 1000 * seq, "cards": [], "tasks": []}
    return take_samples(world.node, {"run": run, "first": seq, "ticks": [tick], "checks": list(checks)})


def states(node) -> dict[str, str]:
    return {check.name: check.state for check in list_checks(node)}


def xid(world, state="fail", words="XID 79", count=1) -> dict:
    return {"name": "gpu_xid", "card": world.gpus[0].uuid, "state": state, "words": words, "count": count}


def test_a_check_is_kept_with_its_words_and_failing_ones_come_first(world):
    say(world, {"name": "clock_skew", "state": "ok"}, {"name": "inodes", "state": "warn", "words": "91 %"}, xid(world))
    found = list_checks(world.node)
    assert [check.name for check in found] == ["gpu_xid", "inodes", "clock_skew"]
    assert (found[0].words, found[0].count, found[0].card) == ("XID 79", 1, world.gpus[0].uuid)
    assert [check.name for check in list_wrong_checks()] == ["gpu_xid", "inodes"]
    assert {change.name for change in list_changes(world.node, 9)} == {
        "gpu_xid",
        "inodes",
    }  # that all is well is no news


@pytest.mark.parametrize(
    ("agent", "platform", "state"),
    [("0.1.0", "0.1.0", "ok"), ("0.9.9", "0.10.0", "warn"), ("1.0.0", "0.10.0", "ok"), ("", "0.1.0", "unknown")],
)
def test_an_agent_older_than_the_platform_warns(agent, platform, state):
    check = check_version(agent, platform)
    assert (check.name, check.state) == ("agent_old", state) and bool(check.words) == (state != "ok")


def test_the_version_that_an_agent_reported_is_judged_with_its_checks(world):
    Agent.objects.create(node_name=world.node.name, digest=b"x", report={"agent": "0.0.9"})
    say(world, {"name": "inodes", "state": "ok"})
    assert states(world.node) == {"agent_old": "warn", "inodes": "ok"}


def test_since_when_is_from_the_last_change_of_its_state_and_each_is_history(world):
    say(world, xid(world))
    begun = timezone.now() - timedelta(hours=3)
    NodeCheck.objects.update(since=begun)
    say(world, xid(world, count=2, words="XID 79, twice"), seq=2)
    (check,) = list_checks(world.node)
    assert (check.since, check.count) == (begun, 2) and NodeCheckChange.objects.count() == 1
    say(world, xid(world, "ok", "", 0), seq=3)
    (check,) = list_checks(world.node)
    assert check.since > begun and [change.state for change in list_changes(world.node, 9)] == ["ok", "fail"]


def test_what_is_told_no_more_is_gone_and_what_nobody_told_lately_is_not_known(world):
    say(world, xid(world), {"name": "inodes", "state": "warn"})
    say(world, {"name": "inodes", "state": "warn"}, seq=2)
    assert states(world.node) == {"inodes": "warn"}
    NodeCheck.objects.update(seen_at=timezone.now() - timedelta(minutes=6))
    assert states(world.node) == {} and list_wrong_checks() == []


def test_a_body_without_checks_leaves_them_and_a_card_of_another_machine_is_ignored(world):
    say(world, xid(world), {"name": "gpu_xid", "card": "GPU-elsewhere", "state": "fail"})
    take_samples(world.node, {"run": "boot/1", "first": 2, "ticks": []})
    assert states(world.node) == {"gpu_xid": "fail"}


def test_what_makes_no_sense_is_dropped_and_counted(world):
    bad = [
        {"name": "Bad Name", "state": "ok"},
        {"name": "inodes", "state": "excellent"},
        {"name": "inodes", "state": "ok", "words": 7},
        {"name": "inodes", "state": "ok", "card": "x" * 101},
        "text",
    ]
    body = read_body({"run": "r", "ticks": [], "checks": [*bad, {"name": "inodes", "state": "ok", "words": "w" * 999}]})
    assert body.refused.total() == 5 and [len(check.words) for check in body.checks] == [300]
    assert read_body({"run": "r", "ticks": []}).checks is None
    assert read_body({"run": "r", "ticks": [], "checks": "all well"}).checks == []


def test_history_is_kept_for_a_year(world):
    say(world, xid(world))
    NodeCheckChange.objects.update(at=timezone.now() - timedelta(days=366))
    drop_old_changes()
    assert not NodeCheckChange.objects.exists()
