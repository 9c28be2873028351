"""Environments by REST: built, saved, listed by a package, and compared."""

import pytest

from jobs.models import Job
from notebooks.services import create_notebook
from tests import make

pytestmark = pytest.mark.django_db
FOLDER = "lib/python3.11/site-packages/numpy-{}.dist-info/METADATA"


@pytest.fixture(autouse=True)
def _files(settings, tmp_path):
    settings.TESSERA_FILES = tmp_path / "files"


def test_a_recipe_is_a_job_and_what_is_wrong_names_its_field(ada, cast):
    made = ada.post("environments:build", {"name": "tools", "pip": ["numpy==2.0"], "pool": "dev", "cpu": "500m"})
    job = Job.objects.get()
    assert made.status_code == 201 and made.json() == {"job": job.public_id}
    assert job.spec["cpu"] == "500m" and job.labels == {"environment": "tools"}
    wrong = ada.post("environments:build", {"name": "tools", "pip": ["-r requirements.txt"], "pool": "nowhere"})
    assert [one["pointer"] for one in wrong.json()["errors"]] == ["/code"]
    wrong = ada.post("environments:build", {"name": "tools", "pip": ["numpy"], "pool": "dev", "base": "a b"})
    assert wrong.status_code in (400, 422)


def test_what_a_notebook_keeps_is_saved_and_compared(ada, eve, cast):
    notebook = create_notebook(user=cast.ada, name="explore", gpu="0")
    at = f"notebooks/{notebook.public_id}:save-environment"
    assert ada.post(at, {"name": "tools"}).status_code == 409
    for number in ("1.0", "2.0"):
        make.files(
            cast.ada, {"bin/python": "", FOLDER.format(number): ""}, f".tessera-environments/{notebook.public_id}"
        )
        made = ada.post(at, {"name": "tools", "note": f"numpy {number}"})
        assert made.status_code == 201 and made.json()["name"].startswith("nlp/tools@v")
        make.make_versions()
    (row,) = ada.get("environments?package=numpy").json()["results"]
    assert (row["kind"], row["name"], row["newest"]) == ("environment", "tools", 2)
    packages = f"datasets/{row['id']}/versions/2/packages"
    assert [one["name"] for one in ada.get(packages).json()["results"]] == ["numpy"]
    assert ada.get(f"{packages}?against=1").status_code == 200
    assert eve.get("environments").json()["results"] == [] and eve.get(packages).status_code == 404
