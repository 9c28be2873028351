"""A real Alertmanager takes the platform's alerts, and brings its own by its webhook. Debian's prometheus-alertmanager;
without it these tests fail where TESSERA_REQUIRE_ALERTMANAGER=1, and are skipped elsewhere.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.request
from datetime import timedelta

import pytest
from django.utils import timezone

from events.models import Event
from events.record_and_publish import SYSTEM
from monitoring.models import ForeignAlert
from portal.tasks import describe_for_chat
from tests import make
from tests.ssh_gateway import free_port
from tests.web_process import running_web
from webhooks.delivery_queue import Addressed, queue_addressed
from webhooks.models import Delivery
from webhooks.sender import send_webhooks
from webhooks.services import change_webhook

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
PROGRAM = shutil.which("prometheus-alertmanager")
WITHIN_S = 30


@pytest.fixture(autouse=True)
def installed():
    if PROGRAM is None:
        assert os.environ.get("TESSERA_REQUIRE_ALERTMANAGER") != "1", "apt-get install prometheus-alertmanager"
        pytest.skip("NO ALERTMANAGER: install prometheus-alertmanager")


@pytest.fixture
def web(tmp_path):
    with running_web(TESSERA_DATA=tmp_path) as web:
        yield web


@pytest.fixture
def alertmanager(tmp_path, web):
    """Starts one with a token for the platform's webhook, and returns its address."""
    started = []

    def start(token: str) -> str:
        hook = {
            "url": f"{web.url}/api/v1/alerts:alertmanager",
            "http_config": {"authorization": {"credentials": token}},
        }
        receiver = {"name": "tessera", "webhook_configs": [hook]}
        route = {"receiver": "tessera", "group_wait": "0s", "group_interval": "1s"}
        config = tmp_path / "alertmanager.yml"
        config.write_text(json.dumps({"route": route, "receivers": [receiver]}))
        port = free_port()
        options = [f"--config.file={config}", f"--storage.path={tmp_path / 'am'}", "--cluster.listen-address="]
        command = [PROGRAM, *options, f"--web.listen-address=127.0.0.1:{port}"]
        with (tmp_path / "am.log").open("w") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log))
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: read(f"{url}/-/ready") is not None)
        return url

    yield start
    for process in started:
        process.kill()
        process.wait()


def read(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read()
    except OSError:
        return None


def wait_until(what) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_alerts_go_both_ways(alertmanager, web, settings):
    settings.TESSERA_WEBHOOK_PRIVATE, settings.TESSERA_PUBLIC_URL = ["127.0.0.0/8"], web.url
    rita = make.admin()
    url = alertmanager(make.token(rita, "alerts:write"))
    hook = change_webhook(actor=rita, webhook=make.webhook(rita), url=url, format="alertmanager")
    alert = make.alert("gpu_hot", value=90)
    send_alert(hook, alert, "firing")
    (told,) = json.loads(read(f"{url}/api/v2/alerts") or b"[]")
    assert (told["labels"]["alertname"], told["labels"]["instance"], told["status"]["state"]) == (
        "gpu_hot",
        "n1:0",
        "active",
    )
    assert told["endsAt"] > (timezone.now() + timedelta(hours=4)).isoformat()
    send_alert(hook, alert, "resolved")
    wait_until(lambda: json.loads(read(f"{url}/api/v2/alerts") or b"[]") == [])

    body = [
        {
            "labels": {"alertname": "RaidDegraded", "severity": "critical", "instance": "n9"},
            "annotations": {"summary": "a disk failed"},
        }
    ]
    request = urllib.request.Request(
        f"{url}/api/v2/alerts", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=5).close()
    wait_until(lambda: ForeignAlert.objects.filter(name="RaidDegraded", ended_at=None).exists())
    assert ForeignAlert.objects.get().labels["instance"] == "n9"  # and not the platform's own alert


def send_alert(hook, alert, status: str) -> None:
    event, _ = Event.objects.get_or_create(
        kind="alert", object_id=alert.pk, seq=1,
        defaults={"label": alert.public_id, "verb": "state", "to_state": "FIRING", "actor": SYSTEM.name},
    )  # fmt: skip
    now = timezone.now().isoformat()
    one = {"subject": "card", "label": "n1:0", "since": alert.since.isoformat(), "value": 90.0, "unit": "°C"}
    data = {
        "status": status, "severity": "warning", "rule": "gpu_hot", "name": "GPU too hot", "runbook": "", "url": "",
        "repeats_s": 4 * 3600, "alerts": [{**one, "ended": now if status == "resolved" else None}],
    }  # fmt: skip
    queue_addressed([Addressed(hook, event, data)])
    send_webhooks(lambda delivery: True, describe_for_chat)
    assert not Delivery.objects.filter(sent_at=None, event=event).exists(), list(Delivery.objects.values())
