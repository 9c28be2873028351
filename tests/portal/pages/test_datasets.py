"""Pages of datasets: what one may read, its versions and files, and what may be done with them."""

import pytest
from asgiref.sync import async_to_sync

from datasets.models import Dataset, DatasetVersion
from datasets.stages import list_stages
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_FILES, settings.TESSERA_PUBLIC_URL = tmp_path / "files", "http://testserver"
    return make.cast()


def text(answer) -> str:
    return answer.content.decode()


def body_of(answer) -> bytes:
    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(read)()


def test_a_folder_is_taken_by_the_form(cast):
    make.files(cast.ada, {"a.txt": "one"})
    client = browser(cast.ada)
    asked = {"name": "corpus", "team": "nlp", "place": "home", "path": "corpus", "kind": "dataset", "share": "team"}
    answer = client.post("/data/", asked, follow=True)
    assert "corpus@v1 is being taken" in text(answer) and DatasetVersion.objects.get().path == "corpus"
    wrong = client.post("/data/", {**asked, "name": "A B"})
    assert wrong.status_code == 400 and "is not a name of a dataset" in text(wrong)
    assert client.post("/data/", {**asked, "path": "nothing"}).status_code == 400


def test_the_list_and_a_version_show_sizes_files_and_jobs(cast):
    version = make.dataset(cast.ada, versions=2)
    job = make.job(cast.ada, name="reader", data={"in": "dataset:corpus"}, pool="dev")
    client, at = browser(cast.ada), f"/data/{version.dataset.public_id}/"
    assert "corpus" in text(client.get("/data/")) and "v2" in text(client.get("/data/"))
    assert "dataset:nlp/corpus@v2" in text(client.get(at))
    shown = text(client.get(f"{at}v2/"))
    assert "words.txt" in shown and job.public_id in shown
    compared = text(client.get(f"{at}v2/?against=1"))
    assert "words.txt" in compared and "same.txt" not in compared
    assert body_of(client.get(f"{at}v2/file?path=same.txt")) == b"same"
    assert client.get(f"{at}v2/?path=nothing").status_code == 404 and client.get(f"{at}v9/").status_code == 404


def test_strangers_find_nothing_and_readers_change_nothing(cast):
    version = make.dataset(cast.ada)
    at = f"/data/{version.dataset.public_id}/"
    dora = browser(make.user("dora", cast.nlp))
    for path in (at, f"{at}v1/", f"{at}v1/file?path=same.txt"):
        assert browser(cast.eve).get(path).status_code == 404
    assert version.dataset.public_id not in text(browser(cast.eve).get("/data/"))
    assert dora.get(at).status_code == 200 and "delete-1" not in text(dora.get(at))
    assert dora.post(at, {"share": "everybody"}).status_code == 403


def test_owners_share_delete_and_restore(cast):
    version = make.dataset(cast.ada)
    client, at = browser(cast.ada), f"/data/{version.dataset.public_id}/"
    assert client.post(at, {"share": "teams", "teams": "", "description": ""}).status_code == 400
    client.post(at, {"share": "teams", "teams": "vision", "description": "Words"})
    dataset = Dataset.objects.get()
    assert (dataset.share, dataset.description) == ("teams", "Words")
    client.post(f"{at}v1/delete")
    assert DatasetVersion.objects.get().state == "deleted" and "Restore" in text(client.get(at))
    client.post(f"{at}v1/restore")
    assert DatasetVersion.objects.get().state == "ready"


def test_a_stage_is_set_by_the_form_and_none_removes_it(cast):
    version = make.dataset(cast.ada, versions=2)
    client, at = browser(cast.ada), f"/data/{version.dataset.public_id}/"
    client.post(f"{at}stage", {"stage": "prod", "version": "1"})
    assert list_stages(version.dataset) == {"prod": 1} and "prod</span>" in text(client.get(at))
    wrong = client.post(f"{at}stage", {"stage": "v1", "version": "2"})
    assert wrong.status_code == 400 and "is not a name of a stage" in text(wrong)
    client.post(f"{at}stage", {"stage": "prod", "version": ""})
    assert list_stages(version.dataset) == {}
    dora = browser(make.user("dora", cast.nlp))
    assert dora.post(f"{at}stage", {"stage": "prod", "version": "1"}).status_code == 403


def test_a_refused_deletion_names_the_jobs(cast):
    version = make.dataset(cast.ada)
    job = make.job(cast.ada, data={"in": "dataset:corpus"}, pool="dev")
    answer = browser(cast.ada).post(f"/data/{version.dataset.public_id}/v1/delete", follow=True)
    assert job.public_id in text(answer) and DatasetVersion.objects.get().state == "ready"


def test_the_list_takes_as_many_queries_for_ten_as_for_two(cast, django_assert_max_num_queries):
    for number in range(2):
        make.dataset(cast.ada, name=f"corpus{number}")
    client = browser(cast.ada)
    client.get("/data/")
    with django_assert_max_num_queries(24):
        client.get("/data/")
