"""A sender that is killed in the middle of a delivery: its rows are sent again by the next, none is lost."""

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from events.models import Event
from events.outgoing import AT_ONCE
from portal.tasks import send
from tests import make
from webhooks.models import Delivery
from webhooks.services import create_webhook

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
SENDER = "import django; django.setup(); from portal.tasks import send; send()"


class Receiver:
    """Holds every request back until `open`, so that the sender can be killed with all of them under way."""

    def __init__(self, url: str):
        self.url = url
        self.ids: list[str] = []
        self.open = threading.Event()
        self.full = threading.Semaphore(0)


@pytest.fixture
def receiver():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            there.ids.append(json.loads(body)["id"])
            there.full.release()
            there.open.wait(30)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        there = Receiver(f"http://127.0.0.1:{http.server_address[1]}/hook")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield there
        there.open.set()
        http.shutdown()
        thread.join()


def start_sender() -> subprocess.Popen:
    """A process of its own, as in life; the task itself, without a broker between."""
    environment = {
        **os.environ,
        "PGDATABASE": connection.settings_dict["NAME"],
        "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}",
        "TESSERA_ROLE": "worker",
        "TESSERA_SECRET_KEY": settings.SECRET_KEY,
        "TESSERA_WEBHOOK_PRIVATE": "127.0.0.0/8",
    }
    return subprocess.Popen([sys.executable, "-c", SENDER], cwd=ROOT, env=environment)


def test_a_killed_senders_deliveries_are_repeated_and_none_is_lost(receiver, settings):
    settings.TESSERA_WEBHOOK_PRIVATE = ["127.0.0.0/8"]
    ada = make.cast().ada
    create_webhook(actor=ada, name="ci", url=receiver.url, topics=["job.submitted"], team=None)
    for _ in range(AT_ONCE + 4):
        make.job(ada, pool="dev")
    wanted = {str(pk) for pk in Event.objects.filter(verb="submitted").values_list("pk", flat=True)}

    first = start_sender()
    for _ in range(AT_ONCE):
        assert receiver.full.acquire(timeout=60)
    first.send_signal(signal.SIGKILL)
    assert first.wait(20) == -signal.SIGKILL
    under_way = set(receiver.ids)
    assert len(under_way) == AT_ONCE
    assert Delivery.objects.filter(due_at__isnull=False, sent_at=None).count() == len(wanted)  # nothing was forgotten

    receiver.open.set()
    send()  # the claims of the dead one hold for a minute: only the others go
    assert set(receiver.ids) == wanted and len(receiver.ids) == len(wanted)
    Delivery.objects.filter(sent_at=None).update(claimed_until=Now())
    send()
    repeated = [pk for pk in wanted if receiver.ids.count(pk) == 2]
    assert set(repeated) == under_way and len(receiver.ids) == len(wanted) + AT_ONCE
    assert not Delivery.objects.filter(sent_at=None).exists()
