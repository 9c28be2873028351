"""Jobs that go where their data is: from the runtime's report by rows and snapshot to the job's history."""

import pytest

from cluster.models import Cached, Node, Pool
from events.models import Event
from jobs.jobfile.parse import parse_spec
from portal.wording.events import describe_event
from runtimes.contract.node import HeldView, NodeView
from scheduler import tasks
from scheduler.inventory.nodes import record_inventory
from scheduler.loading.snapshots import load_world
from scheduler.preview.preview import plan_job
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)
GB = 10**9


@pytest.fixture
def cast():
    cast = make.cast()
    n2 = make.node("n2", pool=cast.dev)
    make.gpu(n2, pool=cast.dev)
    make.gpu(n2, pool=cast.train)
    return cast


def holds(cast, node, path, size=100 * GB, place="team"):
    number = cast.nlp.gid if place == "team" else cast.ada.uid
    key, on = f"{place}:{number}/{path}", Node.objects.get(name=node)
    return Cached.objects.create(node=on, kind="data", key=key, bytes=size)


def fetch_of(*jobs):
    waiting = {job.job: job for job in load_world().snapshot.waiting}
    return [waiting[job.pk].gang[0].ask.fetch for job in jobs]


def started_on(job):
    tasks.cycle()
    return job.newest_tasks.get().node.name


def test_a_job_starts_where_its_data_is_and_its_history_says_so(cast):
    holds(cast, "n2", "datasets/imagenet")
    job = make.job(cast.ada, pool="train", gpu="1", data={"data": "team:datasets/imagenet:ro"})
    other = make.job(cast.ada, pool="train", gpu="1")
    assert started_on(job) == "n2" and other.newest_tasks.get().node.name == "n1"
    event = Event.objects.get(kind="task", object_id=job.newest_tasks.get().pk, to_state="ASSIGNED")
    assert describe_event(event, alone=True).startswith(
        "Task main was placed on n2 (GPU 1), which holds 100 GB of the data"
    )


def test_a_plan_says_the_same_before_it_is_submitted(cast):
    holds(cast, "n2", "datasets/imagenet")
    spec = parse_spec({"run": "true", "pool": "train", "gpu": "1", "data": {"data": "team:datasets/imagenet"}})
    assert [seat.node for seat in plan_job(cast.ada, spec).seats] == ["n2"]
    assert [seat.node for seat in plan_job(cast.eve, spec).seats] == ["n1"]  # her team's is another


def test_a_job_starts_where_its_image_is(cast):
    n2 = Node.objects.get(name="n2")
    Cached.objects.create(node=n2, kind="image", key="image:docker.io/pytorch/pytorch:2.9", bytes=20 * GB)
    job = make.job(cast.ada, pool="train", gpu="1", image="pytorch/pytorch:2.9")
    other = make.job(cast.ada, pool="train", gpu="1", image="pytorch/pytorch:2.8")
    assert started_on(job) == "n2" and other.newest_tasks.get().node.name == "n1"
    event = Event.objects.get(kind="task", object_id=job.newest_tasks.get().pk, to_state="ASSIGNED")
    assert "which holds 20 GB of the data it reads" in describe_event(event, alone=True)


def test_without_weight_it_starts_where_it_would_anyway(cast):
    Pool.objects.update(weight_data=0)
    holds(cast, "n2", "datasets/imagenet")
    assert started_on(make.job(cast.ada, pool="train", gpu="1", data={"data": "team:datasets/imagenet"})) == "n1"


def test_a_home_is_its_owners_alone(cast):
    holds(cast, "n2", "sets", place="home")
    mine, bobs = (make.job(who, pool="train", gpu="1", data={"data": "home:sets"}) for who in (cast.ada, cast.bob))
    assert fetch_of(mine, bobs) == [(0,), ()]


def test_the_snapshot_knows_what_is_wanted_and_no_more(cast):
    holds(cast, "n1", "a", 5 * GB)
    holds(cast, "n2", "b", 7 * GB)
    holds(cast, "n2", "nobody-reads-it")
    both = make.job(cast.ada, data={"x": "team:a", "y": "team:b:ro"})
    nothing = make.job(cast.ada)
    elsewhere = make.job(cast.ada, data={"x": "team:c"})
    assert fetch_of(both, nothing, elsewhere) == [(0, 1), (), ()]
    contents = load_world().snapshot.contents
    assert [(c.nodes.tolist(), c.bytes.tolist()) for c in contents] == [([0], [5 * GB]), ([1], [7 * GB])]


def test_what_all_machines_hold_alike_tells_none_from_another(cast):
    for node in ("n1", "n2"):
        holds(cast, node, "a")
    job = make.job(cast.ada, data={"x": "team:a"})
    assert fetch_of(job) == [()]
    Cached.objects.filter(node__name="n1").update(bytes=GB)
    assert fetch_of(job) == [(0,)]


def view(held):
    return NodeView("here", "127.0.0.1", "boot", 4_000, 16_384, (), (), (), held=held)


def stored():
    return sorted(Cached.objects.values_list("node__name", "kind", "key", "bytes"))


def test_what_a_machine_reports_is_what_is_stored():
    record_inventory([view((HeldView("data", "team:1/a", 5), HeldView("data", "team:1/b", 6)))])
    assert stored() == [("here", "data", "team:1/a", 5), ("here", "data", "team:1/b", 6)]
    record_inventory([view((HeldView("data", "team:1/b", 7), HeldView("data", "team:1/" + "x" * 300, 7)))])
    assert stored() == [("here", "data", "team:1/b", 7)]


def test_a_runtime_that_cannot_tell_changes_nothing():
    record_inventory([view((HeldView("image", "python:3.11", 5),))])
    record_inventory([view(None)])
    assert stored() == [("here", "image", "python:3.11", 5)]
