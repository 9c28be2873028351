"""The replay of a moment shows what the map and the queue showed then."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from cluster.models import Gpu, Node, Pool
from cluster.nodes import cordon_node, drain_node, uncordon_node
from common.errors import InvalidInput
from events.models import Event
from events.record_and_publish import SYSTEM
from jobs.control import hold_job, release_job, retry_job, stop_job
from jobs.models import Job, Task
from jobs.states import TaskState
from monitoring.replay.hours import load_hours
from monitoring.replay.span import SPAN, check_moment, find_first
from monitoring.replay.waiting import find_waits
from portal.access.past_rows import list_past_nodes, list_past_waits
from portal.access.redacted_rows import list_node_views, list_queue_rows
from quotas.models import Holding
from runtimes.contract.node import GpuView
from scheduler.inventory.nodes import convert_card, record_cards
from tests import make

pytestmark = pytest.mark.django_db
STEP = timedelta(minutes=10)
TIMES = {
    Event: ("at",),
    Holding: ("held_from", "released_at"),
    Task: ("assigned_at", "started_at", "ended_at"),
    Job: ("submitted_at", "eligible_at", "queued_at", "started_at", "ended_at"),
    Gpu: ("removed_at",),
}


def age(by: timedelta = STEP) -> None:
    """Let all that happened so far have been so much earlier."""
    for model, names in TIMES.items():
        model._default_manager.update(**{name: F(name) - by for name in names})


def draw(views) -> dict:
    """What a map shows, as values."""
    return {
        view.node.name: (
            view.node.state,
            {
                card.uuid: (card.healthy, sorted((part.job_id, part.milli, part.state) for part in card.slices))
                for card in view.cards
            },
        )
        for view in views
    }


def draw_queue(rows) -> list:
    return sorted((row.job_id, row.asks, row.pools, row.team) for row in rows)


@pytest.fixture
def cast():
    return make.cast()


def report(node: Node, **faults: str) -> None:
    """Let the machine report its cards, with {uuid: what is wrong}; without those that are named as gone."""
    cards = Gpu.objects.present().filter(node=node).select_related("node")
    views = [convert_card(gpu) for gpu in cards if faults.get(gpu.uuid.replace("-", "_")) != "gone"]
    told = {view.uuid: faults.get(view.uuid.replace("-", "_"), "") for view in views}
    record_cards(node, [GpuView(**{**vars(view), "fault": told[view.uuid]}) for view in views])


def test_each_moment_is_shown_as_the_map_and_the_queue_showed_it(cast):
    jobs = {}

    def submit(name, **asks):
        jobs[name] = make.job(cast.ada, name=name, **{"gpu": "1/4", "pool": "dev", **asks})

    def fresh(name):
        return Job.objects.get(pk=jobs[name].pk)

    steps = [
        lambda: None,
        lambda: submit("first"),
        lambda: submit("second", gpu="1/2"),
        lambda: make.start(fresh("first"), state=TaskState.STARTING),
        lambda: make.move(fresh("first").newest_tasks.get(), TaskState.RUNNING),
        lambda: cordon_node(actor=SYSTEM, node=cast.node),
        lambda: hold_job(actor=cast.ada, job=fresh("second")),
        lambda: report(cast.node, GPU_n1_1="ECC errors"),
        lambda: release_job(actor=cast.ada, job=fresh("second")),
        lambda: uncordon_node(actor=SYSTEM, node=cast.node),
        lambda: make.start(fresh("second")),
        lambda: report(cast.node),
        lambda: make.move(fresh("first").newest_tasks.get(), TaskState.STOPPING),
        lambda: make.end(fresh("first"), TaskState.FAILED, "exit_nonzero", 1),
        lambda: retry_job(actor=cast.ada, job=fresh("first")),
        lambda: drain_node(actor=SYSTEM, node=cast.node),
        lambda: stop_job(actor=cast.ada, job=fresh("first")),
        lambda: report(cast.node, GPU_n1_1="gone"),
        lambda: make.end(fresh("second")),
        lambda: make.node("n2", pool=cast.dev),
    ]
    shown = []
    for act in steps:
        act()
        shown.append((draw(list_node_views(cast.ada)), draw_queue(list_queue_rows(cast.ada))))
        age()
    now = timezone.now()
    for back, (cluster, queue) in enumerate(reversed(shown)):
        at = now - back * STEP - STEP / 2
        replayed = draw(list_past_nodes(cast.ada, at))
        replayed.pop("n2", None) if back else None  # no event tells since when it is there
        assert (replayed, draw_queue(list_past_waits(cast.ada, find_waits(at)))) == (cluster, queue), back
    assert [len(cluster["n1"][1]) for cluster, _queue in shown[-4:]] == [2, 1, 1, 1]


def test_a_wait_began_with_the_submit_the_release_or_the_new_try(cast):
    job, now = make.job(cast.ada, gpu="1/4", pool="dev"), timezone.now()
    age()
    hold_job(actor=cast.ada, job=job)
    age()
    release_job(actor=cast.ada, job=Job.objects.get(pk=job.pk))
    age()
    make.start(Job.objects.get(pk=job.pk))
    make.end(Job.objects.get(pk=job.pk), TaskState.FAILED, "exit_nonzero", 1)
    age()
    retry_job(actor=cast.ada, job=Job.objects.get(pk=job.pk))
    age()

    def told(at):
        return [(round((at - wait.since) / STEP, 1), wait.held) for wait in find_waits(at)]

    half = STEP / 2
    assert told(now - 5 * STEP + half) == [(0.5, False)]
    assert told(now - 4 * STEP + half) == [(1.5, True)]
    assert told(now - 3 * STEP + half) == [(0.5, False)]
    assert told(now - 2 * STEP + half) == []
    assert told(now - STEP + half) == [(0.5, False)]
    assert told(now - 6 * STEP) == []


def test_a_job_of_several_pools_waited_in_each_of_them(cast):
    named, both = make.job(cast.ada, gpu="1/4", pool="dev"), make.job(cast.ada, gpu="1", pool="train")
    Job.objects.filter(pk=both.pk).update(choices=[{"pool": pool.pk, "name": pool.name} for pool in Pool.objects.all()])
    age()
    at = timezone.now() - STEP / 2
    assert [wait.job_id for wait in find_waits(at, "dev")] == [named.pk, both.pk]
    assert [wait.job_id for wait in find_waits(at, "train")] == [both.pk]
    assert find_waits(at, "other") == [] and len(find_waits(at)) == 2


def test_what_came_later_was_not_there(cast):
    gpu = Gpu.objects.filter(node=cast.node).select_related("node").first()
    other = GpuView(**{**vars(convert_card(gpu)), "uuid": "GPU-new", "index": 7})
    record_cards(cast.node, [*map(convert_card, cast.node.gpus.select_related("node")), other])
    age()
    now = timezone.now()
    assert "GPU-new" in draw(list_past_nodes(cast.ada, now))["n1"][1]
    assert "GPU-new" not in draw(list_past_nodes(cast.ada, now - 2 * STEP))["n1"][1]


def test_the_name_of_who_held_and_waited_is_told_to_the_team_alone(cast, settings):
    settings.TESSERA_VISIBILITY = "team"
    make.start(make.job(cast.ada, name="secret-plan", gpu="1/4", pool="dev", time="1h"))
    make.job(cast.ada, name="secret-wait", gpu="1/4", pool="dev")
    age()
    at = timezone.now() - STEP / 2
    texts = repr((list_past_nodes(cast.eve, at)[0].cards, list_past_waits(cast.eve, find_waits(at))))
    assert "nlp" in texts and not [word for word in ("secret", "ada", "job-") if word in texts]
    (row,) = list_past_waits(cast.eve, find_waits(at))
    assert (row.since, row.priority, row.expected_end_at) == (None, None, None)
    assert "secret-plan" in repr(list_past_nodes(cast.bob, at)[0].cards)
    assert list_past_waits(cast.bob, find_waits(at))[0].name == "secret-wait"
    settings.TESSERA_VISIBILITY = "private"
    assert "nlp" not in repr((list_past_nodes(cast.eve, at)[0].cards, list_past_waits(cast.eve, find_waits(at))))


def test_a_moment_that_cannot_be_replayed_is_refused_with_the_ones_that_can(cast):
    make.job(cast.ada, gpu="1/4", pool="dev")
    age()
    now = timezone.now()
    assert find_first(now) < now and check_moment(now, find_first(now), now) == now
    age(2 * SPAN)
    assert find_first(now) == now - SPAN
    for at in (now - SPAN - STEP, now + STEP):
        with pytest.raises(InvalidInput) as refused:
            check_moment(at, find_first(now), now)
        assert refused.value.errors[0].pointer == "/at" and refused.value.errors[0].code == "out_of_range"


def test_the_strip_counts_at_each_step_what_the_replay_of_it_shows(cast):
    make.job(cast.eve, gpu="1/4", pool="dev")
    age(STEP / 2)
    job = make.job(cast.ada, gpu="1/2", pool="dev")
    age()
    make.start(job)
    age()
    make.end(Job.objects.get(pk=job.pk), TaskState.FAILED, "exit_nonzero", 1)
    age()
    retry_job(actor=cast.ada, job=Job.objects.get(pk=job.pk))
    age()
    make.start(Job.objects.get(pk=job.pk))
    age()
    now = timezone.now()
    hours = load_hours(now - 6 * STEP, now, STEP)
    assert [hour.at for hour in hours] == [now - i * STEP for i in range(6, -1, -1)]
    for hour in hours:
        cards = [card for view in list_past_nodes(cast.ada, hour.at) for card in view.cards]
        assert hour.held_milli == sum(part.milli for card in cards for part in card.slices)
        assert hour.waiting == len(find_waits(hour.at))
    assert [(hour.held_milli, hour.waiting) for hour in hours[1:]] == [
        (0, 2),
        (500, 1),
        (0, 1),
        (0, 2),
        (500, 1),
        (500, 1),
    ]
