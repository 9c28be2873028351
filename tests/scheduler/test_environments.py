"""Environments by real programs: one is built by a job, and the next job runs in it."""

import zipfile
from pathlib import Path

import pytest

from datasets.models import DatasetVersion, EnvironmentPackage, VersionState
from environments.recipes import Recipe
from environments.services import build_environment
from jobs.models import Job
from jobs.outputs.outputs import take_outputs
from jobs.states import JobState
from scheduler.preview.preview import check_possible
from tests import make
from tests.scheduler.test_main_job import drive

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = {"cpu": "100m", "memory": "256MiB", "pool": "dev"}
END = (JobState.SUCCEEDED, JobState.FAILED)
PIP = ("--no-index", "--find-links ${HOME}/wheels", "tessera-tiny==1.0")


@pytest.fixture
def wheels(local, ada, settings) -> Path:
    """A folder of ada's home with one package."""
    settings.TESSERA_FILES = local.machine.config.areas_dir
    make.files(ada, {"tessera_tiny-1.0-py3-none-any.whl": ""}, "wheels")
    (wheel,) = settings.TESSERA_FILES.glob("home/*/wheels/*.whl")
    about = "tessera_tiny-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tessera_tiny.py", "NAMES = frozenset({'a', 'b', 'c'})\ndef main(): print('it runs')\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tessera-tiny\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/entry_points.txt", "[console_scripts]\ntessera-tiny = tessera_tiny:main\n")
        archive.writestr(f"{about}/RECORD", "")
    return wheel.parent


def build(person, **said) -> Job:
    recipe = Recipe(**{"name": "tiny", "pool": "dev", "pip": PIP, "cpu_milli": 500, "memory_mib": 512, **said})
    job = build_environment(user=person, recipe=recipe, check=check_possible, containers=False)
    job = drive(job, *END, seconds=100, every_s=0.2)  # to make a venv takes seconds, and others work here, too
    take_outputs()
    make.make_versions()
    take_outputs()
    return job


def log(local, job) -> str:
    return local.logs.read(job.newest_tasks[0].uuid.hex, 0)[0].decode()


def test_a_recipe_becomes_a_version_in_which_jobs_run(local, ada, wheels):
    job = build(ada, test="tessera-tiny && python -c 'import tessera_tiny'")
    assert job.state == JobState.SUCCEEDED, log(local, job)
    version = DatasetVersion.objects.get()
    assert (version.state, version.job_file_name, version.left_out) == (VersionState.READY, "nlp/tiny@v1", [])
    assert list(EnvironmentPackage.objects.values_list("name", "number")) == [("tessera-tiny", "1.0")]
    run = "tessera-tiny && python -c 'import sys; print(sys.prefix)' && echo $VIRTUAL_ENV; touch $VIRTUAL_ENV/x; true"
    uses = drive(make.job(ada, check=check_possible, run=run, environment="tiny@1", **SMALL), *END)
    assert uses.spec["environment"] == "nlp/tiny@v1"
    said = log(local, uses).splitlines()
    assert said[0] == "it runs" and said[1] == said[2] and "Read-only file system" in said[3], said
    build(ada)
    first, second = DatasetVersion.objects.order_by("number")
    assert (second.number, second.digest, second.new_bytes) == (2, first.digest, 0)


def test_a_hostile_recipe_changes_nothing_outside_and_leaves_no_version(local, ada, wheels):
    """Its shell text is that of any task: it cannot write outside, and its children end with it."""
    hostile = (
        "for place in /usr/bin /etc /; do touch $place/tessera-hostile && echo WROTE $place; done; "
        "(while :; do sleep 1000; done) & (setsid sleep 1001 &) ; exit 1"
    )
    job = build(ada, pip=PIP, test=hostile)
    assert (job.state, job.reason) == (JobState.FAILED, "exit_nonzero")
    words = log(local, job)
    assert "The test failed, so there is no version." in words and "WROTE" not in words
    assert not DatasetVersion.objects.exists()
    assert {view.phase for view in local.list_containers()} <= {"exited"}
