"""The loop of `manage.py watch`, on a view that a test moves: what it records, hands out, and when it gives up."""

import http.client
import threading
import time

import pytest
from celery import current_app
from django.utils import timezone
from kombu import Consumer, Queue
from kombu.exceptions import OperationalError as BrokerAway

from jobs.control import stop_job
from jobs.models import Task
from jobs.states import TaskState
from runtimes.contract.errors import Unavailable
from runtimes.contract.node import NodeView
from scheduler import tasks
from scheduler.lease import acquire, newest_epoch, release, renew
from scheduler.management.commands import watch as command
from scheduler.models import Lease
from scheduler.reconcile.actions import FencedAction, decode_action, encode_action
from scheduler.reconcile.compare import Forget, Start, Stop
from scheduler.reconcile.watch_loop import AGAIN_S, TIDY_S, WatchLoop, WatchStale
from tests import make
from tests.fakes.runtime import FakeRuntime

T = TaskState


def fetch(port: int, path: str) -> tuple[int, str]:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    asked.request("GET", path)
    answer = asked.getresponse()
    found = answer.status, answer.read().decode()
    asked.close()
    return found


class View:
    """What a FakeRuntime does, told one look late if a test wants that."""

    def __init__(self, runtime: FakeRuntime):
        self.runtime, self.age, self.unready, self.behind = runtime, 0.0, False, False
        self.tidied = 0

    def list_containers(self):
        if self.unready:
            raise Unavailable("not yet")
        return [] if self.behind else self.runtime.list_containers()

    def is_there(self, uuid):
        return any(view.uuid == uuid for view in self.runtime.list_containers())

    def wait(self, seconds):
        time.sleep(0.001)
        return False

    def age_s(self):
        return self.age

    def tidy(self):
        self.tidied += 1

    def measures(self):
        return {'tessera_view_age_seconds{kind="pods"}': self.age}


class Scene:
    """A watch that leads, and workers that a test lets act."""

    def __init__(self):
        self.runtime = FakeRuntime([NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())])
        self.view, self.sent, self.ended = View(self.runtime), [], threading.Event()
        self.watch = WatchLoop(self.view, lambda orders: self.sent.append(orders), self.ended)
        self.epoch = acquire("reconcile")

    def round(self, *, act=True):
        """One look, and what it handed out is done."""
        self.watch.round(self.epoch)
        sent, self.sent = self.sent, []
        for orders in sent if act else []:
            tasks.act([encode_action(order) for order in orders])
        return [order.action for orders in sent for order in orders]


@pytest.fixture
def scene(db, monkeypatch):
    scene = Scene()
    monkeypatch.setattr(tasks, "get_runtime", lambda: scene.runtime)
    return scene


@pytest.fixture
def task(db) -> Task:
    job = make.job(make.cast().ada, gpu="1/4", run="sleep 5; exit 3", retry=0)
    make.start(job, state=T.ASSIGNED)
    return job.newest_tasks.get()


def state(task: Task) -> str:
    task.refresh_from_db()
    return task.state


def pass_time(monkeypatch, seconds: float) -> None:
    later = time.monotonic() + seconds
    monkeypatch.setattr("scheduler.reconcile.watch_loop.time.monotonic", lambda: later)


def test_a_task_goes_all_its_way(scene, task, monkeypatch):
    assert scene.round() == [Start(task.uuid.hex, task.job_id)]
    assert scene.round() == [] and state(task) == T.RUNNING
    scene.runtime.advance(6)
    assert scene.round() == [] and (state(task), task.exit_code) == (T.FAILED, 3)
    assert scene.round() == []  # a start of it may be under way, for which its name must stay taken
    assert scene.runtime.list_containers()
    pass_time(monkeypatch, AGAIN_S + 1)
    assert scene.round() == [Forget(task.uuid.hex)]
    assert scene.runtime.list_containers() == [] and scene.round() == []


def test_what_was_handed_out_is_handed_out_again_only_after_a_while(scene, task, monkeypatch):
    assert len(scene.round(act=False)) == 1
    assert scene.round(act=False) == []
    pass_time(monkeypatch, AGAIN_S + 1)
    assert len(scene.round(act=False)) == 1


def test_a_stop_is_newer_than_the_task_that_it_ends(scene, task):
    """This term began before the cycle that placed the task."""
    Task.objects.filter(pk=task.pk).update(epoch=(placed := acquire("cycle")))
    scene.round()
    scene.round()
    assert placed > scene.epoch and state(task) == T.RUNNING
    stop_job(actor=task.job.user, job=task.job)
    assert scene.round() == [Stop(task.uuid.hex, task.job_id, "stopped_by_user", mark=False)]
    assert state(task) == T.STOPPING
    scene.round()
    assert state(task) == T.STOPPED


def test_a_view_that_is_behind_loses_no_task(scene, task):
    scene.round()
    scene.round()
    scene.view.behind = True
    scene.round()
    assert state(task) == T.RUNNING


def test_a_task_of_which_the_engine_itself_knows_nothing_is_lost(scene, task):
    make.move(task, T.RUNNING)
    scene.round()
    assert state(task) == T.LOST


def test_before_the_first_whole_list_nothing_is_decided(scene, task):
    make.move(task, T.RUNNING)
    scene.view.unready = True
    assert scene.round() == [] and state(task) == T.RUNNING


def test_an_old_term_records_nothing(scene, task):
    scene.round()
    Lease.objects.update(expires_at="2020-01-01T00:00Z")
    acquire("reconcile")
    scene.round()
    assert state(task) == T.ASSIGNED


def test_who_does_not_hear_of_the_cluster_for_five_minutes_ends(scene):
    scene.view.age = 301.0
    assert not scene.watch.is_live()
    with pytest.raises(WatchStale, match="Nothing was heard"):
        scene.watch.run()


def test_it_leads_looks_each_second_and_gives_the_lease_back(scene, monkeypatch):
    release("reconcile", scene.epoch)
    rounds = []
    monkeypatch.setattr(scene.watch, "round", lambda epoch: (rounds.append(epoch), scene.ended.set()))
    scene.watch.run()
    assert len(rounds) == 1 and Lease.objects.get(name="reconcile").expires_at is None


def test_two_never_lead_at_once(scene, monkeypatch):
    monkeypatch.setattr(scene.ended, "wait", lambda seconds: scene.ended.set())
    monkeypatch.setattr(scene.watch, "round", lambda epoch: pytest.fail("another one leads"))
    scene.watch.run()


def test_a_long_round_asks_for_more_time_and_ends_where_it_gets_none(scene, task, monkeypatch):
    monkeypatch.setattr("scheduler.reconcile.watch_loop.RENEW_S", -1.0)
    Lease.objects.filter(name="reconcile").update(expires_at="2026-01-01T00:00Z")
    scene.round()
    assert Lease.objects.get(name="reconcile").expires_at > timezone.now() and scene.watch.rounds == 1
    release("reconcile", scene.epoch)
    assert scene.round() == [] and scene.watch.rounds == 1


def test_a_term_can_be_made_longer_until_it_is_over(db):
    epoch = acquire("reconcile")
    Lease.objects.update(expires_at="2020-01-01T00:00Z")
    assert renew("reconcile", epoch) and acquire("reconcile") is None
    release("reconcile", epoch)
    assert not renew("reconcile", epoch) and newest_epoch() == epoch


@pytest.mark.parametrize("deed", [Start("a" * 32, 7), Stop("a" * 32, 7, "preempted", mark=False), Forget("a" * 32)])
def test_a_deed_goes_through_a_message(deed):
    assert decode_action(encode_action(FencedAction(deed, 7))) == FencedAction(deed, 7)


def test_without_a_broker_it_goes_on_and_tries_again(scene, task, monkeypatch):
    def away(*_, **__):
        raise BrokerAway("refused")

    monkeypatch.setattr(tasks.act, "apply_async", away)
    monkeypatch.setattr(scene.watch, "_send", command.send)
    scene.watch.round(scene.epoch)
    scene.watch.round(scene.epoch)
    assert scene.watch.measures()["tessera_watch_handed_out"] == 0 and state(task) == T.ASSIGNED
    monkeypatch.setattr(scene.watch, "_send", lambda orders: scene.sent.append(orders))
    assert scene.round() == [Start(task.uuid.hex, task.job_id)]


def test_no_round_waits_for_the_tidying(scene, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(scene.view, "tidy", lambda: over.wait(10))
    began = time.monotonic()
    scene.watch._tidy(began + 2 * TIDY_S, scene.epoch)
    assert time.monotonic() - began < 5
    over.set()


def test_a_cycle_waits_for_no_deeds():
    with current_app.connection_for_write() as connection, connection.channel() as channel:
        for queue in ("scheduler", "default"):  # of other tests, which nobody took
            channel.queue_purge(queue)  # type: ignore[attr-defined]
    for number in range(4):
        command.send([FencedAction(Forget(f"{number:032x}"), 1)])
    for _ in range(4):
        current_app.send_task("scheduler.tasks.cycle", queue="scheduler")
    assert taken(8) == ["scheduler.tasks.cycle"] * 4 + ["scheduler.tasks.act"] * 4


def taken(count: int) -> list[str]:
    """So many messages in the order in which a worker takes them, one at a time."""
    found: list[str] = []
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        channel.basic_qos(0, 1, False)  # type: ignore[attr-defined]
        queues = [Queue("scheduler"), Queue("default")]
        with Consumer(channel, queues, on_message=lambda each: (found.append(each.headers["task"]), each.ack())):
            while len(found) < count:
                connection.drain_events(timeout=5)
    return found


def test_probes_and_metrics(scene):
    server = command.serve_watch(scene.watch, "127.0.0.1", 0)
    try:
        port = server.server_port
        assert fetch(port, "/livez") == (200, "ok\n")
        assert 'tessera_view_age_seconds{kind="pods"} 0.0\n' in fetch(port, "/metrics")[1]
        scene.view.age = 400.0
        assert fetch(port, "/livez") == (503, "blind\n")
    finally:
        server.shutdown()
        server.server_close()
