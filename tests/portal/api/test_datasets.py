"""Datasets by REST: added, listed, browsed, compared, shared and deleted."""

import pytest
from asgiref.sync import async_to_sync

from events.models import Event
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _files(settings, tmp_path):
    settings.TESSERA_FILES = tmp_path / "files"


def body_of(answer) -> bytes:
    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(read)()


def test_a_folder_becomes_versions_that_are_browsed_and_compared(ada, cast):
    make.files(cast.ada, {"a.txt": "one", "deep/b.txt": "two"})
    made = ada.post("datasets", {"name": "corpus", "path": "corpus", "note": "first"})
    shown = made.json()
    at = f"datasets/{shown['dataset']}/versions/1"
    assert made.status_code == 201 and made["Location"].endswith(f"/api/v1/{at}")
    assert (shown["state"], shown["name"], shown["source"]) == ("taking", "dataset:nlp/corpus@v1", "home:corpus")
    assert ada.get(f"{at}/files").status_code == 409
    make.make_versions()
    done = ada.get(at).json()
    assert (done["state"], done["files"], done["bytes"], done["new_bytes"], done["note"]) == ("ready", 2, 6, 6, "first")
    assert [row["name"] for row in ada.get(f"{at}/files").json()["results"]] == ["deep", "a.txt"]
    assert [row["name"] for row in ada.get(f"{at}/files?path=deep").json()["results"]] == ["b.txt"]
    assert body_of(ada.get(f"{at}/content?path=deep/b.txt")) == b"two"
    for wrong in ("..", "../2", "deep/../../2", "nothing"):
        assert ada.get(f"{at}/content?path={wrong}").status_code in (400, 404)
    make.files(cast.ada, {"a.txt": "longer", "new": ""})
    ada.post("datasets", {"name": "corpus", "path": "corpus"})
    make.make_versions()
    found = ada.get(f"datasets/{shown['dataset']}/versions/2/diff?against=1").json()["results"]
    assert found == [
        {"path": "a.txt", "change": "changed", "size": 6, "size_before": 3},
        {"path": "new", "change": "added", "size": 0, "size_before": None},
    ]
    versions = ada.get(f"datasets/{shown['dataset']}/versions").json()["results"]
    assert [row["version"] for row in versions] == [2, 1]


def test_who_reads_it_changes_with_its_share(ada, eve, cast):
    version = make.dataset(cast.ada)
    at = f"datasets/{version.dataset.public_id}"
    assert eve.get("datasets").json()["results"] == [] and eve.get(f"{at}/versions/1/files").status_code == 404
    changed = ada.patch(at, {"share": "teams", "teams": ["vision"], "description": "Words"}).json()
    assert (changed["share"], changed["shared_with"], changed["description"]) == ("teams", ["vision"], "Words")
    assert eve.get(at).status_code == 200 and eve.get(f"{at}/versions/1/files").status_code == 200
    assert eve.patch(at, {"share": "everybody"}).status_code == 403
    assert ada.get("datasets?kind=model").json()["results"] == []


def test_a_stage_is_set_moved_and_removed_and_keeps_its_version(ada, eve, cast):
    version = make.dataset(cast.ada, versions=2)
    at = f"datasets/{version.dataset.public_id}"
    assert ada.patch(at, {"stages": {"prod": 1}}).json()["stages"] == {"prod": 1}
    assert ada.patch(at, {"stages": {"prod": 2, "next": 1}}).json()["stages"] == {"prod": 2, "next": 1}
    refused = ada.delete(f"{at}/versions/2")
    assert refused.status_code == 409 and "at the stage prod" in refused.json()["detail"]
    for stage, number in (("v3", 1), ("Prod", 1), ("prod", 9), ("prod", 0), ("prod", "x")):
        assert ada.patch(at, {"stages": {stage: number}}).status_code == 400
    assert ada.patch(at, {"stages": {f"s{n}": 1 for n in range(20)}}).status_code == 400
    assert eve.patch(at, {"stages": {"prod": 1}}).status_code == 404
    assert ada.patch(at, {"stages": {"prod": None, "none": None}}).json()["stages"] == {"next": 1}
    assert ada.delete(f"{at}/versions/2").status_code == 204
    last = Event.objects.filter(kind="dataset", verb="changed").last().params
    assert (last["from"], last["to"]) == ({"stages": {"prod": 2, "next": 1}}, {"stages": {"next": 1}})


def test_a_version_is_deleted_and_restored_unless_a_job_uses_it(ada, cast):
    version = make.dataset(cast.ada)
    at = f"datasets/{version.dataset.public_id}/versions/1"
    job = make.job(cast.ada, data={"in": "dataset:corpus"}, pool="dev")
    refused = ada.delete(at)
    assert refused.status_code == 409 and job.public_id in refused.json()["detail"]
    make.start(job)
    make.end(job)
    assert ada.delete(at).status_code == 204 and ada.get(at).json()["state"] == "deleted"
    assert ada.delete(at).status_code == 409
    assert ada.post(f"{at}:restore").json()["state"] == "ready" and ada.post(f"{at}:restore").status_code == 409


def test_a_version_that_failed_says_why(ada, cast):
    version = make.dataset(cast.ada)
    type(version).objects.update(state="failed", error={"code": "source_changes", "params": {"path": "log"}})
    shown = ada.get(f"datasets/{version.dataset.public_id}/versions/1").json()
    assert shown["error"].startswith("log changed while it was read")
