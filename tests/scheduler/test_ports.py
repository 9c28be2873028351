"""Where a task listens for what it declared."""

import socket
from uuid import UUID

import pytest

from cluster.models import Node
from jobs.jobfile.spec import JobSpec, to_json
from jobs.models import Job, JobKind, Task
from runtimes.contract.node import OWN_NETWORK
from scheduler.commit.starting import PORTS, map_ports
from tests import make
from tests.one_cycle import decide, perform

DECLARED = to_json(JobSpec(name="x", run="true", ports=(6379, 8888)))


def given(kind: str, taken: set[int], *, alone: bool) -> dict[str, int]:
    job = Job(kind=kind, spec=DECLARED)
    return map_ports(job, Task(job=job, role="main", rank=0, uuid=UUID(int=7)), taken, alone=alone)


def test_on_a_machine_with_others_a_taken_number_becomes_another():
    found = given(JobKind.BATCH, {6379}, alone=False)
    assert found["8888"] == 8888 and found["6379"] in PORTS


def test_at_an_address_of_its_own_every_task_has_what_it_declared():
    for kind in (JobKind.BATCH, JobKind.INTERACTIVE):
        assert given(kind, {23_000}, alone=True) == {"6379": 6379, "8888": 8888}


def test_not_even_alone_does_it_get_what_its_gang_was_given():
    assert given(JobKind.BATCH, {8888}, alone=True)["8888"] in PORTS


@pytest.mark.django_db(transaction=True)
def test_a_port_that_another_program_of_the_machine_holds_is_given_to_no_task(bob, settings):
    settings.TESSERA_RUNTIME = "runtimes.local.runtime.LocalRuntime"
    with socket.create_server(("127.0.0.1", 0)) as other:
        held = other.getsockname()[1]
        job = make.job(bob, pool="train", gpu=1, ports=[held])
        assert perform(decide()) == 1
    assert Task.objects.get(job=job).ports[str(held)] in PORTS


@pytest.mark.django_db(transaction=True)
def test_jobs_with_networks_of_their_own_each_have_what_they_declared(bob, settings):
    settings.TESSERA_RUNTIME = "runtimes.local.runtime.LocalRuntime"
    Node.objects.update(facts={"network": OWN_NETWORK})
    with socket.create_server(("127.0.0.1", 0)) as other:
        held = other.getsockname()[1]
        jobs = [make.job(bob, pool="train", gpu=1, ports=[held]) for _ in range(2)]
        assert perform(decide()) == 2
    assert {Task.objects.get(job=job).ports[str(held)] for job in jobs} == {held}
    assert all(Task.objects.get(job=job).ports["master"] in PORTS for job in jobs)
