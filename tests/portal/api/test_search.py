"""The search: what is found by which letters, by whom, and by which token."""

import pytest

from accounts.models import User
from jobs.models import Job
from notebooks.services import create_notebook
from portal.search.search import MOST, search
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(cast):
    job = make.job(cast.ada, name="Train a parser", team="nlp")
    Job.objects.filter(pk=job.pk).update(labels={"paper": "acl"})
    return job


def find(api: Api, text: str) -> list[str]:
    answer = api.client.get("/api/v1/search", {"q": text}, headers=api.headers)
    assert answer.status_code == 200, answer.content
    return [f"{found['kind']} {found['id']}" for found in answer.json()["results"]]


@pytest.mark.parametrize("text", ["job-{pk}", "JOB-{pk}", "{pk}", "  parser ", "PARS", "paper", "paper:acl"])
def test_a_job_is_found_by_id_part_of_its_name_and_label(ada, job, text):
    assert find(ada, text.format(pk=job.pk)) == [f"job job-{job.pk}"]


@pytest.mark.parametrize(
    "text", ["job-{pk}0", "nb-{pk}", "paper:other", "acl", "parser%", "9" * 30, "#parser", "@parser"]
)
def test_another_text_finds_no_job(ada, job, text):
    assert find(ada, text.format(pk=job.pk)) == []


def test_an_owner_finds_their_jobs_and_themself(bob, job):
    assert find(bob, "Ada") == [f"job job-{job.pk}", "user ada"]
    assert find(bob, "ad") == [f"job job-{job.pk}", "user ada"]
    assert find(bob, "da") == ["user ada"]


def test_a_stranger_finds_neither_the_job_nor_its_owner(eve, job):
    assert [find(eve, text) for text in (job.public_id, "parser", "paper", "ada", "@ada")] == [[]] * 5


def test_people_are_found_by_full_name_within_ones_teams_and_everywhere_by_an_admin(cast, ada, eve):
    User.objects.filter(pk=cast.bob.pk).update(full_name="Robert Roe")
    assert find(ada, "@roe") == find(Api(make.token(make.admin())), "@ roe") == ["user bob"]
    assert find(eve, "@roe") == []
    assert find(eve, "@eve") == ["user eve"]


def test_everybody_finds_machines_that_are_present(cast, eve):
    make.node("n10", pool=cast.dev, removed_at="2026-01-01T00:00Z")
    assert find(eve, "#N1") == find(eve, "n1") == ["node n1"]


def test_only_the_owner_and_who_sees_all_find_a_notebook(cast, ada, bob):
    notebook = create_notebook(user=cast.ada, name="explore", gpu="1/4")
    assert find(ada, "explo") == find(ada, notebook.public_id) == [f"notebook {notebook.public_id}"]
    assert find(bob, "explo") == []
    assert find(Api(make.token(make.admin())), "explo") == [f"notebook {notebook.public_id}"]


def test_a_token_finds_only_what_it_may_list(cast, job):
    assert find(Api(make.token(cast.ada, "jobs:read")), "ada") == [f"job job-{job.pk}"]
    assert find(Api(make.token(cast.ada, "files:read")), "ada") == []


def test_a_suspended_person_finds_nothing(cast, job):
    User.objects.filter(pk=cast.ada.pk).update(suspended_at="2026-01-01T00:00Z")
    assert search(User.objects.get(pk=cast.ada.pk), "parser") == []


def test_the_newest_jobs_come_first_and_only_so_many(cast, ada):
    jobs = [make.job(cast.ada, name=f"sweep {number}", team="nlp") for number in range(MOST + 1)]
    assert find(ada, "sweep") == [f"job {job.public_id}" for job in reversed(jobs[1:])]


def test_what_has_the_very_id_comes_before_newer_jobs_with_the_number_in_their_name(cast, ada, job):
    newer = [make.job(cast.ada, name=f"run {job.pk}", team="nlp") for _ in range(MOST)]
    assert find(ada, str(job.pk)) == [f"job {one.public_id}" for one in (job, *reversed(newer[1:]))]


def test_without_a_text_it_says_what_is_missing(ada):
    answer = ada.get("search")
    assert answer.status_code == 400
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [("/q", "required")]


def test_it_costs_one_query_for_each_kind(cast, job, django_assert_num_queries):
    with django_assert_num_queries(5):
        assert search(cast.ada, "ada")
