"""Notebooks by REST."""

import pytest

from jobs.models import Job
from notebooks.environment import READY, environment_path
from portal.api.about import describe

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def environment(settings, tmp_path):
    settings.TESSERA_DATA, settings.TESSERA_FILES = tmp_path, tmp_path / "files"
    environment_path(tmp_path).mkdir(parents=True)
    (environment_path(tmp_path) / READY).touch()


@pytest.fixture
def explore(ada):
    """The address of ada's notebook, of 1/4 of a card."""
    return f"notebooks/{ada.post('notebooks', {'name': 'explore', 'gpu': '1/4'}).json()['id']}"


def test_while_the_environment_is_prepared_a_start_says_when_to_try_again(ada, explore, settings, tmp_path):
    settings.TESSERA_DATA = tmp_path / "new"
    refused = ada.post(f"{explore}:start", {})
    assert (refused.status_code, refused.json()["code"]) == (503, "notebooks_preparing")
    assert int(refused["Retry-After"]) > 0 and not Job.objects.exists()


def test_the_description_tells_of_that():
    described = describe()["paths"]["/api/v1/notebooks/{notebook_id}:start"]["post"]["responses"]
    assert "503" in described
