"""From samples to a rung: its event, its notice, and what it does."""

import pytest
from django.utils import timezone

from events.models import Event, Notice
from jobs.models import Job
from monitoring.idle.acting import fulfil_wishes
from monitoring.idle.requests import resume_on_gpu
from monitoring.idle.rungs import Rung
from monitoring.idle.telling import mark_shown
from monitoring.idle.watching import follow_idle
from monitoring.models import IdleRule, IdleTold, IdleWatch, TaskNow
from notebooks.jupyter_activity import JupyterActivity
from notebooks.models import Notebook
from notebooks.services import create_notebook, start_notebook
from tests import make
from tests.described_world import make_room
from tests.monitoring.idle.world import pass_time, run_for, sample

pytestmark = pytest.mark.django_db
STOPS = {"note_min": 30, "warn_min": 45, "act_min": 60, "then": "stop"}


@pytest.fixture
def world():
    cast = make.cast()
    IdleRule.objects.create(pool=cast.dev, kind="batch", changed_at="2020-01-01T00:00Z", **STOPS)
    cast.job = make.job(cast.ada, gpu="1/4", pool="dev")
    make.start(cast.job, cast.gpus[0])
    run_for(cast.job, 90)
    return cast


def watch(job: Job) -> IdleWatch:
    return IdleWatch.objects.get(pk=job.pk)


def verbs(job: Job) -> list[str]:
    return [
        verb
        for verb in Event.objects.filter(kind="job", object_id=job.pk).values_list("verb", flat=True)
        if "idle" in verb
    ]


def look_after(job: Job, minutes: float) -> IdleWatch:
    pass_time(job, minutes)
    follow_idle()
    return watch(job)


def test_an_idle_job_is_told_warned_and_stopped_each_once(world):
    sample(world.job, 31, used_mib=500)
    follow_idle()
    follow_idle()
    found = watch(world.job)
    assert (found.finding, found.rung, found.evidence["held"]) == ("idle", Rung.NOTED, True)
    assert [notice.user_id for notice in Notice.objects.filter(kind="idle_noticed")] == [world.ada.pk]
    assert look_after(world.job, 16).hold == "undelivered"  # nobody has seen it yet
    mark_shown(world.ada.pk)
    assert look_after(world.job, 0).rung == Rung.WARNED
    mark_shown(world.ada.pk)
    assert look_after(world.job, 14).rung == Rung.WARNED
    assert look_after(world.job, 2).rung == Rung.ACTED
    job = Job.objects.get(pk=world.job.pk)
    assert (job.stop_reason, job.stop_requested_by) == ("idle", "system")
    assert verbs(job) == ["idle_noticed", "idle_warned", "idle_acted"]
    told = IdleTold.objects.order_by("pk").values_list("rung", "user__username")
    assert list(told) == [(1, "ada"), (3, "ada"), (4, "ada"), (4, "bob")]
    assert watch(job).returned_milli == 250 and watch(job).acted_at is not None


def test_work_begins_the_ladder_anew(world):
    sample(world.job, 31)
    follow_idle()
    TaskNow.objects.update(cpu_milli=4000)
    found = look_after(world.job, 0)
    assert (found.finding, found.rung, found.since, found.ladder) == ("busy", Rung.NONE, None, 2)
    assert verbs(world.job) == ["idle_noticed", "idle_over"]


def test_a_silent_machine_lets_the_clock_stand(world):
    sample(world.job, 28, ago=2)
    follow_idle()
    found = watch(world.job)
    assert (found.finding, found.detail, found.rung) == ("unknown", "stale", Rung.NONE)


def test_a_restart_of_the_sampler_lets_the_clock_stand(world):
    sample(world.job, 31)
    follow_idle()
    TaskNow.objects.update(term=2)
    found = look_after(world.job, 16)
    assert (found.finding, found.detail, found.rung) == ("unknown", "restarted", Rung.NOTED)


def test_a_gang_is_idle_only_as_a_whole(world):
    gang = make.job(world.ada, gpu="1/8", nodes=2, pool="dev")
    make.start(gang, world.gpus[0])
    run_for(gang, 90)
    sample(gang, 31)
    TaskNow.objects.filter(task=gang.newest_tasks.last()).update(cpu_milli=4000)
    follow_idle()
    assert not IdleWatch.objects.filter(job=gang).exists()


def test_a_lead_is_told_of_what_its_owner_does_not_see(world):
    sample(world.job, 31)
    follow_idle()
    assert look_after(world.job, 29).hold == "undelivered"
    look_after(world.job, 2)
    assert IdleTold.objects.get(user=world.bob).instead and verbs(world.job)[-1] == "idle_lead_told"
    mark_shown(world.bob.pk)
    assert look_after(world.job, 0).rung == Rung.WARNED


def test_a_sent_mail_counts_as_seen(world):
    sample(world.job, 31)
    follow_idle()
    Notice.objects.update(sent_at=timezone.now())
    assert look_after(world.job, 16).rung == Rung.WARNED


def test_a_changed_rule_begins_a_full_ladder(world):
    sample(world.job, 31)
    follow_idle()
    IdleRule.objects.update(changed_at=timezone.now())
    found = look_after(world.job, 0)
    assert found.rung == Rung.NONE and (timezone.now() - found.since).total_seconds() < 60


def test_before_the_act_the_evidence_is_derived_again(world, monkeypatch):
    sample(world.job, 31)
    follow_idle()
    IdleWatch.objects.update(rung=Rung.WARNED, rung_at=timezone.now())
    IdleTold.objects.update(rung=Rung.WARNED, shown_at=timezone.now())
    monkeypatch.setattr("monitoring.idle.watching.is_still_idle", lambda look, watch: False)
    found = look_after(world.job, 31)
    assert (found.rung, found.hold) == (Rung.WARNED, "unknown")
    assert Job.objects.get(pk=world.job.pk).stop_requested_at is None


def test_a_notebook_goes_on_without_its_gpu_and_gets_it_back(world, settings, tmp_path, monkeypatch):
    make_room(settings, tmp_path)

    def start(notebook: Notebook, gpu: str | None) -> Notebook:
        return start_notebook(
            actor=notebook.user, notebook=notebook, check=lambda draft: None, containers=False, gpu=gpu
        )

    notebook = start(create_notebook(user=world.ada, name="explore", gpu="1/4", pool="dev"), None)
    make.start(notebook.job, world.gpus[0])
    run_for(notebook.job, 90)
    sample(notebook.job, 31)
    follow_idle()
    assert watch(notebook.job).detail == "kernels_silent"  # no JupyterLab answers in this world
    monkeypatch.setattr("monitoring.idle.watching.ask_jupyters", answer_quietly)
    assert look_after(notebook.job, 0).rung == Rung.NOTED
    for minutes in (16, 16):
        mark_shown(world.ada.pk)
        found = look_after(notebook.job, minutes)
    assert (found.rung, found.wish) == (Rung.ACTED, "cpu")
    fulfil_wishes(start)
    assert Notebook.objects.get().job_id == found.job_id  # the old start has not ended yet
    make.end(notebook.job, "STOPPED", "idle", None)
    fulfil_wishes(start)
    anew = Notebook.objects.get()
    assert anew.job_id != found.job_id and anew.job.gang[0]["request"]["gpu"] == "0"
    make.start(anew.job, node=world.node)
    resume_on_gpu(actor=world.ada, notebook=anew)
    assert watch(found.job).regretted
    make.end(anew.job, "STOPPED", "stopped_by_user", None)
    fulfil_wishes(start)
    again = Notebook.objects.get()
    assert again.job.gang[0]["request"]["gpu"] == "1/4" and watch(found.job).wish == ""


async def answer_quietly(access, tasks):
    return {task.pk: JupyterActivity(False, None) for task in tasks}
