"""Pages of environments: found by a package, compared, built by the form, saved from a notebook."""

import pytest
from django.conf import settings as conf

from datasets.models import DatasetVersion
from jobs.models import Job
from jobs.states import TaskState
from notebooks.services import create_notebook
from runtimes.log_store import LogStore
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
SITE = "lib/python3.11/site-packages"


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_FILES, settings.TESSERA_PUBLIC_URL = tmp_path / "files", "http://testserver"
    settings.TESSERA_LOGS = tmp_path / "logs"
    return make.cast()


def text(answer) -> str:
    return answer.content.decode()


def save(person, **packages: str) -> DatasetVersion:
    """The next version of tools, with these packages alone."""
    files = {f"{SITE}/{name}-{number}.dist-info/METADATA": "" for name, number in packages.items()}
    make.files(person, {"pyvenv.cfg": "", **files}, f"tools-{len(packages)}")
    return make.environment(person, "sd-train", f"tools-{len(packages)}")


def test_one_is_found_by_what_it_brings_and_versions_are_compared(cast):
    save(cast.ada, numpy="1.0")
    version = save(cast.ada, numpy="2.0", Jinja2="3.1")
    client, at = browser(cast.ada), f"/data/{version.dataset.public_id}/"
    assert "numpy==2.0" in text(client.get("/environments/?package=nump"))
    assert "sd-train" in text(client.get("/environments/?package=numpy==1.0"))
    assert "None has it" in text(client.get("/environments/?package=numpy==7"))
    assert "environment: nlp/sd-train@v2" in text(client.get(at)) and "sd-train" not in text(client.get("/data/"))
    shown = text(client.get(f"{at}v2/"))
    assert "jinja2" in shown and "numpy" in shown
    compared = text(client.get(f"{at}v2/?against=1"))
    assert "1.0" in compared and "2.0" in compared and "pyvenv.cfg" not in compared
    assert "None has it" in text(browser(cast.eve).get("/environments/?package=numpy"))


def test_the_form_builds_one_and_a_failure_shows_the_last_words_of_pip(cast):
    client, asked = browser(cast.ada), {"name": "sd-train", "team": "nlp", "pip": "numpy==2.0\n\n  Jinja2"}
    wrong = client.post("/environments/", {**asked, "name": "A B", "pip": " \n"})
    assert wrong.status_code == 400
    assert client.post("/environments/", {**asked, "base": "no such image"}).status_code == 400
    client.post("/environments/", asked)
    job = Job.objects.get()
    assert job.spec["outputs"] == {"env": "environment:sd-train"} and "numpy==2.0 Jinja2" in job.spec["run"]
    make.start(job)
    task = make.end(job, TaskState.FAILED, "exit_nonzero", 1).newest_tasks[0]
    LogStore(conf.TESSERA_LOGS).append(task.uuid.hex, 0, b"Collecting\nERROR: No matching distribution\n")
    assert "ERROR: No matching distribution" in text(client.get("/environments/"))


def test_a_notebook_is_saved_from_its_page(cast):
    notebook = create_notebook(user=cast.ada, name="explore", gpu="0")
    client, at = browser(cast.ada), f"/n/{notebook.public_id}/save-environment"
    assert "keeps no packages yet" in text(client.post(at, {"name": "sd-train"}, follow=True))
    folder = f".tessera-environments/{notebook.public_id}"
    make.files(cast.ada, {"bin/python": "", f"{SITE}/numpy-2.0.dist-info/METADATA": ""}, folder)
    assert "is being taken" in text(client.post(at, {"name": "sd-train"}, follow=True))
    make.make_versions()
    assert [str(one) for one in DatasetVersion.objects.get().packages.all()] == ["numpy==2.0"]
    assert browser(cast.bob).post(at, {"name": "sd-train"}).status_code == 404
