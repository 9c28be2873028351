"""Jobs that say `place`: from the switch of a machine, as an admin or the cluster says, to where their tasks start."""

import pytest

from cluster.models import Node
from cluster.nodes import find_node, set_switch
from common.errors import Impossible, InvalidInput
from jobs.changing import change_job, read_change_value
from jobs.models import Job
from jobs.reason_messages import describe_wait
from jobs.states import JobState
from portal.wording.errors import describe_field_error
from portal.wording.plans import describe_change
from scheduler import tasks
from scheduler.loading.snapshots import load_nodes
from scheduler.preview.preview import check_possible, forecast_job
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def leaves(bob):
    """Of bob's eight machines of four cards n0 to n2 are on leaf a, n3 to n7 on b; an admin said so of n0."""
    for number in range(1, 8):
        Node.objects.filter(name=f"n{number}").update(facts={"switch": "a" if number < 3 else "b"})
    set_switch(actor=bob.as_actor, node=find_node("n0"), switch=" a ")
    return bob


def gang(bob, nodes, **place):
    return make.job(bob, pool="train", gpu=4, nodes=nodes, place=place)


def test_what_an_admin_says_comes_before_what_the_cluster_says(leaves):
    assert [node.switch for node in load_nodes()] == [*"aaabbbbb"]
    set_switch(actor=leaves.as_actor, node=find_node("n1"), switch="c")
    assert [node.switch for node in load_nodes()] == [*"acabbbbb"]
    assert find_node("n1").known_switch == "c" and find_node("n3").known_switch == "b"
    with pytest.raises(InvalidInput):
        set_switch(actor=leaves.as_actor, node=find_node("n1"), switch="x" * 64)


def test_tasks_that_must_share_a_switch_start_on_one(leaves):
    first, second = gang(leaves, 3, same="switch"), gang(leaves, 5, same="switch")
    tasks.cycle()
    assert places(first) == {"n0", "n1", "n2"} and places(second) == {"n3", "n4", "n5", "n6", "n7"}


def test_it_is_told_what_it_waits_for_and_a_lever_relaxes_it(leaves):
    for nodes in (2, 4):
        gang(leaves, nodes, same="switch")
    tasks.cycle()
    job = gang(leaves, 2, same="switch")
    tasks.cycle()
    job.refresh_from_db()
    assert describe_wait(job.wait_reasons[0]) == (
        "its 2 tasks must share one switch, and the one with most room, a, has room for 1 now"
    )
    (sooner,) = [one for one in forecast_job(job).sooner if one.change.field == "place"]
    assert describe_change(sooner) == "place: prefer: switch instead of same: switch"
    changes = {"place": read_change_value("place", sooner.change.value)}
    change_job(actor=leaves, job=job, changes=changes, check=lambda draft: None, containers=False)
    tasks.cycle()
    assert places(job) == {"n2", "n7"}


def test_what_no_switch_could_hold_is_refused_in_words(leaves):
    assert "the largest has room for 5" in refusal_of(leaves, 6)
    Node.objects.update(switch="", facts={})
    assert "ask an administrator to set the switches" in refusal_of(leaves, 2)


def refusal_of(bob, nodes) -> str:
    spec = {"pool": "train", "gpu": 4, "nodes": nodes, "place": {"same": "switch"}}
    with pytest.raises(Impossible) as refused:
        make.job(bob, check=check_possible, **spec)
    (error,) = refused.value.errors
    assert error.pointer == "/place"
    return describe_field_error(error)


def places(job: Job) -> set[str]:
    job = Job.objects.get(pk=job.pk)
    assert job.state == JobState.STARTING
    return {task.node.name for task in job.tasks.all()}
