"""Who gets into which task, and who may stay."""

import pytest
from django.utils import timezone

from accounts.models import Membership, User
from common.errors import Conflict, NotFound
from events.models import Event
from jobs.models import Job
from jobs.states import TaskState
from jobs.task_access import get_access
from notebooks.models import Notebook
from portal.access.task_access import TaskAccess, find_refusal, find_task_access, record_session
from portal.pages.jobs.history import history_of
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    return make.cast()


@pytest.fixture
def job(world):
    return make.job(world.ada, gpu="1/4", pool="dev")


@pytest.fixture
def task(job):
    return make.start(job)[0]


def test_the_owner_finds_the_first_task_by_the_jobs_name(world, job, task):
    found = find_task_access(world.ada, job.public_id)
    assert found == TaskAccess(task.uuid.hex, job.public_id, world.ada.pk, world.nlp.pk, job.pk)
    assert find_task_access(world.ada, f"{job.public_id}.main.0").task == task.uuid.hex


@pytest.mark.parametrize("who", ["bob", "eve", "rita"])
def test_nobody_else_can_tell_it_from_none(world, job, task, who):
    person = make.admin() if who == "rita" else getattr(world, who)
    with pytest.raises(NotFound):
        find_task_access(person, job.public_id)
    assert find_refusal(person.pk, task.uuid.hex)


@pytest.mark.parametrize(
    "name", ["", "job-", "job-0", "job-999999", "job-x", "job-1.main", "job-1.main.9", "../job-1", "job-" + "9" * 40]
)
def test_what_names_no_task_is_not_found(world, task, name):
    with pytest.raises(NotFound):
        find_task_access(world.ada, name)


def test_a_task_of_a_gang_is_found_by_its_rank(world):
    job = make.job(world.ada, gpu=0, nodes=2, pool="dev")
    first, second = make.start(job)
    assert find_task_access(world.ada, job.public_id).task == first.uuid.hex
    assert find_task_access(world.ada, f"{job.public_id}.main.1").task == second.uuid.hex


def test_a_waiting_job_says_that_it_does_not_run(world, job):
    with pytest.raises(Conflict) as refusal:
        find_task_access(world.ada, job.public_id)
    assert (refusal.value.code, refusal.value.params) == ("not_running", {"name": job.public_id, "state": "pending"})


def test_an_ended_job_says_that_it_does_not_run(world, job, task):
    make.move(task, TaskState.SUCCEEDED, "completed", exit_code=0)
    with pytest.raises(Conflict):
        find_task_access(world.ada, job.public_id)
    assert find_refusal(world.ada.pk, task.uuid.hex)


@pytest.fixture
def notebook(world, job):
    return Notebook.objects.create(user=world.ada, team=world.nlp, name="sketches", spec={}, job=job)


@pytest.mark.parametrize("by", ["name", "public_id"])
def test_the_owner_finds_a_notebook_by_its_name(world, notebook, job, task, by):
    found = find_task_access(world.ada, getattr(notebook, by))
    assert (found.task, found.job_id, found.notebook_id) == (task.uuid.hex, job.pk, notebook.pk)


@pytest.mark.parametrize("who", ["bob", "eve", "rita"])
def test_anothers_notebook_is_not_found(world, notebook, task, who):
    person = make.admin() if who == "rita" else getattr(world, who)
    for name in (notebook.name, notebook.public_id):
        with pytest.raises(NotFound):
            find_task_access(person, name)


def test_a_stopped_notebook_says_that_it_does_not_run(world):
    Notebook.objects.create(user=world.ada, team=world.nlp, name="sketches", spec={})
    with pytest.raises(Conflict) as refusal:
        find_task_access(world.ada, "sketches")
    assert refusal.value.params == {"name": "sketches", "state": "stopped"}


def test_a_session_in_a_notebook_is_in_the_notebooks_history(world, notebook, task):
    record_session(access=find_task_access(world.ada, "sketches"), kind="ssh", seconds=3)
    assert Event.objects.get(verb="left").label == notebook.public_id
    assert history_of(notebook.job, notebook)[0].words == "Disconnected from SSH after 3s"
    assert "Disconnected from SSH after 3s" not in [line.words for line in history_of(notebook.job)]


def test_a_task_that_stops_keeps_its_sessions_and_takes_no_new_one(world, job, task):
    make.move(task, TaskState.STOPPING)
    assert not find_refusal(world.ada.pk, task.uuid.hex)
    with pytest.raises(Conflict):
        find_task_access(world.ada, job.public_id)


def test_who_is_suspended_may_not_stay(world, task):
    assert not find_refusal(world.ada.pk, task.uuid.hex)
    User.objects.filter(pk=world.ada.pk).update(suspended_at=timezone.now())
    assert find_refusal(world.ada.pk, task.uuid.hex)


def test_who_left_the_team_may_not_stay(world, job, task):
    Membership.objects.filter(user=world.ada).delete()
    assert find_refusal(world.ada.pk, task.uuid.hex)
    with pytest.raises(NotFound):
        find_task_access(world.ada, job.public_id)


def test_a_session_is_in_the_jobs_history_with_its_length(world, job, task):
    door = find_task_access(world.ada, job.public_id)
    record_session(access=door, kind="terminal")
    record_session(access=door, kind="terminal", seconds=75)
    rows = Event.objects.filter(kind="job", object_id=job.pk, verb__in=["entered", "left"])
    assert [(row.verb, row.actor, row.actor_id, row.params.get("seconds")) for row in rows] == [
        ("entered", "ada", world.ada.pk, None),
        ("left", "ada", world.ada.pk, 75),
    ]
    assert [line.words for line in history_of(Job.objects.get(pk=job.pk))[:2]] == [
        "Closed the terminal after 1m15s",
        "Opened a terminal",
    ]


def test_the_access_is_loaded_once_by_its_name(settings):
    settings.TESSERA_ACCESS, settings.TESSERA_RUNTIME_OPTIONS = "types.SimpleNamespace", {"data_dir": "here"}
    get_access.cache_clear()
    try:
        assert get_access().data_dir == "here"  # type: ignore[attr-defined]
        assert get_access() is get_access()
    finally:
        get_access.cache_clear()
