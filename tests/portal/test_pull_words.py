"""Fetching an image in words: how long it takes so far, and what to do where it cannot be had."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.models import Job, Task
from jobs.reason_messages import end_hint
from jobs.states import TaskState
from portal.wording.image_pulls import job_hint, pull_hint, start_sentence
from tests import make

SAYS = {
    "10.88.0.1:5000/none:1: not found": "no such image",
    'Head "https://nohost.invalid/v2/x/manifests/1": dial tcp: lookup nohost.invalid: no such host': "no registry",
    "dial tcp 10.88.0.1:5999: connect: connection refused": "did not respond",
    "unexpected status from HEAD request to http://r/v2/x/manifests/1: 401 Unauthorized": "denies access",
    "pull access denied, repository does not exist or may require authorization": "denies access",
    "tls: failed to verify certificate: x509: certificate signed by unknown authority": "does not trust",
    "write /var/lib/containerd/ingest/1/data: no space left on device": "disk is full",
    "no match for platform in manifest: not found": "another kind of processor",
    "toomanyrequests: You have reached your pull rate limit": "limits requests",
    "something new": str(end_hint("image_pull")),
}


@pytest.mark.parametrize("words", SAYS)
def test_what_the_registry_says_gives_something_to_do(words):
    assert SAYS[words] in pull_hint(words)


@pytest.fixture
def job(db):
    cast = make.cast()
    job = make.job(cast.ada, pool="dev", image="docker.io/nlp/train:3@sha256:" + "a" * 64)
    make.start(job, state=TaskState.STARTING)
    return job


def tell(job: Job, **columns) -> tuple[Job, list[Task]]:
    Task.objects.filter(job=job).update(**columns)
    return Job.objects.get(pk=job.pk), list(Task.objects.filter(job=job).select_related("node"))


def test_a_start_that_fetches_says_what_where_and_for_how_long(job):
    since = timezone.now() - timedelta(seconds=40)
    words = start_sentence(*tell(job, fetching_since=since))
    assert words == "Pulling the image docker.io/nlp/train:3 on n1, 40s so far."


def test_a_start_that_cannot_go_on_says_why(job):
    assert start_sentence(*tell(job)) == ""
    words = start_sentence(*tell(job, detail="registry says no"))
    assert words == "Cannot start on n1 yet, retrying: registry says no"


def test_the_end_says_what_to_do(job):
    Task.objects.update(detail="r/none:1: not found")
    make.end(job, TaskState.FAILED, "image_pull", None)
    assert "no such image" in job_hint(*tell(job))
