"""What pages show of samples: what is missing, too old or cannot be read is not known."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from monitoring.models import CardNow, TaskNow
from monitoring.samples.newest import KNOWN_FOR, load_card_uses, load_task_uses
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def sampled():
    cast = make.cast()
    cast.card = cast.gpus[0]
    cast.task = make.start(make.job(cast.ada, gpu="1/4"), cast.card)[0]
    now = timezone.now()
    share = {"uuid": cast.card.uuid, "source": "simulated", "used_mib": 5, "busy_percent": 22.5}
    CardNow.objects.create(gpu=cast.card, at=now, term=1, up_ms=1, source="simulated", busy_percent=63.0)
    TaskNow.objects.create(task=cast.task, at=now, term=1, up_ms=1, memory_mib=512, shares=[share])
    return cast


def look(world):
    ids = [gpu.pk for gpu in world.gpus], [world.task.pk]
    return load_card_uses(ids[0]).get(world.card.pk), load_task_uses(ids[1]).get(world.task.pk)


def test_what_was_sampled_just_now_is_known(sampled):
    card, task = look(sampled)
    assert (card.busy_percent, card.used_mib, task.memory_mib, task.cpu_milli) == (63.0, None, 512, None)
    assert task.shares[sampled.card.uuid].busy_percent == 22.5


def test_what_was_sampled_two_minutes_ago_is_not_known_now(sampled):
    before = timezone.now() - KNOWN_FOR - timedelta(seconds=1)
    for rows in (CardNow.objects, TaskNow.objects):
        rows.update(at=before)
    assert look(sampled) == (None, None)


def test_pages_do_without_tables_that_are_broken(sampled, client):
    with connection.cursor() as cursor:
        for table in ("monitoring_cardnow", "monitoring_tasknow"):
            cursor.execute(f"ALTER TABLE {table} RENAME TO {table}_gone")
    assert look(sampled) == (None, None)
    client.force_login(sampled.ada)
    for path in ("/cluster/gpus/", "/nodes/n1/", f"/j/{sampled.task.job.public_id}/"):
        page = client.get(path, follow=True)
        assert page.status_code == 200 and "use not known" in page.content.decode(), path
