"""Where a task listens for what it declared."""

from uuid import UUID

from jobs.jobfile.spec import JobSpec, to_json
from jobs.models import Job, JobKind, Task
from scheduler.commit.starting import PORTS, map_ports

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
