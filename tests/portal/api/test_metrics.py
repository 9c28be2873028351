"""`GET /metrics`: who may read it, that its labels are bounded, and that what is not known is absent."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from accounts.models import User
from cluster.models import Agent, Node
from jobs.models import Task
from jobs.states import TaskState
from monitoring.models import CardNow, ProcessNow, TaskNow
from tests import make

pytestmark = pytest.mark.django_db
HOST = "10.244.3.7:8470"


@pytest.fixture
def world(settings):
    settings.TESSERA_METRICS_TOKEN = "scrape-me"
    cast = make.cast()
    cast.task = make.start(make.job(cast.ada, name="secret-plan", gpu="1/4"), cast.gpus[0])[0]
    make.move(cast.task, TaskState.RUNNING)
    make.job(cast.bob, gpu="1/2")
    return cast


def scrape(token="scrape-me", query="", status=200):
    answer = Client(HTTP_HOST=HOST).get(f"/metrics{query}", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def read(text: str) -> dict[str, list]:
    return {family.name: family.samples for family in text_string_to_metric_families(text)}


def value(found: dict, name: str, **labels) -> float | None:
    matching = [sample.value for sample in found[name] if labels.items() <= sample.labels.items()]
    return matching[0] if matching else None


def test_it_tells_the_platform_and_names_no_person_and_no_job(world):
    text = scrape()
    found = read(text)
    assert value(found, "tessera_jobs", state="queued") == 1 and value(found, "tessera_tasks", state="running") == 1
    assert value(found, "tessera_gpus_held", team="nlp") == 0.25
    assert value(found, "tessera_oldest_queued_seconds", pool="dev") >= 0
    assert value(found, "tessera_attempts_lost") == 0
    assert not {"ada", "bob", "secret-plan", world.task.job.public_id, world.task.uuid.hex} & set(
        text.replace('"', " ").split()
    )


def test_what_nobody_knows_is_absent(world):
    found = read(scrape())
    assert value(found, "tessera_gpu_used_ratio", pool="dev") is None
    assert value(found, "tessera_gpu_unknown", pool="dev") == 1
    CardNow.objects.create(gpu=world.gpus[0], at=timezone.now(), term=1, up_ms=1, source="measured", busy_percent=2.5)
    found = read(scrape())
    assert value(found, "tessera_gpu_used_ratio", pool="dev") == 0.025
    assert (value(found, "tessera_gpu_unknown", pool="dev"), value(found, "tessera_gpu_idle_allocated")) == (0, 1)


def test_tasks_are_told_to_who_has_the_scope(world):
    shares = [{"uuid": world.gpus[0].uuid, "source": "simulated", "busy_percent": 12.5, "up_ms": 1}]
    TaskNow.objects.create(task=world.task, at=timezone.now(), term=1, up_ms=1, cpu_milli=1500, shares=shares)
    scrape(query="?tasks=1", status=403)
    admin = make.admin()
    scrape(make.token(admin, "metrics:scrape"), "?tasks=1", status=403)
    found = read(scrape(make.token(admin, "metrics:scrape", "metrics:tasks"), "?tasks=1"))
    named = {"job": world.task.job.public_id, "team": "nlp"}
    assert value(found, "tessera_task_cpu_cores", **named) == 1.5
    assert value(found, "tessera_task_gpu_busy_percent", gpu=world.gpus[0].uuid, **named) == 12.5
    assert value(found, "tessera_task_gpu_memory_bytes", **named) is None
    assert value(found, "tessera_task_gpus", **named) == 0.25


def test_it_is_never_public(world, settings):
    settings.TESSERA_METRICS_TOKEN = ""
    for token in ("", "scrape-me"):
        scrape(token, status=401)
    scrape(make.token(world.ada, "metrics:scrape"), status=403)  # her token cannot do more than she may
    scrape(make.token(make.admin(), "metrics:scrape"))


def test_an_auditor_reads_it_in_a_browser(world):
    auditor = make.user("audit")
    User.objects.filter(pk=auditor.pk).update(platform_role="auditor")
    client = Client(HTTP_HOST="localhost")
    client.force_login(auditor)
    assert client.get("/metrics").status_code == 200
    assert Task.objects.count() == 2


def test_it_is_the_text_that_prometheus_asks_for(world):
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
    answer = Client().get("/metrics", headers={"Authorization": "Bearer scrape-me", "Accept": accept})
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")


def test_it_names_whom_prometheus_can_ask(world, no_processes):
    now, late = timezone.now(), timezone.now() - timedelta(minutes=5)
    for pid, (role, metrics, seen) in enumerate(
        [
            ("web", "tessera.example.net", now),
            ("web", "tessera.example.net", now),
            ("worker", "10.0.0.7:9090", now),
            ("beat", "", now),
            ("watch", "10.0.0.8:9090", late),
        ]
    ):
        ProcessNow.objects.create(
            role=role, host="h", pid=pid, version="1", metrics=metrics, started_at=late, seen_at=seen
        )
    Node.objects.filter(name="n1").update(address="10.0.0.1")
    Agent.objects.create(node_name="n1", digest="d", reported_at=now, report={"metrics_port": 9400})
    answer = Client(HTTP_HOST=HOST).get("/metrics/targets", headers={"Authorization": "Bearer scrape-me"})
    assert [(one["labels"]["role"], *one["targets"]) for one in answer.json()] == [
        ("web", "tessera.example.net"),
        ("worker", "10.0.0.7:9090"),
        ("agent", "10.0.0.1:9400"),
    ]
