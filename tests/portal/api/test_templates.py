"""Templates by the API, jobs that are made of them, and copies of jobs."""

import pytest

from jobs.models import Job
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db

FILE = """\
template:
  name: finetune
  description: Finetunes a model.
  parameters:
    lr: {type: number, default: 3e-4, most: 1, help: The learning rate.}
    gpu: {type: gpu, default: 1/4}
name: finetune
gpu: ${{ gpu }}
run: python train.py --lr ${{ lr }}
"""


def errors(answer) -> dict[str, str]:
    return {one["pointer"]: one["code"] for one in answer.json()["errors"]}


@pytest.fixture
def template(ada) -> str:
    answer = ada.post("templates", {"file": FILE})
    assert answer.status_code == 201 and answer["Location"].endswith(f"/templates/{answer.json()['id']}")
    return answer.json()["id"]


def test_it_is_shown_with_its_parameters(ada, template):
    shown = ada.get(f"templates/{template}").json()
    assert (shown["name"], shown["team"], shown["made_by"], shown["number"]) == ("finetune", "nlp", "ada", 1)
    assert shown["file"] == FILE and [one["name"] for one in shown["parameters"]] == ["lr", "gpu"]
    assert shown["parameters"][0] == {
        "name": "lr", "type": "number", "required": False, "default": "0.0003", "choices": [], "least": None,
        "most": 1.0, "help": "The learning rate.",
    }  # fmt: skip


def test_the_list_has_the_teams_everybodys_and_the_examples(ada, eve, template):
    assert [one["name"] for one in ada.get("templates?examples=false").json()["results"]] == ["finetune"]
    assert [one["id"] for one in ada.get("templates?name=first-steps").json()["results"]] == ["first-steps"]
    assert ada.get("templates?team=nlp&fields=id").json()["results"] == [{"id": template}]
    assert eve.get("templates?examples=false").json()["results"] == []
    assert len(eve.get("templates?examples=true").json()["results"]) == 9


def test_a_job_of_it_keeps_template_version_and_values(ada, template):
    ada.post(f"templates/{template}/versions", {"file": FILE.replace("3e-4", "1e-4")})
    asked = {"version": 1, "values": {"lr": "5e-4"}, "changes": {"name": "mine"}}
    answer = ada.post(f"templates/{template}:run", asked)
    assert answer.status_code == 201, answer.json()
    job = answer.json()
    kept = {"id": template, "name": "finetune", "version": 1, "values": {"lr": "5e-4", "gpu": "1/4"}}
    assert (job["template"], job["name"], job["spec"]["run"]) == (kept, "mine", "python train.py --lr 5e-4")
    assert ada.get(f"jobs/{job['id']}").json()["template"] == kept


def test_the_same_request_twice_makes_one_job(ada, template):
    twice = [ada.post(f"templates/{template}:run", {"values": {"lr": "1"}}, Idempotency_Key="once") for _ in range(2)]
    assert twice[0].json()["id"] == twice[1].json()["id"] and Job.objects.count() == 1
    assert ada.post(f"templates/{template}:run", {"values": {"lr": "0"}}, Idempotency_Key="once").status_code == 422


def test_what_is_shown_is_what_runs(ada, template):
    shown = ada.post(f"templates/{template}:render", {"values": {"gpu": "1/2"}}).json()
    assert shown["values"] == {"lr": "0.0003", "gpu": "1/2"} and "gpu: 1/2\n" in shown["file"]
    assert not Job.objects.exists()
    job = ada.post(f"templates/{template}:run", {"values": {"gpu": "1/2"}}).json()
    assert job["spec"]["run"] == shown["spec"]["run"] and job["gpu"] == "1/2"


@pytest.mark.parametrize(
    ("asked", "pointer", "code"),
    [
        ({"values": {"lr": "fast"}}, "/values/lr", "not_number"),
        ({"values": {"lr": 2}}, "/values/lr", "too_large"),
        ({"values": {"rate": 2}}, "/values/rate", "unknown_parameter"),
        ({"values": []}, "/values", "not_a_list"),
        ({"changes": {"gpus": 1}}, "/gpus", "unknown_key"),
        ({"version": 0}, "/version", "min_value"),
    ],
)
def test_a_wrong_run_names_the_parameter(ada, template, asked, pointer, code):
    answer = ada.post(f"templates/{template}:run", asked)
    assert answer.status_code == 400 and pointer in errors(answer), answer.json()
    assert not Job.objects.exists()


def test_an_impossible_one_is_refused_as_a_submit_is(ada, template):
    answer = ada.post(f"templates/{template}:run", {"values": {"gpu": "64"}})
    assert answer.status_code == 422 and not Job.objects.exists()


def test_a_wrong_file_names_its_place(ada):
    answer = ada.post("templates", {"file": FILE.replace("${{ lr }}", "${{ rate }}")})
    assert answer.status_code == 400
    assert errors(answer) == {"/run": "undeclared_parameter", "/template/parameters/lr": "unused_parameter"}


def test_everybodys_are_made_by_admins_alone(ada, cast):
    refused = ada.post("templates", {"file": FILE, "everybody": True})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_permitted")


def test_versions_archive_and_restore(ada, template):
    answer = ada.post(f"templates/{template}/versions", {"file": FILE.replace("3e-4", "1e-4")})
    assert (answer.status_code, answer.json()["number"]) == (201, 2)
    assert [one["number"] for one in ada.get(f"templates/{template}/versions").json()["results"]] == [2, 1]
    assert ada.get(f"templates/{template}?version=1").json()["file"] == FILE
    assert ada.get(f"templates/{template}?version=3").status_code == 404
    assert ada.post(f"templates/{template}:archive").json()["archived_at"]
    assert ada.post(f"templates/{template}:run", {}).json()["code"] == "template_archived"
    assert ada.post(f"templates/{template}:restore").json()["archived_at"] is None
    assert ada.post("templates/first-steps:archive").json()["code"] == "example_is_fixed"


def test_a_rerun_is_a_new_job_with_its_parent(ada, cast, template):
    first = ada.post(f"templates/{template}:run", {"values": {"lr": 1}}).json()
    again = ada.post(f"jobs/{first['id']}:rerun", {"exact": True})
    assert again.status_code == 201
    job = again.json()
    assert (job["parent"], job["template"], job["spec"]) == (first["id"], first["template"], first["spec"])
    assert ada.get(f"jobs/{first['id']}").json()["parent"] is None
    told = ada.get(f"jobs/{first['id']}/diff?other={job['id']}").json()
    assert told == {"before": first["id"], "after": job["id"], "differences": []}


def test_a_diff_names_each_field(ada, cast):
    one, other = make.job(cast.ada, gpu="1/4", pool="dev"), make.job(cast.bob, gpu="1/2", pool="dev", env={"A": "1"})
    told = ada.get(f"jobs/{one.public_id}/diff?other={other.public_id}").json()["differences"]
    assert {"field": "gpu", "before": "1/4", "after": "1/2"} in told
    assert {"field": "env.A", "before": None, "after": "1"} in told
    assert ada.get(f"jobs/{one.public_id}/diff?other=job-999999").status_code == 404
    assert ada.get(f"jobs/{one.public_id}/diff?other=my job-1").status_code == 404
    assert errors(ada.get(f"jobs/{one.public_id}/diff")) == {"/other": "required"}


def test_what_is_too_deep_is_refused(ada, template):
    deep: dict = {}
    for _ in range(400):
        deep = {"a": deep}
    for asked in ({"values": {"lr": deep}}, {"changes": {"env": deep}}, {"changes": {"ports": [[[[deep]]]]}}):
        answer = ada.post(f"templates/{template}:run", asked)
        assert answer.status_code == 400, answer.content[:300]
    assert ada.post(f"templates/{template}:run", {"values": {"lr": 10**4000}}).status_code == 400


def test_an_administrator_lists_other_teams_by_name(cast, template):
    admin = Api(make.token(make.admin()))
    assert admin.get("templates?examples=false").json()["results"] == []
    assert [one["id"] for one in admin.get("templates?team=nlp").json()["results"]] == [template]
    assert admin.get(f"templates/{template}").status_code == 200
