"""`tessera idle`: what is held and idle, kept, exempt and released from a terminal."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from jobs.models import Job
from monitoring.models import Exemption, IdleWatch
from notebooks.services import create_notebook
from tests import make


@pytest.fixture
def idle(cast):
    job = make.job(cast.ada, name="explore", gpu="1/4", pool="dev")
    make.start(job)
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now() - timedelta(hours=2))
    now = timezone.now()
    seen = {"gpu_percent": 0.0, "cpu_percent": 1.0}
    IdleWatch.objects.create(
        job=job, since=now - timedelta(minutes=40), looked_at=now, finding="idle", rung=1, evidence=seen
    )
    return job


@pytest.fixture
def signed(portal, tessera):
    def sign_in(person):
        assert tessera("login", portal, "--token-stdin", input=make.token(person) + "\n").exit_code == 0
        return tessera

    return sign_in


def test_what_is_idle_is_listed_kept_exempt_and_released(signed, cast, idle):
    ada = signed(cast.ada)
    row = ada("idle", "ls").stdout.splitlines()[1].split()
    assert row[:5] == [idle.public_id, "explore", "ada", "0.25", "40"]
    assert json.loads(ada("idle", "ls", "-o", "json").stdout)["results"][0]["may"] == ["release", "snooze"]
    assert ada("idle", "snooze", idle.public_id).stdout == f"{idle.public_id} is kept for another hour.\n"
    assert ada("idle", "exempt", idle.public_id, "--why", "mine").exit_code == 4
    bob = signed(cast.bob)
    assert bob("idle", "exempt", idle.public_id, "--why", "a demo").exit_code == 0
    assert Exemption.objects.get().reason == "a demo"
    assert bob("idle", "release", idle.public_id).exit_code == 0
    assert Job.objects.get(pk=idle.pk).stop_reason == "idle"


def test_a_stranger_sees_no_name(signed, cast, idle):
    eve = signed(cast.eve)
    assert "explore" not in eve("idle", "ls").stdout
    assert eve("idle", "snooze", idle.public_id).exit_code == 3


def test_a_lead_lists_members_who_are_away(signed, cast):
    create_notebook(user=cast.ada, name="lab", gpu="1/4")
    User.objects.filter(pk=cast.ada.pk).update(joined_at=timezone.now() - timedelta(days=40))
    bob = signed(cast.bob)
    assert bob("idle", "people").stdout.splitlines()[1].split() == ["ada", "40", "d", "never", "never", "1", "notebook"]
    assert signed(cast.eve)("idle", "people").exit_code == 4
