"""Saved views of the list of jobs."""

import pytest

from jobs.models import Job
from jobs.states import TaskState
from portal.models import SavedView
from portal.saved_views.store import MOST_VIEWS
from tests import make

pytestmark = pytest.mark.django_db

ASKED = {
    "name": "broken", "whose": "team", "state": ["failed", "waiting"], "pool": "dev", "label": "exp:a", "days": "7d",
    "since": "2026-01-02", "until": "2999-01-02", "q": "train", "sort": "-ended",
}  # fmt: skip


def test_a_view_is_told_as_it_was_asked_for(ada):
    made = ada.post("me/views", ASKED)
    assert made.status_code == 201
    shown = made.json()
    assert {name: shown[name] for name in ASKED} == ASKED | {"state": ["waiting", "failed"]}
    assert ada.get("me/views").json()["results"] == [shown]


def test_the_portal_lists_what_the_api_saved(cast, ada, client):
    ada.post("me/views", ASKED)
    client.force_login(cast.ada)
    page = client.get(f"/jobs/{SavedView.objects.get().query}").content.decode()
    assert 'aria-current="true">broken<' in page and "is left out" not in page


def test_its_query_finds_the_jobs_of_the_page(cast, ada, client):
    for name, person, labels in (
        ("mine", cast.ada, {"exp": "a"}),
        ("bobs", cast.bob, {"exp": "a"}),
        ("b", cast.ada, {}),
    ):
        make.start(job := make.job(person, name=name, pool="dev", labels=labels))
        make.end(job, TaskState.FAILED, "exit_nonzero", 1)
    make.job(cast.ada, name="waits", pool="dev", labels={"exp": "a"})
    client.force_login(cast.ada)
    for asked, names in (
        ({"state": ["failed"], "label": "exp:a"}, {"mine"}),
        ({"state": ["failed"], "whose": "team", "label": "exp", "days": "today"}, {"mine", "bobs"}),
        ({"owner": "bob", "pool": "dev"}, {"bobs"}),
        ({"q": "wait", "since": "2020-01-01"}, {"waits"}),
        ({"until": "2020-01-01"}, set()),
    ):
        query = ada.post("me/views", {"name": "v", **asked}).json()["jobs"]
        assert {job["name"] for job in ada.get("jobs", query).json()["results"]} == names, asked
        page = client.get(f"/jobs/{SavedView.objects.get().query}").content.decode()
        shown = {job.name for job in Job.objects.all() if f"/j/{job.public_id}" in page}
        assert shown == names, asked


def test_a_view_of_the_same_name_is_replaced(ada):
    first = ada.post("me/views", {"name": "mine", "state": ["failed"]}).json()
    again = ada.post("me/views", {"name": "mine", "pool": "dev"})
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert (again.json()["state"], again.json()["pool"]) == ([], "dev")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "x" * 41}, {"name": "a\x07b"}, {"whose": "all"}, {"state": ["running"]},
        {"pool": "nowhere"}, {"days": "8d"}, {"since": "1969-12-31"}, {"until": "9999-12-31"}, {"sort": "priority"},
        {"kind": "gang"},
    ],
)  # fmt: skip
def test_what_is_not_possible_is_refused_with_its_field(ada, wrong):
    refused = ada.post("me/views", {"name": "v"} | wrong)
    (field,) = wrong
    assert refused.status_code == 400
    assert [one["pointer"].split("/")[1] for one in refused.json()["errors"]] == [field]
    assert not SavedView.objects.exists()


def test_there_is_a_most(cast, ada):
    SavedView.objects.bulk_create(SavedView(user=cast.ada, name=f"v{n}", query="?q=a") for n in range(MOST_VIEWS))
    (error,) = ada.post("me/views", {"name": "one more"}).json()["errors"]
    assert error["code"] == "too_many_views" and str(MOST_VIEWS) in error["detail"]
    assert ada.post("me/views", {"name": "v0"}).status_code == 200


def test_views_are_ones_own_and_need_their_scopes(cast, ada, bob):
    view = ada.post("me/views", {"name": "mine"}).json()
    assert bob.get("me/views").json()["results"] == []
    assert bob.client.delete(f"/api/v1/me/views/{view['id']}", headers=bob.headers).status_code == 404
    reads = {"Authorization": f"Bearer {make.token(cast.ada, 'jobs:read')}"}
    assert ada.client.delete(f"/api/v1/me/views/{view['id']}", headers=reads).status_code == 403
    assert ada.client.delete(f"/api/v1/me/views/{view['id']}", headers=ada.headers).status_code == 204
    assert not SavedView.objects.exists()
