"""Environments that jobs name: pinned with their image when a job is submitted, for those who may read them."""

import pytest

from common.errors import Conflict, InvalidInput
from datasets.models import DatasetVersion, Share
from datasets.services import change_dataset
from jobs.jobfile.spec import JobSpec
from jobs.used_data.environments import pin_environment
from jobs.used_data.naming import delete_unused_version, list_users
from runtimes.contract.task import Mount
from runtimes.storage.areas import AreaId
from scheduler.reconcile.task_specs import build_task_spec
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_FILES = tmp_path / "files"
    return make.cast()


def refusal(person, **spec) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as refused:
        make.job(person, pool="dev", **spec)
    return [(one.pointer, one.code) for one in refused.value.errors]


def test_the_newest_is_pinned_with_its_image_and_mounted_read_only(cast):
    make.dataset(cast.ada, "sd", versions=2, kind="environment", base="torch:2@sha256:" + "0" * 64)
    job = make.job(cast.ada, pool="dev", environment="sd")
    assert (job.spec["environment"], job.spec["image"]) == ("nlp/sd@v2", "torch:2@sha256:" + "0" * 64)
    make.start(job)
    version = DatasetVersion.objects.get(number=2)
    mount = Mount(AreaId("dataset", version.dataset.key), "2", "env", read_only=True)
    assert build_task_spec(job.newest_tasks[0]).environment == mount
    assert list_users(version) == [job]
    with pytest.raises(Conflict):
        delete_unused_version(actor=cast.ada, version=version)
    assert refusal(cast.ada, environment="sd", image="debian:12") == [("/image", "image_of_environment")]
    roles = {"a": {"run": "x", "image": "debian:12"}, "b": {"run": "y"}}
    assert refusal(cast.ada, environment="sd", roles=roles) == [("/roles/a/image", "image_of_environment")]
    with pytest.raises(InvalidInput):  # as of any image
        pin_environment(cast.ada, cast.nlp, JobSpec(name="a", environment="sd"), containers=False)


def test_who_may_not_read_it_is_told_the_same_as_of_one_that_is_not_there(cast):
    row = make.dataset(cast.ada, "sd", kind="environment")
    assert refusal(cast.eve, environment="nlp/sd") == refusal(cast.eve, environment="nlp/no-such")
    assert refusal(cast.ada, environment="sd@7") == [("/environment", "unknown_dataset_version")]
    assert refusal(cast.ada, environment="no") == [("/environment", "unknown_environment")]
    change_dataset(actor=cast.ada, dataset=row.dataset, share=Share.EVERYBODY)
    assert make.job(cast.eve, pool="dev", environment="nlp/sd").spec["environment"] == "nlp/sd@v1"
