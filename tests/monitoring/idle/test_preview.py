"""A rule tried on days gone by: when it would have told and acted, and whether that was wrong."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from common.errors import InvalidInput
from monitoring.idle.evidence import ShareWindow, TaskWindow, Window
from monitoring.idle.ladder import Ladder
from monitoring.idle.preview import Replayed, filter_jobs, replay
from monitoring.idle.rules import check_rule
from monitoring.idle.rungs import Rung, Then
from monitoring.models import IdleRule
from tests import make
from tests.monitoring.traces.play import BEGAN

LADDER = Ladder({Rung.NOTED: 1800, Rung.WARNED: 2700, Rung.ACTED: 3600}, Then.STOP)


def make_window(minutes: int = 180, **busy) -> Window:
    """Quiet minutes; busy: {name: (first, last)} at which the processor works or nothing is seen."""
    cpu = np.full(minutes, 8.0)
    for name, (first, last) in busy.items():
        cpu[first:last] = 3000 if name.startswith("works") else np.nan
    none = np.full(minutes, np.nan)
    task = TaskWindow(4000, cpu, np.full(minutes, 4.0), none, none, none, none, [ShareWindow(np.zeros(minutes), none)])
    return Window(BEGAN, 60, [task])


@pytest.mark.parametrize(
    ("window", "touched", "found"),
    [
        (make_window(), (), Replayed(29, 59)),
        (make_window(works=(0, 90)), (), Replayed(119, 149)),
        (make_window(works=(65, 70)), (), Replayed(29, 59, busy_again=True)),
        (make_window(works=(75, 90)), (), Replayed(29, 59)),
        (make_window(works=(50, 60), works2=(100, 125)), (), Replayed(29, None)),
        (make_window(unseen=(40, 60)), (), Replayed(29, 86)),  # the clock stands, and too little is seen for a while
        (make_window(), tuple(range(0, 180, 25)), Replayed(None, None)),
        (make_window(minutes=45), (), Replayed(29, None)),
    ],
)
def test_minutes_of_the_past_are_climbed_as_those_of_today(window, touched, found):
    assert replay(window, touched, LADDER) == found


def test_a_rule_that_only_tells_acts_on_nobody():
    assert replay(make_window(), (), replace(LADDER, after_s={Rung.NOTED: 1800})) == Replayed(29, None)


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"note_min": 2}, "/note_min", "out_of_range"),
        ({"warn_min": 20}, "/warn_min", "idle_not_in_order"),
        ({"act_min": 60, "then": "stop"}, "/warn_min", "idle_act_without_warning"),
        ({"warn_min": 45, "then": "stop"}, "/act_min", "idle_then_without_time"),
        ({"warn_min": 45, "act_min": 60, "then": "release-gpu", "kind": "batch"}, "/then", "idle_only_notebooks"),
    ],
)
def test_a_rule_without_sense_is_refused_with_its_field(fields, pointer, code):
    with pytest.raises(InvalidInput) as refused:
        check_rule(IdleRule(**{"kind": "interactive", **fields}))
    assert [(error.pointer, error.code) for error in refused.value.errors] == [(pointer, code)]


@pytest.mark.django_db
def test_a_rule_of_all_pools_is_tried_on_those_without_a_rule_of_their_own():
    cast, since = make.cast(), timezone.now() - timedelta(days=1)
    here, there = (make.job(cast.ada, gpu="1", pool=pool) for pool in ("dev", "train"))
    for job in (here, there):
        make.start(job)
    IdleRule.objects.create(kind="batch", pool=cast.train)
    IdleRule.objects.create(kind="interactive", pool=cast.dev)
    jobs = {
        pool: set(filter_jobs(IdleRule(kind="batch", pool=pool), since).values_list("pk", flat=True))
        for pool in (None, cast.train)
    }
    assert jobs == {None: {here.pk}, cast.train: {there.pk}}
