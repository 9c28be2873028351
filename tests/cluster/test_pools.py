"""Changes of pools and lending windows: each leaves an event with its actor and wakes the scheduler."""

from datetime import time

import pytest

from cluster.models import Window
from cluster.services import delete_window, save_pool, save_window
from events import record_and_publish
from events.models import Event
from events.record_and_publish import Actor
from tests import make

pytestmark = pytest.mark.django_db
ROOT = Actor("rita", 1)


@pytest.fixture
def hints(monkeypatch):
    found = []
    monkeypatch.setattr("cluster.services.hint", found.append)
    return found


def history(row):
    events = Event.objects.filter(kind=row.KIND, object_id=row.pk).order_by("seq")
    return [(event.verb, event.actor, event.actor_id, event.params) for event in events]


def test_a_changed_policy_is_recorded_field_by_field(hints):
    pool = make.pool("dev")
    pool.description, pool.max_slices_per_gpu = "for all", 4
    save_pool(actor=ROOT, pool=pool)
    params = {
        "from": {"description": "", "max_slices_per_gpu": 8},
        "to": {"description": "for all", "max_slices_per_gpu": 4},
    }
    assert history(pool) == [("pool.changed", "rita", 1, params)]
    assert hints == ["cycle"]


def test_a_pool_saved_as_it_was_leaves_no_event(hints):
    pool = make.pool("dev")
    save_pool(actor=ROOT, pool=pool)
    assert history(pool) == []


def test_a_window_is_recorded_from_its_making_to_its_end(hints):
    window = Window(lender=make.pool("dev"), borrower=make.pool("train"), begins=time(20), ends=time(8))
    save_window(actor=ROOT, window=window)
    window.ends = time(9)
    save_window(actor=ROOT, window=window)
    lines = history(window)
    delete_window(actor=ROOT, window=Window.objects.get(pk=window.pk))
    (deleted,) = Event.objects.filter(kind="window", verb="window.deleted")
    assert [verb for verb, *_ in lines] == ["window.made", "window.changed"]
    assert lines[0][3]["to"] | {"holidays": ""} == {
        "lender_name": "dev",
        "borrower_name": "train",
        "weekdays": "12345",
        "opens": "20:00",
        "closes": "08:00",
        "zone": "UTC",
        "holidays": "",
    }
    assert lines[1][3] == {"from": {"closes": "08:00"}, "to": {"closes": "09:00"}}
    assert (deleted.label, deleted.actor, deleted.params["from"]["closes"]) == ("dev → train", "rita", "09:00")
    assert hints == ["cycle"] * 3 and not Window.objects.exists()


def test_an_event_that_cannot_be_stored_leaves_nothing_changed(monkeypatch):
    def fail(*_, **__):
        raise OSError("no room")

    pool = make.pool("dev")
    window = Window(lender=pool, borrower=make.pool("train"), begins=time(20), ends=time(8))
    monkeypatch.setattr(record_and_publish, "record_all", fail)
    with pytest.raises(OSError, match="no room"):
        save_window(actor=ROOT, window=window)
    assert not Window.objects.exists()
