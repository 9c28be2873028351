"""The console's page of what the doctor finds."""

import pytest
from django.utils import timezone

from runtimes.base import NodeView, TaskSpec
from runtimes.fake import FakeRuntime
from scheduler import examining
from scheduler.models import Lease

pytestmark = pytest.mark.django_db


@pytest.fixture
def runtime(monkeypatch):
    runtime = FakeRuntime([NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())])
    monkeypatch.setattr(examining, "the_runtime", lambda: runtime)
    return runtime


def test_an_auditor_reads_what_is_bad_with_its_remedy(auditor, runtime):
    Lease.objects.create(name="cycle", last_ok_at=timezone.now())
    page = auditor.get("/console/findings/").content.decode()
    assert "The loop of what follows the machines has never succeeded." in page and "Look at the logs of beat" in page
    assert "<strong>bad</strong>" in page and "No job knows of the container" not in page


def test_a_container_that_no_job_knows_stands_there_by_its_uuid(auditor, runtime):
    runtime.start(TaskSpec("a" * 32, "job-9 main.0", 1, "n1", "sleep 600"))
    page = auditor.get("/console/findings/").content.decode()
    assert f"{'a' * 32} on n1" in page and "manage.py strangers --end UUID" in page
    assert '<a href="/console/findings/">Findings</a>' in auditor.get("/console/").content.decode()
