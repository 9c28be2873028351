"""The predicted length of a job, by REST and on its page: with its basis, and without anybody else's names."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from jobs.models import Job
from jobs.states import JobState
from portal.wording.starts import BASES, describe_length
from scheduler.core.prediction.job_traits import SAID, WITNESSES
from scheduler.core.prediction.length_model import PredictedLength
from scheduler.loading.predicted_lengths import learn_from_past
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(cast):
    """One of Ada's whose last twelve of this name took two hours."""
    now = timezone.now()
    for number in range(12):
        past = make.job(cast.ada, name=f"resnet-{number}", run="python train.py", gpu="1/4", pool="dev")
        began = now - timedelta(hours=2)
        Job.objects.filter(pk=past.pk).update(state=JobState.SUCCEEDED, started_at=began, ended_at=now)
    learn_from_past()
    return make.job(cast.ada, name="resnet-99", run="python other.py", gpu="1/4", pool="dev")


def test_a_waiting_and_a_running_job_tell_their_length_and_an_ended_one_none(ada, job):
    told = {"expected_s": 7200.0, "latest_s": 7200.0, "basis": "name", "past": 12}
    told["text"] = "about 2h, as your last 12 jobs of this name"
    assert ada.get(f"jobs/{job.public_id}/wait").json()["length"] == told
    make.start(job)
    assert ada.get(f"jobs/{job.public_id}/wait").json()["length"] == told
    make.end(job)
    assert ada.get(f"jobs/{job.public_id}/wait").json()["length"] is None


def test_a_colleague_is_not_told_that_they_are_theirs(bob, job):
    words = "about 2h, as the owner's last 12 jobs of this name"
    assert bob.get(f"jobs/{job.public_id}/wait").json()["length"]["text"] == words


def test_nothing_is_told_where_it_is_only_what_was_said(ada, cast, job, settings):
    other = make.job(cast.bob, name="new", gpu="1/4", pool="dev", time="3h")
    settings.TESSERA_PREDICT_LENGTHS = False
    assert ada.get(f"jobs/{job.public_id}/wait").json()["length"] is None
    settings.TESSERA_PREDICT_LENGTHS = True
    assert ada.get(f"jobs/{other.public_id}/wait").json()["length"] is None


def test_its_page_tells_it(cast, job):
    browser = Client()
    browser.force_login(cast.ada)
    assert "About 2h, as your last 12 jobs of this name" in browser.get(f"/j/{job.public_id}/").content.decode()


def test_each_basis_has_words():
    assert set(BASES) == {witness.basis for place, witness in enumerate(WITNESSES) if place != SAID}


@pytest.mark.parametrize(
    ("expected_s", "words"),
    [(3.0, "1m"), (100.0, "2m"), (7290.0, "2h"), (9000.0, "2h30m"), (100_000.0, "1d4h"), (300_000.0, "3d12h")],
)
def test_a_length_is_told_roughly(expected_s, words):
    told = describe_length(PredictedLength(expected_s, 1e6, "pool", 20), own=True)
    assert told == f"about {words}, as the last 20 jobs of the pool"
