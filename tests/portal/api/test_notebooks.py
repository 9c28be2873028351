"""Notebooks by REST."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from files.file_areas import find_file_area
from jobs.models import Job
from notebooks.models import Notebook
from portal.api.about import describe
from runtimes.storage.areas import get_area_path
from tests import make
from tests.api_client import BASE, Api
from tests.described_world import make_room

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def environment(settings, tmp_path):
    make_room(settings, tmp_path)


@pytest.fixture
def explore(ada):
    """The address of ada's notebook, of 1/4 of a card."""
    return f"notebooks/{ada.post('notebooks', {'name': 'explore', 'gpu': '1/4'}).json()['id']}"


@pytest.fixture
def folder(cast, settings):
    """Where ada's notebook keeps its files, with one in it."""
    area = find_file_area(cast.ada, "home")
    for name in ("notebooks", "notebooks/explore"):
        area.store.make_folder(name)
    path = get_area_path(settings.TESSERA_FILES, area.area_id) / "notebooks/explore"
    (path / "Untitled.ipynb").write_text("{}")
    return path


def test_while_the_environment_is_prepared_a_start_says_when_to_try_again(ada, explore, settings, tmp_path):
    settings.TESSERA_DATA = tmp_path / "new"
    refused = ada.post(f"{explore}:start", {})
    assert (refused.status_code, refused.json()["code"]) == (503, "notebooks_preparing")
    assert int(refused["Retry-After"]) > 0 and not Job.objects.exists()


def test_the_description_tells_of_that():
    described = describe()["paths"]["/api/v1/notebooks/{notebook_id}:start"]["post"]["responses"]
    assert "503" in described


def test_a_notebook_that_is_made_to_start_is_started_once(ada):
    asked = {"name": "explore", "gpu": "1/4", "start": True}
    first, again = (ada.post("notebooks", asked, Idempotency_Key="k-1") for _ in range(2))
    assert first.status_code == 201 and first.json()["state"] == "queued" and again.json()["job"] == first.json()["job"]
    ada.post(f"notebooks/{first.json()['id']}:stop")
    assert ada.post("notebooks", asked, Idempotency_Key="k-1").json()["state"] == "stopped"
    assert Notebook.objects.count() == Job.objects.count() == 1


def test_where_its_start_is_refused_none_is_made(ada, cast):
    make.limit(cast.ada, notebooks_running=1)
    assert ada.post("notebooks", {"name": "one", "start": True}).status_code == 201
    refused = ada.post("notebooks", {"name": "two", "start": True})
    assert (refused.status_code, refused.json()["code"]) == (409, "user_limit") and "one (nb-" in refused.json()[
        "detail"
    ]
    assert ada.post("notebooks", {"name": "three", "gpu": "64", "start": True}).status_code == 409
    make.limit(cast.ada, notebooks_running=9)
    assert ada.post("notebooks", {"name": "three", "gpu": "64", "start": True}).status_code == 422
    assert [one.name for one in Notebook.objects.all()] == ["one"]


def test_a_notebook_that_is_made_again_by_the_same_key_is_the_first(ada):
    first, again = (ada.post("notebooks", {"name": "explore"}, Idempotency_Key="k-1") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201) and first["Location"] == again["Location"]
    other = ada.post("notebooks", {"name": "other"}, Idempotency_Key="k-1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert Notebook.objects.count() == 1


def test_a_start_that_comes_again_after_a_stop_starts_nothing(ada, explore):
    ada.post(f"{explore}:start", {}, Idempotency_Key="k-1")
    ada.post(f"{explore}:stop")
    again = ada.post(f"{explore}:start", {}, Idempotency_Key="k-1")
    assert (again.status_code, again.json()["state"]) == (200, "stopped") and Job.objects.count() == 1
    assert ada.post(f"{explore}:start", {}, Idempotency_Key="k-2").json()["state"] == "queued"


def test_a_key_is_for_one_address_and_one_body(ada, explore):
    other = f"notebooks/{ada.post('notebooks', {'name': 'other'}, Idempotency_Key='k-0').json()['id']}"
    ada.post(f"{explore}:start", {}, Idempotency_Key="k-1")
    for path, said in ((f"{other}:start", {}), (f"{explore}:start", {"gpu": "0"}), ("jobs", {"run": "true"})):
        assert ada.post(path, said, Idempotency_Key="k-1").status_code == 422
    assert Job.objects.count() == 1


def test_a_refused_start_does_not_use_up_its_key(ada, cast, explore):
    make.limit(cast.ada, notebooks_running=0)
    assert ada.post(f"{explore}:start", {}, Idempotency_Key="k-1").status_code == 409
    make.limit(cast.ada, notebooks_running=1)
    assert ada.post(f"{explore}:start", {}, Idempotency_Key="k-1").json()["state"] == "queued"


@pytest.mark.django_db(transaction=True)
def test_the_same_request_sixteen_times_at_once_makes_one_notebook_and_one_start(cast):
    secret = make.token(cast.ada)

    def send(path, said):
        try:
            return Api(secret).post(path, said, Idempotency_Key=path)
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: send("notebooks", {"name": "explore"}), range(16)))
        started = list(pool.map(lambda _: send(f"notebooks/{made[0].json()['id']}:start", {}), range(16)))
    assert {answer.status_code for answer in made} == {201} and {answer.status_code for answer in started} == {200}
    assert len({answer["Location"] for answer in made}) == Notebook.objects.count() == Job.objects.count() == 1


def patch(api, path, body, **headers):
    sent = {**api.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return api.client.patch(BASE + path, body, content_type="application/json", headers=sent)


def test_it_is_renamed_and_its_folder_stays(ada, explore):
    shown = patch(ada, explore, {"name": "lab"}).json()
    assert (shown["name"], shown["folder"], shown["spec"]["name"]) == ("lab", "notebooks/explore", "lab")
    again = ada.post("notebooks", {"name": "explore"}).json()
    assert again["folder"] == "notebooks/explore-2"
    taken = patch(ada, explore, {"name": "explore"})
    assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")


def test_a_change_of_what_somebody_else_changed_is_refused_in_words(ada, explore):
    seen = ada.get(explore)["ETag"]
    ada.post(f"{explore}:start", {})
    changed = patch(ada, explore, {"gpu": "1/2"}, If_Match=seen)
    assert changed.status_code == 200 and changed["ETag"] != seen
    refused = patch(ada, explore, {"gpu": "1"}, If_Match=seen)
    assert (refused.status_code, refused.json()["code"]) == (412, "changed_meanwhile")
    assert "Read it again" in refused.json()["detail"] and ada.get(explore).json()["spec"]["gpu"] == "1/2"


@pytest.mark.parametrize(("tag", "status"), [("*", 200), ('"x", {}', 200), ("W/{}", 412), ('"x"', 412), ("x", 412)])
def test_the_forms_of_if_match(ada, explore, tag, status):
    said = tag.format(ada.get(explore)["ETag"])
    assert patch(ada, explore, {"hours": 1}, If_Match=said).status_code == status


@pytest.mark.parametrize("said", ["", "?with_files=true", "?confirm=explor&with_files=true", "?confirm=EXPLORE"])
def test_nothing_is_deleted_unless_it_is_named(ada, explore, folder, said):
    refused = ada.delete(f"{explore}{said}")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/confirm")
    assert folder.exists() and ada.get(explore).status_code == 200


@pytest.mark.parametrize(("said", "stays"), [("", True), ("&with_files=false", True), ("&with_files=true", False)])
def test_its_folder_is_gone_from_the_persons_home_only_where_that_was_said(ada, explore, folder, said, stays):
    gone = ada.delete(f"{explore}?confirm=explore{said}")
    assert gone.status_code == 204, gone.content
    assert folder.exists() is stays and ada.get(explore).status_code == 404
    assert len(ada.get("files", {"path": "notebooks"}).json()["results"]) == stays


def test_one_that_is_started_keeps_its_files(ada, explore, folder):
    ada.post(f"{explore}:start", {})
    refused = ada.delete(f"{explore}?confirm=explore&with_files=true")
    assert (refused.status_code, refused.json()["code"]) == (409, "notebook_started") and folder.exists()


def test_its_start_is_among_the_jobs_only_where_that_is_asked(ada, explore):
    job = ada.post(f"{explore}:start", {}).json()["job"]
    other = ada.post("jobs", {"run": "true"}).json()["id"]

    def listed(**query):
        return [one["id"] for one in ada.get("jobs", query).json()["results"]]

    assert (listed(), listed(kind="batch"), listed(kind="interactive")) == ([other], [other], [job])
    assert ada.get(f"jobs/{job}").json()["kind"] == "interactive"
