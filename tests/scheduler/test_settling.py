"""Lost tasks whose machine does not know them: named, settled by an administrator, freed by proof alone."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from cluster.models import Node, NodeState
from common.errors import Conflict, InvalidInput, NotPermitted
from events.models import Event
from jobs.control import settle_job, stop_job
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from quotas.models import Holding
from runtimes.contract.container import ContainerView
from scheduler.health.lost_tasks import find_lost_tasks
from scheduler.lease import acquire
from scheduler.reconcile.compare import Stop, TaskObserved, TaskRow, compare
from scheduler.reconcile.round import Poller, reconcile_once
from tests import make
from tests.api_client import Api
from tests.fakes.runtime import FakeRuntime

pytestmark = pytest.mark.django_db
A = "a" * 32
LOST = TaskRow(A, 7, "LOST", "")
SETTLED = TaskRow(A, 7, "LOST", "", settled="root settled it: its disk was replaced")


@pytest.fixture
def cast():
    cast = make.cast()
    cast.boss = make.admin("boss")
    cast.job = make.job(cast.ada, pool="dev")
    make.start(cast.job)
    make.move(Task.objects.get(), TaskState.LOST)
    Task.objects.update(lost_at=timezone.now() - timedelta(minutes=5))
    return cast


def test_only_what_was_settled_is_ended_and_nothing_is_believed_before_it_is_seen():
    assert compare([LOST], [], set()) == []
    assert compare([SETTLED], [], set()) == [Stop(A, 7, "", mark=False)]
    left = ContainerView(A, "n1", "starting")
    assert compare([SETTLED], [left], set()) == [Stop(A, 7, "", mark=False)]
    gone = ContainerView(A, "n1", "exited", cause="never_started", detail="It was stopped before it began.")
    (step,) = compare([SETTLED], [gone], set())
    assert isinstance(step, TaskObserved) and (step.state, step.reason) == ("FAILED", "container_lost")
    assert step.seen.detail == "root settled it: its disk was replaced"
    back = ContainerView(A, "n1", "running")
    assert [step.state for step in compare([SETTLED], [back], set())] == ["RUNNING"]


def test_a_settled_task_ends_with_the_reason_and_frees_what_it_held(cast):
    settle_job(actor=cast.boss, job=cast.job, why="its  disk was replaced ")
    runtime, epoch = FakeRuntime([]), acquire("reconcile")
    reconcile_once(Poller(runtime), epoch)
    assert Holding.objects.live().exists()  # asked, not proved
    runtime.advance(1)
    reconcile_once(Poller(runtime), epoch)
    task = Task.objects.get(attempt=1)  # the job is tried again, as after any container_lost
    assert (task.state, task.reason) == (TaskState.FAILED, "container_lost")
    assert task.detail == "boss settled it: its disk was replaced" and not Holding.objects.live().exists()
    event = Event.objects.get(verb="settled")
    assert (event.actor, event.params) == ("boss", {"tasks": ["main.0"], "why": "its disk was replaced"})


def test_a_stop_that_was_asked_before_is_how_it_ends(cast):
    stop_job(actor=cast.ada, job=cast.job)
    settle_job(actor=cast.boss, job=cast.job, why="gone")
    runtime, epoch = FakeRuntime([]), acquire("reconcile")
    for _ in range(2):
        reconcile_once(Poller(runtime), epoch)
        runtime.advance(1)
    assert Job.objects.get().state == JobState.CANCELLED


def test_what_is_refused(cast):
    for person in (cast.ada, cast.bob):
        with pytest.raises(NotPermitted):
            settle_job(actor=person, job=cast.job, why="mine")
    for why in (" ", "x" * 201):
        with pytest.raises(InvalidInput):
            settle_job(actor=cast.boss, job=cast.job, why=why)
    with pytest.raises(Conflict, match="only_lost_tasks"):
        settle_job(actor=cast.boss, job=cast.job, why="gone", task="worker.1")
    for silent in ({"state": NodeState.NOT_READY}, {"last_seen_at": timezone.now() - timedelta(minutes=3)}):
        Node.objects.update(state=NodeState.READY, last_seen_at=timezone.now())
        Node.objects.update(**silent)
        with pytest.raises(Conflict, match="settle_silent_node"):
            settle_job(actor=cast.boss, job=cast.job, why="gone")
    assert Task.objects.get().settled is None


def test_the_doctor_names_it_with_the_remedy(cast):
    (finding,) = find_lost_tasks()
    assert finding.tone == "bad" and f"{cast.job.public_id} main.0 on n1" in finding.words
    assert finding.remedy.endswith(f"tessera settle {cast.job.public_id} --why REASON")
    settle_job(actor=cast.boss, job=cast.job, why="gone")
    (finding,) = find_lost_tasks()
    assert finding.tone == "bad" and ": settled, and" in finding.words
    Node.objects.update(state=NodeState.NOT_READY)
    (finding,) = find_lost_tasks()
    assert finding.tone == "note" and "nothing is heard of the machine" in finding.words
    Task.objects.update(lost_at=timezone.now())
    assert not list(find_lost_tasks())


def test_an_admin_settles_it_by_the_api_and_on_the_machines_page(cast):
    api = Api(make.token(cast.boss))
    answer = api.post(f"jobs/{cast.job.public_id}:settle", {"why": ""})
    assert answer.status_code == 400 and answer.json()["errors"][0]["pointer"] == "/why"
    assert api.post(f"jobs/{cast.job.public_id}:settle", {"why": "by REST"}).status_code == 200
    assert Task.objects.get().settled == {"by": "boss", "why": "by REST"}
    client, action = Client(), f"/j/{cast.job.public_id}/settle"
    client.force_login(cast.boss)
    assert f'action="{action}"' in client.get("/nodes/n1/").content.decode()
    client.post(action, {"why": "by the page"}, headers={"Origin": settings.TESSERA_PUBLIC_URL})
    assert Task.objects.get().settled == {"by": "boss", "why": "by the page"}
    client.force_login(cast.ada)
    page = client.get("/nodes/n1/").content.decode()
    assert "does not know it any more" in page and action not in page
