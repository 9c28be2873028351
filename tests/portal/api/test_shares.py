"""Shares of jobs by REST."""

import pytest

from sharing.models import Share
from tests import make

pytestmark = pytest.mark.django_db


def test_a_share_is_made_once_listed_and_ended(ada, cast):
    job = make.job(cast.ada, gpu="1/4", pool="dev")
    make.start(job)
    address = f"jobs/{job.public_id}/shares"
    assert [ada.post(address, {"person": "bob"}).status_code for _ in range(2)] == [201, 201]
    listed = ada.get(address).json()["results"]
    assert [(one["person"], one["visited_at"]) for one in listed] == [("bob", None)]
    assert ada.post(address, {"person": "eve"}).json()["errors"][0]["pointer"] == "/person"
    assert ada.delete(f"{address}/bob").status_code == 204 and not Share.objects.exists()
    assert ada.delete(f"{address}/bob").status_code == 404


def test_nobody_is_let_into_anothers_job(ada, cast):
    job = make.job(cast.bob, gpu="1/4", pool="dev")
    address = f"jobs/{job.public_id}/shares"
    assert ada.post(address, {"person": "ada"}).status_code == ada.get(address).status_code == 403
    assert not Share.objects.exists()
