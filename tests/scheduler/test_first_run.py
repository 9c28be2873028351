import json

import pytest
from django.core.management import call_command

from quotas.models import Quota
from scheduler.management.commands import first_run
from tests import make

pytestmark = pytest.mark.django_db


def test_it_waits_for_the_first_inventory_so_that_the_first_team_has_quota(monkeypatch, capsys):
    """Processes of a fresh installation come up in any order."""
    monkeypatch.setattr(first_run.time, "sleep", lambda seconds: make.pool())
    call_command("first_run")
    assert json.loads(capsys.readouterr().out)["new"] is True
    assert Quota.objects.get().team.name == "research"


def test_what_images_need_is_said_at_the_start(capsys):
    pool = make.pool()
    make.node("one", pool=pool, facts={"images": "Images need podman: apt install podman."})
    make.node("two", pool=pool, facts={"images": "podman 4.3.1"})
    call_command("first_run")
    said = [note for note in json.loads(capsys.readouterr().out)["notes"] if "image" in note]
    assert said == ["jobs cannot bring images. Images need podman: apt install podman."]


def test_without_any_machine_it_goes_on_after_a_while(monkeypatch, capsys):
    monkeypatch.setattr(first_run, "MACHINES_WITHIN_S", 0)
    call_command("first_run")
    assert json.loads(capsys.readouterr().out)["login_link"] and not Quota.objects.exists()
