"""Doorbells may be lost, and nobody who commits waits for them."""

import asyncio
import time

import pytest
from django.db import transaction

from events import record_and_publish
from tests import make


class Silent:
    """A channel layer whose broker never answers."""

    async def group_send(self, group, message):
        await asyncio.Event().wait()


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_does_not_answer_holds_up_no_commit(monkeypatch):
    job = make.job(make.cast().ada, gpu="1/4", pool="dev")
    monkeypatch.setattr(record_and_publish, "get_channel_layer", Silent)
    monkeypatch.setattr(record_and_publish, "SEND_S", 0.05)
    began = time.monotonic()
    with transaction.atomic():
        record_and_publish.publish_row(job)
    assert time.monotonic() - began < 10
