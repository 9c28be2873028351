"""A dumped snapshot on the command line: its plan, what another policy would do, and why one job waits."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from jobs.models import Job
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(tmp_path):
    """ada asks for more cards than are free: one job of hers starts, two wait."""
    cast = make.cast()
    for _ in range(3):
        make.job(cast.ada, pool="train", gpu="1", run="true")
    out = io.StringIO()
    call_command("dump_snapshot", "--names", stdout=out)
    path = tmp_path / "bug.json"
    path.write_text(out.getvalue())
    return path


def replay(path, *words):
    out = io.StringIO()
    call_command("replay_snapshot", str(path), *words, stdout=out)
    return out.getvalue()


def test_the_same_snapshot_gives_the_recorded_plan(file):
    said = replay(file)
    first, *others = Job.objects.order_by("pk")
    assert f"job {first.pk} starts: " in said and "The plan is the recorded one." in said
    assert all(f"job {job.pk} waits" in said for job in others[-1:])


def test_another_plan_than_the_recorded_one_is_an_error_and_told(file):
    data = json.loads(file.read_text())
    start = data["plan"]["starts"].pop()
    file.write_text(json.dumps(data))
    with pytest.raises(CommandError, match="another plan"):
        replay(file)
    with pytest.raises(CommandError):
        call_command("replay_snapshot", str(file), stdout=(out := io.StringIO()))
    assert f"starts, {start['job']}: null was" in out.getvalue()


def test_why_a_job_waits_is_told(file):
    last = Job.objects.order_by("pk").last()
    said = replay(file, f"--explain={last.pk}")
    assert "It waits: " in said and "One main fits now on" in said
    with pytest.raises(CommandError, match="No job 999999 waits"):
        replay(file, "--explain=999999")


def test_another_policy_is_tried_without_an_error(file):
    assert "The plan is the recorded one." in replay(file, "--policy", "reservations=1", "--policy", "preempt=no")
    assert "The plan is the recorded one." in replay(file, "--policy", "stop_longer=2.5", "--policy", "most_stops=3")


@pytest.mark.parametrize(
    ("setting", "says"), [("colour=red", "colour is none of ageing_s"), ("reservations=x", "'x' is no int")]
)
def test_a_policy_that_does_not_exist_is_refused(file, setting, says):
    with pytest.raises(CommandError, match=says):
        replay(file, "--policy", setting)


def test_a_file_that_is_no_dump_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"form": 1}')
    with pytest.raises(CommandError, match="snapshot is missing"):
        replay(tmp_path / "x.json")
