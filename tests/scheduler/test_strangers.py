"""Containers that no row knows: told, and never ended by a timer where they ever ran."""

import time
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from images.models import Fetch
from jobs.models import Task
from jobs.states import TaskState
from runtimes.contract.container import ContainerView
from runtimes.contract.node import NodeView
from runtimes.contract.task import TaskSpec
from scheduler.health import installation_checks
from scheduler.management.commands import strangers as command
from scheduler.reconcile.actions import decode_action, encode_action, run_actions
from scheduler.reconcile.compare import Forget, Stop
from scheduler.reconcile.orphans import SEARCH_EVERY_S, UNKNOWN_S, OrphanCleanup, load_orphans
from tests import make
from tests.fakes.runtime import FakeRuntime
from tests.scheduler.test_watching import Scene

pytestmark = pytest.mark.django_db
NODE = NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())


def spec(run: str = "sleep 600") -> TaskSpec:
    return TaskSpec(uuid4().hex, "job-9 main.0", 1, "n1", run)


def waiting(uuid: str = "a" * 32) -> ContainerView:
    return ContainerView(uuid, "n1", "starting")


@pytest.fixture
def runtime(monkeypatch):
    runtime = FakeRuntime([NODE])
    for module in (command, installation_checks):
        monkeypatch.setattr(module, "get_runtime", lambda: runtime)
    return runtime


def test_only_what_no_row_knows_is_a_stranger():
    job = make.job(make.cast().ada)
    make.start(job, state=TaskState.RUNNING)
    known = ContainerView(Task.objects.get().uuid.hex, "n1", "running")
    assert load_orphans([known, waiting()]) == [waiting()]


def test_what_fetches_an_image_ahead_is_none():
    node = make.node("n1", pool=make.pool())
    fetch = Fetch.objects.create(node=node, uuid=uuid4(), pinned="registry.local/a@sha256:0")
    assert load_orphans([waiting(fetch.uuid.hex), waiting()]) == [waiting()]


def test_what_ran_is_never_ended_by_itself():
    strangers, ran = OrphanCleanup(), timezone.now()
    for view in (
        ContainerView("a" * 32, "n1", "running", started_at=ran),
        ContainerView("b" * 32, "n1", "lost"),
        ContainerView("c" * 32, "n1", "exited", started_at=ran, ended_at=ran),
    ):
        assert [strangers.plan_orphan_cleanup([view], now) for now in (0.0, UNKNOWN_S, 1000 * UNKNOWN_S)] == [
            [],
            [],
            [],
        ]


def test_what_never_ran_is_removed_when_it_was_unknown_for_long():
    strangers = OrphanCleanup()
    assert (
        strangers.plan_orphan_cleanup([waiting()], 0.0)
        == strangers.plan_orphan_cleanup([waiting()], UNKNOWN_S - 1)
        == []
    )
    assert strangers.plan_orphan_cleanup([waiting()], UNKNOWN_S) == [Stop("a" * 32, 0, "", mark=False, unless_ran=True)]
    ended = ContainerView("a" * 32, "", "exited", cause="never_started")
    assert strangers.plan_orphan_cleanup([ended], UNKNOWN_S + 1) == [Forget("a" * 32)]


def test_what_was_known_in_between_is_unknown_anew():
    strangers = OrphanCleanup()
    strangers.plan_orphan_cleanup([waiting()], 0.0)
    strangers.plan_orphan_cleanup([], 300.0)
    assert strangers.plan_orphan_cleanup([waiting()], UNKNOWN_S) == []


def test_the_watch_removes_it_and_nothing_else(db, monkeypatch):
    scene = Scene()
    scene.runtime.start_delay = timedelta(days=1)
    idle, busy = spec(), spec()
    scene.runtime.start(idle)
    scene.runtime.start_delay = timedelta()
    scene.runtime.start(busy)
    monkeypatch.setattr("scheduler.reconcile.watch_loop.TIDY_S", -1.0)
    began = time.monotonic()
    for now in (began, began + UNKNOWN_S + 1):
        scene.watch._tidy(now, scene.epoch)
    orders = [order for orders in scene.sent for order in orders]
    assert [order.action for order in orders] == [Stop(idle.uuid, 0, "", mark=False, unless_ran=True)]
    scene.runtime.advance(timedelta(days=1).total_seconds())  # it begins to run before a worker comes to this
    run_actions([decode_action(encode_action(order)) for order in orders], scene.runtime)
    assert {view.uuid: view.phase for view in scene.runtime.list_containers()}[idle.uuid] == "running"


def test_the_doctor_names_it_with_the_remedy(runtime):
    assert "strangers" not in {one.about for one in installation_checks.run_installation_checks()}
    one = spec()
    runtime.start(one)
    found = {one.about: one for one in installation_checks.run_installation_checks()}["strangers"]
    assert found.tone == "bad" and f"{one.uuid} on n1" in found.words and "manage.py strangers" in found.remedy


def test_the_command_lists_and_ends_what_it_is_told_to(runtime, capsys, monkeypatch):
    call_command("strangers")
    assert capsys.readouterr().out == "Every container is known.\n"
    one, other = spec(), spec()
    runtime.start(one)
    runtime.start(other)
    call_command("strangers")
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == {one.uuid, other.uuid}
    monkeypatch.setattr("scheduler.reconcile.orphans.time.sleep", lambda seconds: runtime.advance(20 * SEARCH_EVERY_S))
    call_command("strangers", "--end", one.uuid)
    assert [view.uuid for view in runtime.list_containers()] == [other.uuid]


def test_the_command_ends_nothing_that_a_job_knows(runtime):
    job = make.job(make.cast().ada)
    make.start(job, state=TaskState.RUNNING)
    uuid = Task.objects.get().uuid.hex
    with pytest.raises(CommandError, match="Nothing was ended"):
        call_command("strangers", "--end", uuid)
