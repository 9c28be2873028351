"""A submit that is sent again makes no second job, whatever the network did."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from jobs.models import Job
from portal.access.redacted_rows import list_queue_rows
from tests import make
from tests.api_client import Api

JOB = {"run": "true", "name": "once"}


@pytest.mark.django_db
def test_a_hundred_retries_make_one_job(ada, settings):
    settings.TESSERA_RATES = {**settings.TESSERA_RATES, "submits": (0, 60)}  # as many as one likes
    answers = [ada.post("jobs", JOB, Idempotency_Key="k-1") for _ in range(100)]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer["Location"] for answer in answers}) == Job.objects.count() == 1


@pytest.mark.django_db
def test_the_same_key_with_another_body_is_refused(ada):
    ada.post("jobs", JOB, Idempotency_Key="k-1")
    other = ada.post("jobs", {**JOB, "name": "twice"}, Idempotency_Key="k-1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_keys_belong_to_their_person(ada, eve):
    first, second = (api.post("jobs", JOB, Idempotency_Key="k-1") for api in (ada, eve))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] != second.json()["id"]


@pytest.mark.django_db
def test_without_a_key_each_submit_is_its_own(ada):
    assert ada.post("jobs", JOB).json()["id"] != ada.post("jobs", JOB).json()["id"]


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", "k" * 201, "two words", "ümlaut"])
def test_a_key_that_is_none_is_refused(ada, key):
    refused = ada.post("jobs", JOB, Idempotency_Key=key)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (400, "bad_idempotency_key")


@pytest.mark.django_db
def test_a_refused_submit_does_not_use_up_its_key(ada):
    assert ada.post("jobs", {**JOB, "gpu": 99}, Idempotency_Key="k-1").status_code == 422
    assert ada.post("jobs", JOB, Idempotency_Key="k-1").status_code == 201


@pytest.mark.django_db(transaction=True)
def test_the_same_submit_sixteen_times_at_once_makes_one_job():
    cast = make.cast()
    secret = make.token(cast.ada)

    def submit(_):
        try:
            return Api(secret).post("jobs", JOB, Idempotency_Key="k-1")
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(submit, range(16)))
    assert {answer.status_code for answer in answers} == {201}
    assert len(list_queue_rows(cast.ada)) == 1 and len({answer["Location"] for answer in answers}) == 1
