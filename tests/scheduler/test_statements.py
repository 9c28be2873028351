"""What a cycle and a start ask of the database does not grow with what they are about: statements, not seconds."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from quotas.models import Holding
from scheduler import tasks
from scheduler.models import Lease
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


def statements_of(act) -> int:
    with CaptureQueriesContext(connection) as seen:
        act()
    return len(seen)


def test_a_start_asks_as_much_for_a_gang_over_all_machines_as_for_one_card(bob):
    counts = []
    for shape in ({"gpu": 1}, {"gpu": 4, "nodes": 7}):
        make.job(bob, pool="train", **shape)
        counts.append(statements_of(tasks.cycle))
    assert Task.objects.filter(state=TaskState.ASSIGNED).count() == 8
    assert counts[1] <= counts[0]


def test_a_cycle_asks_as_much_for_many_starts_as_for_few(bob):
    counts = []
    for more in (2, 2, 20):
        for _ in range(more):
            make.job(bob, pool="train", gpu=1)
        counts.append(statements_of(tasks.cycle))
    assert Job.objects.filter(state=JobState.STARTING).count() == 24
    assert Holding.objects.live().filter(gpu__isnull=False).values("gpu").distinct().count() == 24
    assert counts[2] <= counts[1] + 1  # what is usually asked is looked up after many submits


def test_a_cycle_asks_as_much_for_a_long_queue_as_for_a_short_one(bob):
    counts = []
    for more in (2, 20):
        for _ in range(more):
            make.job(bob, pool="train", gpu=4, nodes=9)  # more than there is: all of them wait
        tasks.cycle()  # explains who is new
        make.job(bob, pool="train", gpu=4, nodes=9)
        counts.append(statements_of(tasks.cycle))
    assert Job.objects.waiting().count() == 24
    assert counts[1] <= counts[0]


def test_a_poke_of_a_cycle_at_rest_looks_once(bob):
    make.job(bob, pool="train", gpu=4, nodes=9)
    tasks.cycle()
    tasks.cycle()
    epoch = Lease.objects.get(name="cycle").epoch
    assert statements_of(lambda: tasks.one_cycle(epoch)) == 1
