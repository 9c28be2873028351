"""A job leaves a model by its real program, and the next one reads it."""

import pytest

from datasets.models import DatasetVersion, VersionState
from jobs.dependencies.settling import settle_dependencies
from jobs.outputs.outputs import take_outputs
from jobs.states import JobState
from scheduler.preview.preview import check_possible
from tests import make
from tests.scheduler.test_main_job import drive

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = {"cpu": "50m", "memory": "128MiB", "pool": "dev"}
END = (JobState.SUCCEEDED, JobState.FAILED)


def test_what_a_program_wrote_is_the_model_that_the_next_one_reads(local, ada, settings):
    settings.TESSERA_FILES = local.machine.config.areas_dir
    trains = make.job(
        ada, check=check_possible, run="echo weights > out/model.bin", outputs={"out": "model:m"}, name="train", **SMALL
    )
    script = "cat $AFTER_TRAIN_OUTPUTS/out/model.bin; ! touch $AFTER_TRAIN_OUTPUTS/out/x"
    after = make.job(ada, check=check_possible, run=script, after="train", **SMALL)
    assert drive(trains, *END).state == JobState.SUCCEEDED
    settle_dependencies(lambda: None)
    take_outputs()
    make.make_versions()
    assert DatasetVersion.objects.get().state == VersionState.READY
    reads = make.job(ada, check=check_possible, run="cat base/model.bin", data={"base": "model:m"}, **SMALL)
    assert drive(reads, *END).state == JobState.SUCCEEDED
    assert local.logs.read(reads.newest_tasks[0].uuid.hex, 0)[0] == b"weights\n"
    settle_dependencies(lambda: None)
    assert drive(after, *END).state == JobState.SUCCEEDED
    assert local.logs.read(after.newest_tasks[0].uuid.hex, 0)[0].startswith(b"weights\n")
    assert take_outputs() == 0  # removes the folder
    assert not list(settings.TESSERA_FILES.glob("home/*/.tessera-outputs/*"))
