"""A long array whose makers are killed: each element is made once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import connection

from jobs.arrays.making import make_due_elements
from jobs.arrays.models import JobArray
from jobs.models import Job
from jobs.states import JobState
from tests import make
from tests.whole import part_of

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).parents[2]
MAKER = """
import os, sys, django
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()
from django.db import connection
connection.settings_dict["NAME"] = sys.argv[1]
from jobs.arrays.making import make_due_elements
print("ready", flush=True)
while True:
    make_due_elements(lambda draft: None, True)
"""


def start_maker() -> subprocess.Popen:
    name = connection.settings_dict["NAME"]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}"}
    maker = subprocess.Popen([sys.executable, "-c", MAKER, name], env=env, stdout=subprocess.PIPE, cwd=ROOT)
    assert maker.stdout is not None
    with maker.stdout:
        assert maker.stdout.readline() == b"ready\n"
    return maker


def end_all(array: JobArray) -> None:
    """Let what waits succeed: a thousand lives of jobs would take the test minutes."""
    Job.objects.filter(array=array.pk, state=JobState.QUEUED).update(state=JobState.SUCCEEDED)


@pytest.mark.timeout(3600)
def test_killed_makers_neither_lose_nor_repeat_an_element():
    total, dice = part_of(10_000, 150), random.Random(7)
    cast = make.cast()
    array = make.array(cast.ada, {"n": f"1..{total}", "at_once": 50})
    kills = 0
    while (made := JobArray.objects.get(pk=array.pk).made) < total:
        makers = [start_maker(), start_maker()]
        time.sleep(dice.uniform(0.2, 2.5))
        for maker in makers:
            maker.send_signal(signal.SIGKILL)
            maker.wait()
        kills += len(makers)
        assert Job.objects.filter(array=array.pk, state=JobState.QUEUED).count() <= 50
        end_all(array)
        assert JobArray.objects.get(pk=array.pk).made >= made
    make_due_elements(lambda draft: None, True)
    end_all(array)
    make_due_elements(lambda draft: None, True)
    array = JobArray.objects.get(pk=array.pk)
    indexes = list(Job.objects.filter(array=array.pk).order_by("array_index").values_list("array_index", flat=True))
    assert indexes == list(range(total)) and kills >= 4
    assert (array.state, array.succeeded) == (JobState.SUCCEEDED, total)
    names = {job["env"]["n"] for job in Job.objects.filter(array=array.pk).values_list("spec", flat=True)}
    assert len(names) == total
