"""Datasets that jobs name: pinned when a job is submitted, mounted read-only, kept while it has yet to end."""

import pytest

from common.errors import Conflict, InvalidInput
from datasets.models import Dataset, DatasetUse, DatasetVersion, VersionState
from datasets.services import change_dataset, find_store
from jobs.copying.copies import build_rerun
from jobs.used_data.naming import delete_unused_version, list_users
from runtimes.contract.task import Mount
from runtimes.storage.areas import AreaId
from scheduler.reconcile.actions import find_missing_data
from scheduler.reconcile.task_specs import build_task_spec
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(settings, tmp_path):
    settings.TESSERA_FILES = tmp_path / "files"
    return make.cast()


def submit(user, data, **fields):
    return make.job(user, data=data, pool="dev", **fields)


def refusal(user, data):
    with pytest.raises(InvalidInput) as refused:
        submit(user, data)
    (error,) = refused.value.errors
    return error.pointer, error.code


def test_the_newest_is_pinned_and_later_versions_change_nothing(world):
    make.dataset(world.ada, versions=2)
    job = submit(world.ada, {"in": "dataset:corpus", "old": "dataset:nlp/corpus@v1", "out": "home:results"})
    assert job.spec["data"] == {
        "in": "dataset:nlp/corpus@v2",
        "old": "dataset:nlp/corpus@v1",
        "out": "home:results",
    }
    make.dataset(world.ada)
    assert build_rerun(world.ada, job, exact=False).data == job.spec["data"]
    assert sorted(DatasetUse.objects.filter(job=job.pk).values_list("version__number", flat=True)) == [1, 2]


def test_a_stage_gives_the_version_that_is_at_it_when_the_job_comes(world):
    make.dataset(world.ada, versions=3)
    dataset = Dataset.objects.get()
    assert refusal(world.ada, {"in": "dataset:corpus@prod"}) == ("/data/in", "unknown_dataset_stage.none")
    change_dataset(actor=world.ada, dataset=dataset, stages={"prod": 2})
    job = submit(world.ada, {"in": "dataset:corpus@prod", "new": "dataset:corpus"})
    change_dataset(actor=world.ada, dataset=dataset, stages={"prod": 1})
    assert job.spec["data"] == {"in": "dataset:nlp/corpus@v2", "new": "dataset:nlp/corpus@v3"}
    assert submit(world.ada, {"in": "dataset:nlp/corpus@prod"}).spec["data"] == {"in": "dataset:nlp/corpus@v1"}
    assert refusal(world.ada, {"in": "dataset:corpus@test"}) == ("/data/in", "unknown_dataset_stage")
    assert refusal(world.ada, {"in": "dataset:corpus@V2"}) == ("/data/in", "bad_dataset")
    assert refusal(world.eve, {"in": "dataset:nlp/corpus@prod"}) == ("/data/in", "unknown_dataset")


def test_a_role_names_its_own_beside_the_jobs(world):
    make.dataset(world.ada, versions=2)
    roles = {"head": {"run": "a", "data": {"old": "dataset:corpus@v1"}}, "worker": {"run": "b"}}
    job = make.job(world.ada, pool="dev", data={"in": "dataset:corpus"}, roles=roles)
    assert job.spec["roles"]["head"]["data"] == {"old": "dataset:nlp/corpus@v1"}
    assert sorted(DatasetUse.objects.filter(job=job.pk).values_list("version__number", flat=True)) == [1, 2]
    mounts = {task.role: build_task_spec(task).mounts for task in make.start(job)}
    assert {role: [(mount.target, mount.source) for mount in found] for role, found in mounts.items()} == {
        "head": [("in", "2"), ("old", "1")],
        "worker": [("in", "2")],
    }
    with pytest.raises(InvalidInput) as refused:
        make.job(world.ada, pool="dev", roles={"head": {"run": "a", "data": {"in": "dataset:none"}}})
    assert refused.value.errors[0].pointer == "/roles/head/data/in"


def test_what_is_not_there_and_what_one_may_not_read_get_the_same_answer(world):
    version = make.dataset(world.ada)
    assert refusal(world.ada, {"in": "dataset:nothing"}) == ("/data/in", "unknown_dataset")
    assert refusal(world.ada, {"in": "model:corpus"}) == ("/data/in", "unknown_dataset")
    assert refusal(world.ada, {"in": "dataset:corpus@v9"}) == ("/data/in", "unknown_dataset_version")
    assert refusal(world.eve, {"in": "dataset:nlp/corpus"}) == ("/data/in", "unknown_dataset")
    assert refusal(world.eve, {"in": "dataset:nlp/corpus@v1"}) == ("/data/in", "unknown_dataset")
    change_dataset(actor=world.ada, dataset=version.dataset, share="private")
    assert refusal(world.bob, {"in": "dataset:corpus"}) == ("/data/in", "unknown_dataset")
    change_dataset(actor=world.ada, dataset=version.dataset, share="everybody")
    assert submit(world.eve, {"in": "dataset:nlp/corpus"}).spec["data"] == {"in": "dataset:nlp/corpus@v1"}
    DatasetVersion.objects.update(state=VersionState.TAKING)
    assert refusal(world.ada, {"in": "dataset:corpus"}) == ("/data/in", "unknown_dataset")


def test_a_task_mounts_it_read_only_and_starts_only_where_it_is(world):
    version = make.dataset(world.ada)
    job = submit(world.ada, {"in": "dataset:corpus"}, gpu="1/4")
    make.start(job)
    (task,) = job.newest_tasks
    spec = build_task_spec(task)
    area = AreaId("dataset", version.dataset.key)
    assert spec.mounts == (Mount(area, "1", "in", read_only=True),)
    assert find_missing_data(spec) == ""
    find_store().version(version.dataset.key, 1).rename(find_store().root / "lost")
    assert "version 1 at in" in find_missing_data(spec)


def test_a_version_stays_while_a_job_that_names_it_has_yet_to_end(world):
    version = make.dataset(world.ada)
    job = submit(world.ada, {"in": "dataset:corpus"})
    assert list_users(version) == [job]
    with pytest.raises(Conflict, match="dataset_in_use"):
        delete_unused_version(actor=world.ada, version=version)
    make.start(job)
    make.end(job)
    delete_unused_version(actor=world.ada, version=version)
    assert refusal(world.ada, {"in": "dataset:corpus"}) == ("/data/in", "unknown_dataset")
