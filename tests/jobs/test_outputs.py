"""What jobs leave: versions of datasets and models, each once, of the attempt that succeeded and of no other."""

import pytest

from common.errors import Conflict, InvalidInput, Unavailable
from datasets.models import Dataset, DatasetOutput, DatasetVersion, VersionState
from jobs.control import retry_job
from jobs.dependencies.settling import settle_dependencies
from jobs.models import Job
from jobs.outputs import outputs
from jobs.outputs.outputs import take_outputs
from jobs.states import TaskState
from jobs.used_data.naming import delete_unused_version
from runtimes.contract.task import Mount
from runtimes.storage.areas import AreaId
from scheduler.reconcile.task_specs import build_task_spec
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
OUT = {"out": "model:sentiment"}


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_FILES, settings.TESSERA_PUBLIC_URL = tmp_path / "files", "http://testserver"
    return make.cast()


def run(person, words: str = "weights", state=TaskState.SUCCEEDED, reason="completed", **spec) -> Job:
    """A job that writes into its output what its task would, and ends."""
    job = make.job(person, pool="dev", **{"outputs": OUT, **spec})
    return go_on(person, job, words, state, reason)


def go_on(person, job: Job, words: str, state=TaskState.SUCCEEDED, reason="completed") -> Job:
    make.start(job)
    mount = build_task_spec(job.newest_tasks[0]).mounts[0]
    if words:
        make.files(person, {f"{mount.source.partition('/')[2]}/model.bin": words}, ".tessera-outputs")
    return make.end(job, state, reason, 0 if state == TaskState.SUCCEEDED else 1)


def settled(job: Job) -> Job:
    settle_dependencies(lambda: None)
    return Job.objects.get(pk=job.pk)


def finish() -> None:
    take_outputs()
    make.make_versions()
    take_outputs()


def test_a_success_becomes_the_next_version_and_its_folder_goes(cast, settings):
    job = run(cast.ada)
    home = settings.TESSERA_FILES / "home" / str(cast.ada.uid)
    assert (home / f".tessera-outputs/job-{job.pk}.1/model-sentiment/model.bin").exists()
    finish()
    version = DatasetVersion.objects.get()
    assert (version.state, version.job_file_name, version.files) == (VersionState.READY, "model:nlp/sentiment@v1", 1)
    assert version.note == job.public_id
    assert not list((home / ".tessera-outputs").iterdir())
    used = make.job(cast.ada, pool="dev", data={"base": "model:sentiment"})
    assert used.spec["data"] == {"base": "model:nlp/sentiment@v1"}


def test_it_appears_once_however_often_one_looks(cast):
    run(cast.ada)
    for _ in range(3):
        finish()
    assert DatasetVersion.objects.count() == 1 and DatasetOutput.objects.get().removed


def test_what_a_failed_attempt_left_is_none_of_it(cast):
    job = make.job(cast.ada, pool="dev", outputs=OUT, retry={"times": 1, "when": ["exit_nonzero"]})
    go_on(cast.ada, job, "half", TaskState.FAILED, "exit_nonzero")
    assert not DatasetOutput.objects.exists()
    Job.objects.update(not_before=None)
    go_on(cast.ada, Job.objects.get(), "whole")
    finish()
    assert DatasetVersion.objects.get().path.endswith(f"job-{job.pk}.2/model-sentiment")
    assert DatasetVersion.objects.get().bytes == len("whole")


def test_a_job_that_is_retried_after_its_success_leaves_another_version(cast):
    job = run(cast.ada, words="first")
    finish()
    go_on(cast.ada, retry_job(actor=cast.ada, job=job), "second")
    finish()
    assert [version.bytes for version in DatasetVersion.objects.order_by("number")] == [len("first"), len("second")]
    assert "model:sentiment@v2" in browser(cast.ada).get(f"/j/{job.public_id}/").content.decode()


def test_nothing_comes_of_a_job_that_fails_or_is_stopped(cast):
    run(cast.ada, state=TaskState.FAILED, reason="exit_nonzero")
    finish()
    assert not DatasetVersion.objects.exists()


def test_an_empty_folder_is_no_version_and_the_page_says_so(cast):
    job = run(cast.ada, words="")
    finish()
    assert not DatasetVersion.objects.exists() and DatasetOutput.objects.get().error["code"] == "output_is_empty"
    page = browser(cast.ada).get(f"/j/{job.public_id}/").content.decode()
    assert "The job left nothing in the folder that was to become the next version of sentiment." in page


def test_storage_that_does_not_answer_is_asked_again(cast, monkeypatch):
    run(cast.ada)

    def fail(*args, **said):
        raise Unavailable()

    with monkeypatch.context() as away:
        away.setattr(outputs, "add_version", fail)
        take_outputs()
    assert DatasetOutput.objects.get().error is None
    finish()
    assert DatasetVersion.objects.get().state == VersionState.READY


def test_pages_lead_from_the_job_to_the_version_and_back(cast):
    make.dataset(cast.ada)
    job = run(cast.ada, data={"in": "dataset:corpus"})
    assert "model:sentiment" in browser(cast.ada).get(f"/j/{job.public_id}/").content.decode()
    finish()
    version = DatasetVersion.objects.get(dataset__name="sentiment")
    at = f"/data/{version.dataset.public_id}/v1/"
    assert f'href="{at}">model:sentiment@v1</a>' in browser(cast.ada).get(f"/j/{job.public_id}/").content.decode()
    page = browser(cast.ada).get(at).content.decode()
    assert job.public_id in page and "dataset:nlp/corpus@v1" in page


def test_all_tasks_of_an_attempt_write_into_one_folder(cast):
    job = make.job(cast.ada, pool="dev", outputs=OUT, roles={"a": {"run": "x"}, "b": {"run": "y"}})
    mounts = {build_task_spec(task).mounts for task in make.start(job)}
    home = AreaId("home", cast.ada.uid)
    assert mounts == {(Mount(home, f".tessera-outputs/job-{job.pk}.1/model-sentiment", "out", read_only=False),)}


def test_who_may_add_nothing_to_the_team_is_told_at_submit(cast, monkeypatch):
    monkeypatch.setattr(outputs, "may", lambda user, act, team: act != "dataset.add")
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", outputs=OUT)
    assert [(one.pointer, one.code) for one in refused.value.errors] == [("/outputs/out", "outputs_not_permitted")]


def test_what_starts_after_a_job_finds_what_that_left_and_not_before_it_is_kept(cast):
    first = make.job(cast.ada, pool="dev", name="train data", outputs=OUT)
    then = make.job(cast.ada, pool="dev", after="train data")
    go_on(cast.ada, first, "weights")
    assert settled(then).waits_for == [first.pk]
    late = make.job(cast.ada, pool="dev", after="train data")
    assert Job.objects.get(pk=late.pk).waits_for == [first.pk]
    finish()
    assert settled(then).waits_for == []
    version = DatasetVersion.objects.get()
    (task,) = make.start(Job.objects.get(pk=then.pk))
    spec = build_task_spec(task)
    assert spec.work_folders == {"AFTER_TRAIN_DATA_OUTPUTS": ".after/train_data"}
    place = AreaId("dataset", version.dataset.key)
    assert spec.mounts == (Mount(place, "1", ".after/train_data/out", read_only=True),)
    with pytest.raises(Conflict):  # it is used
        delete_unused_version(actor=cast.ada, version=version)
    Dataset.objects.update(share="private")
    colleague = make.job(cast.bob, pool="dev", after=first.public_id)
    (task,) = make.start(colleague)
    assert build_task_spec(task).work_folders == {}


def test_an_output_that_comes_to_nothing_keeps_nobody_waiting(cast):
    first = make.job(cast.ada, pool="dev", name="train", outputs=OUT)
    then = make.job(cast.ada, pool="dev", after="train")
    go_on(cast.ada, first, "")
    finish()
    assert settled(then).waits_for == []


def test_two_that_would_be_in_one_variable_are_refused(cast):
    for name in ("prep-a", "prep a", "实验"):
        make.job(cast.ada, pool="dev", name=name, outputs=OUT)
    make.job(cast.ada, pool="dev", after=["prep-a", "实验"])
    make.job(cast.ada, pool="dev", after={"prep-a": "success", "prep a": "failure"})  # which leaves nothing
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", after=["prep-a", "prep a"])
    (error,) = refused.value.errors
    assert (error.pointer, error.code) == ("/after", "dependency_outputs_alike")
    assert error.params["variable"] == "AFTER_PREP_A_OUTPUTS"
