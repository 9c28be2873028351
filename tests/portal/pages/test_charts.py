"""What a page tells its charts: the ranges on offer, and the moments that explain a curve."""

from datetime import timedelta

import pytest
from django.utils import timezone

from events.models import Event
from jobs.models import Task
from portal.pages.charts import list_ranges
from portal.pages.jobs.metrics import build_marks

NOW = timezone.now()


def chosen_of(ranges) -> list[tuple[int, bool]]:
    return [(one.seconds // 3600, one.chosen) for one in ranges]


@pytest.mark.parametrize("hours, offered", [
    (0.5, []),
    (3, [(1, False), (0, True)]),
    (8, [(1, False), (6, True), (0, False)]),
    (90, [(1, False), (6, True), (24, False), (0, False)]),
])  # fmt: skip
def test_what_runs_offers_the_ranges_that_are_shorter_than_it(hours, offered):
    assert chosen_of(list_ranges(timezone.now() - timedelta(hours=hours))) == offered


def test_of_what_has_ended_all_is_shown_first():
    assert chosen_of(list_ranges(NOW - timedelta(hours=9), NOW - timedelta(hours=1))) == [
        (1, False), (6, False), (0, True)
    ]  # fmt: skip


def test_a_card_is_there_for_ever():
    assert chosen_of(list_ranges()) == [(1, True), *((hours, False) for hours in (6, 24, 168, 720, 8760))]


def event(kind: str, verb: str = "", state: str = "", minutes: float = 0, **params) -> Event:
    return Event(kind=kind, verb=f"{kind}.{verb}", to_state=state, at=NOW + timedelta(minutes=minutes), params=params)


def test_marks_tell_what_explains_a_curve():
    events = [
        event("job", state="RUNNING"),
        event("job", "held", minutes=1),
        event("task", "resized", minutes=2, to_mib=1),
        event("task", state="STOPPED", minutes=3, lost_s=40),
        event("job", state="QUEUED", minutes=4),
    ]
    tasks = [Task(checkpointed_at=NOW + timedelta(minutes=2.5)), Task()]
    assert [mark.words for mark in build_marks(events, tasks)] == [
        "start", "resized", "last checkpoint", "preempted", "queued again"
    ]  # fmt: skip


def test_tasks_of_a_gang_that_are_resized_together_make_one_mark():
    at = NOW.replace(microsecond=0)
    events = [Event(kind="task", verb="task.resized", at=at + timedelta(milliseconds=n), params={}) for n in range(8)]
    assert len(build_marks(events, [])) == 1
