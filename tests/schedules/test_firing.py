"""Schedules submit their jobs: each time once, over outages, overlaps, refusals and killed workers."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, time, timedelta
from itertools import count
from threading import Barrier

import pytest
from django.db import connection, transaction
from django.utils import timezone

from accounts.models import Membership, User
from common.errors import InvalidInput, Unavailable
from config.celery import app
from events.models import Event, Notice
from jobs.models import IdempotencyKey, Job
from jobs.states import JobState
from notebooks.services import create_notebook, stop_notebook
from portal.schedules.run_words import describe_why
from portal.wording.notices import view_notice
from quotas.models import Quota
from scheduler.preview.preview import check_possible
from scheduler.tasks import fire_schedules
from schedules import firing
from schedules.firing import MOST_REFUSALS, TRIED_FOR, claim_due, fire_next
from schedules.models import Missed, Outcome, Overlap, Schedule, ScheduledRun
from schedules.services import ask_for_run, change_schedule, delete_schedule, resume_schedule, suspend_schedule
from tests import make
from tests.described_world import make_room
from tests.schedules.conftest import FILE, NOON, fire, new_schedule

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NIGHT = datetime(2027, 5, 4, 2, 30, tzinfo=UTC)


def runs_of(schedule: Schedule) -> list[ScheduledRun]:
    return list(schedule.runs.order_by("tick_at"))


def outcomes(schedule: Schedule) -> list[str]:
    return [run.outcome for run in runs_of(schedule)]


def test_a_job_is_submitted_at_its_time_and_never_twice(cast, clock):
    schedule = new_schedule(cast.ada)
    assert fire() == 0 and schedule.next_at == NIGHT
    clock(NIGHT + timedelta(seconds=3))
    assert [fire(), fire()] == [1, 0]
    (run,) = runs_of(schedule)
    assert (run.tick_at, run.outcome, run.due_at) == (NIGHT, Outcome.SUBMITTED, None)
    assert (run.job.user, run.job.team, run.job.name) == (cast.ada, cast.nlp, "nightly")
    assert Schedule.objects.get().next_at == NIGHT + DAY


def test_a_notebook_is_started_at_its_time_and_stops_by_the_clock_on_the_wall(cast, clock, settings, tmp_path):
    make_room(settings, tmp_path)
    notebook = create_notebook(user=cast.ada, name="explore", gpu="0", pool="dev")
    days = {"cron": "45 8 * * *", "zone": "Asia/Shanghai", "stop_at": time(19, 30)}
    schedule = make.schedule(cast.ada, job_file="", notebook="explore", **days)
    morning, evening = datetime(2027, 5, 4, 0, 45, tzinfo=UTC), datetime(2027, 5, 4, 11, 30, tzinfo=UTC)
    clock(morning)
    fire()
    (run,) = runs_of(schedule)
    notebook.refresh_from_db()
    assert (run.outcome, run.job, notebook.stops_at) == (Outcome.SUBMITTED, notebook.job, evening)
    assert notebook.job.give_up_at == evening  # who waits all day starts no more
    clock(morning + DAY)
    fire()  # it is open still
    assert (outcomes(schedule)[1], runs_of(schedule)[1].why["code"]) == (Outcome.SKIPPED, "notebook_open")
    assert notebook.job.public_id in describe_why(runs_of(schedule)[1])
    stop_notebook(actor=cast.ada, notebook=notebook)
    clock(evening + 2 * DAY + MINUTE)  # the platform was down all day
    fire()
    assert runs_of(schedule)[2].why == {"code": "stop_has_passed"}
    schedule = change_schedule(actor=cast.ada, schedule=schedule, check=check_possible, containers=True, job_file=FILE)
    assert (schedule.notebook, schedule.stop_at, schedule.job_file) == (None, None, FILE)


def test_what_cannot_be_of_a_notebook_is_refused_by_field(cast):
    create_notebook(user=cast.bob, name="bobs", gpu="0", pool="dev")
    create_notebook(user=cast.ada, name="own", gpu="0", pool="dev")
    for values, told in (
        ({"notebook": "bobs", "job_file": ""}, ("/notebook", "unknown_notebook")),
        ({"notebook": "own"}, ("/job_file", "job_beside_notebook")),
        ({"notebook": "own", "job_file": "", "overlap": "queue"}, ("/overlap", "overlap_of_notebook")),
        ({"stop_at": time(19, 30)}, ("/stop_at", "stop_without_notebook")),
    ):
        with pytest.raises(InvalidInput) as refused:
            make.schedule(cast.ada, **values)
        assert [(one.pointer, one.code) for one in refused.value.errors] == [told]


def test_the_task_of_the_beat_fires_them(cast):
    new_schedule(cast.ada)
    Schedule.objects.update(next_at=timezone.now() - MINUTE)
    fire_schedules()
    assert Job.objects.get().scheduled_run.outcome == Outcome.SUBMITTED
    assert app.conf.beat_schedule["fire_schedules"]["task"] == fire_schedules.name


def test_the_time_of_the_tick_is_the_key_of_the_submit(cast, clock):
    schedule = new_schedule(cast.ada)
    clock(NIGHT)
    fire()
    assert IdempotencyKey.objects.get().key == f"{schedule.public_id} {NIGHT.isoformat()}"
    ScheduledRun.objects.update(due_at=NIGHT, job=None)  # as nothing ever does
    fire()
    assert runs_of(schedule)[0].job == Job.objects.get()


def test_a_tick_that_was_fired_is_not_fired_again_by_a_clock_that_is_set_back(cast, clock):
    schedule = new_schedule(cast.ada, cron="* * * * *", overlap=Overlap.QUEUE)
    for at in (NOON, NOON + MINUTE, NOON + 2 * MINUTE):
        clock(at)
        fire()
    fired = Job.objects.count()
    clock(NOON)
    suspend_schedule(actor=cast.ada, schedule=schedule)
    resume_schedule(actor=cast.ada, schedule=schedule)
    for at in (NOON + MINUTE, NOON + 2 * MINUTE):
        clock(at)
        fire()
    assert Job.objects.count() == fired == 2


@pytest.mark.parametrize(
    ("cron", "missed", "said"),
    [
        ("* * * * *", Missed.RUN_ONCE, [Outcome.SUBMITTED]),
        ("* * * * *", Missed.SKIP, [Outcome.SUBMITTED]),
        ("30 2 * * *", Missed.RUN_ONCE, [Outcome.SUBMITTED]),
        ("30 2 * * *", Missed.SKIP, [Outcome.SKIPPED]),
    ],
)
def test_an_outage_of_three_hours_leaves_one_run(cast, clock, cron, missed, said):
    clock(NIGHT - 2 * HOUR)
    schedule = new_schedule(cast.ada, cron=cron, missed=missed)
    clock(NIGHT + HOUR + timedelta(seconds=30))
    fire()
    assert outcomes(schedule) == said
    assert Job.objects.count() == said.count(Outcome.SUBMITTED)


class Killed(BaseException):
    pass


def fire_until(killed_at: int) -> bool:
    """Return whether there was such a statement."""
    statements = count(1)

    def die(execute, sql, params, many, context):
        if next(statements) == killed_at:
            raise Killed
        return execute(sql, params, many, context)

    with connection.execute_wrapper(die):
        try:
            fire()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("first", range(1, 5))
def test_a_worker_that_is_killed_at_any_statement_loses_and_repeats_nothing(cast, clock, first):
    schedule = new_schedule(cast.ada)
    clock(NIGHT)
    for killed_at in count(first, 4):
        with transaction.atomic():  # undone each time
            is_killed = fire_until(killed_at)
            fire()
            told = (killed_at, outcomes(schedule), Job.objects.count())
            transaction.set_rollback(True)
        assert told == (killed_at, [Outcome.SUBMITTED], 1)
        if not is_killed:
            break
    assert killed_at > 30


def test_one_killed_between_claim_and_submit_is_gone_on_with(cast, clock):
    schedule = new_schedule(cast.ada)
    clock(NIGHT)
    assert claim_due() == 1
    assert outcomes(schedule) == [Outcome.DUE] and not Job.objects.exists()
    clock(NIGHT + 6 * HOUR)
    fire()
    assert outcomes(schedule) == [Outcome.SUBMITTED] and Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_submit_each_once(clock):
    cast = make.cast()
    for number in range(20):
        new_schedule(cast.ada, name=f"s{number}")
    clock(NIGHT)
    begin = Barrier(4)

    def work() -> int:
        begin.wait()
        try:
            return fire()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as workers:
        fired = [done.result() for done in [workers.submit(work) for _ in range(4)]]
    fire()
    assert sum(fired) <= 20 == Job.objects.count()
    assert set(ScheduledRun.objects.values_list("outcome", flat=True)) == {Outcome.SUBMITTED}


def test_many_due_at_once_are_claimed_in_batches_and_submitted_call_by_call(cast, clock, monkeypatch):
    monkeypatch.setattr(firing, "CLAIMED_AT_ONCE", 3)
    monkeypatch.setattr(firing, "FIRE_S", 0.0)
    for number in range(8):
        new_schedule(cast.ada, name=f"s{number}")
    clock(NIGHT)
    fire()
    assert ScheduledRun.objects.filter(outcome=Outcome.DUE).count() == 8
    monkeypatch.setattr(firing, "FIRE_S", 60.0)
    fire()
    assert Job.objects.count() == 8 and ScheduledRun.objects.filter(outcome=Outcome.SUBMITTED).count() == 8


class TestOverlap:
    def run_twice(self, cast, clock, overlap: str) -> tuple[Schedule, Job]:
        schedule = new_schedule(cast.ada, overlap=overlap)
        for at in (NIGHT, NIGHT + DAY):
            clock(at)
            fire()
        return schedule, runs_of(schedule)[0].job

    def test_skip(self, cast, clock):
        schedule, first = self.run_twice(cast, clock, Overlap.SKIP)
        assert outcomes(schedule) == [Outcome.SUBMITTED, Outcome.SKIPPED]
        assert runs_of(schedule)[1].why == {"code": "still_open", "params": {"job": first.public_id}}
        make.start(first)
        make.end(first)
        clock(NIGHT + 2 * DAY)
        fire()
        assert outcomes(schedule)[2] == Outcome.SUBMITTED

    def test_queue(self, cast, clock):
        schedule, first = self.run_twice(cast, clock, Overlap.QUEUE)
        second = runs_of(schedule)[1].job
        assert second.spec["after"] == {first.public_id: "any"} and second.waits_for == [first.pk]
        assert first.state == JobState.QUEUED and first.stop_requested_at is None

    def test_replace(self, cast, clock):
        schedule, first = self.run_twice(cast, clock, Overlap.REPLACE)
        second = runs_of(schedule)[1].job
        assert (first.state, first.reason) == (JobState.CANCELLED, "replaced")
        assert second.state == JobState.QUEUED

    def test_one_that_is_refused_replaces_nothing(self, cast, clock):
        schedule = new_schedule(cast.ada, overlap=Overlap.REPLACE)
        clock(NIGHT)
        fire()
        Quota.objects.filter(team=cast.nlp).delete()
        clock(NIGHT + DAY)
        fire()
        assert outcomes(schedule) == [Outcome.SUBMITTED, Outcome.REFUSED]
        assert Job.objects.get().stop_requested_at is None


@pytest.mark.parametrize(
    ("because", "code"),
    [
        (lambda cast: Quota.objects.filter(team=cast.nlp).delete(), "no_quota"),
        (lambda cast: Membership.objects.filter(user=cast.ada).delete(), "unknown_team"),
        (lambda cast: User.objects.filter(pk=cast.ada.pk).update(suspended_at=NOON), "not_permitted"),
        (lambda cast: Schedule.objects.update(job_file=FILE.replace("dev", "gone")), "unknown_pool"),
    ],
    ids=["quota", "team", "person", "pool"],
)
def test_a_refusal_is_kept_with_its_words_and_told_once(cast, clock, because, code):
    schedule = new_schedule(cast.ada)
    because(cast)
    for day in range(2):
        clock(NIGHT + day * DAY)
        fire()
    run = runs_of(schedule)[0]
    assert run.outcome == Outcome.REFUSED
    assert code in (run.why["code"], *(error["code"] for error in run.why["errors"]))
    notice = Notice.objects.get(kind="schedule_refused")
    assert (notice.user_id, notice.params["suspended"], notice.params["why"]) == (cast.ada.pk, False, run.why)
    assert Schedule.objects.get().refusals == 2 and not Job.objects.exists()


def test_too_many_refusals_in_a_row_suspend_it_and_say_so(cast, clock):
    schedule = new_schedule(cast.ada)
    Quota.objects.filter(team=cast.nlp).delete()
    for day in range(MOST_REFUSALS + 2):
        clock(NIGHT + day * DAY)
        fire()
    schedule.refresh_from_db()
    assert outcomes(schedule) == [Outcome.REFUSED] * MOST_REFUSALS
    assert (schedule.suspended_why, schedule.next_at) == ("refused", None)
    first, last = map(view_notice, Notice.objects.order_by("pk"))
    assert first.title == "The job of your schedule nightly was refused"
    assert first.text == f"{describe_why(runs_of(schedule)[0])} You are told of it once, not for each time."
    assert last.title == f"Your schedule nightly is suspended: {MOST_REFUSALS} jobs were refused"
    assert last.text.endswith("resume the schedule on its page.") and last.path == f"/schedules/{schedule.public_id}/"
    assert Event.objects.get(kind="schedule", verb="suspended").actor == "system"
    make.quota(cast.nlp, cast.dev)
    resumed = resume_schedule(actor=cast.bob, schedule=schedule)
    assert (resumed.refusals, resumed.suspended_at) == (0, None) and resumed.next_at > clock()


def test_one_that_succeeds_begins_the_count_anew(cast, clock):
    new_schedule(cast.ada)
    quota = Quota.objects.filter(team=cast.nlp)
    kept = list(quota)
    quota.delete()
    clock(NIGHT)
    fire()
    Quota.objects.bulk_create(kept)
    clock(NIGHT + DAY)
    fire()
    assert Schedule.objects.get().refusals == 0


@pytest.mark.parametrize("failure", [Unavailable(), ValueError("a mistake of ours")])
def test_what_the_platform_itself_cannot_do_is_tried_again_and_holds_up_nobody(cast, clock, monkeypatch, failure):
    broken, sound = new_schedule(cast.ada, name="broken"), new_schedule(cast.bob, name="sound")
    submit = firing.submit_job

    def fail_for_ada(*, user, **named):
        if user == cast.ada:
            raise failure
        return submit(user=user, **named)

    monkeypatch.setattr(firing, "submit_job", fail_for_ada)
    clock(NIGHT)
    fire()
    assert (outcomes(broken), outcomes(sound)) == ([Outcome.DUE], [Outcome.SUBMITTED])
    assert fire() == 0
    monkeypatch.setattr(firing, "submit_job", submit)
    clock(NIGHT + 2 * MINUTE)
    fire()
    assert outcomes(broken) == [Outcome.SUBMITTED]


def test_it_is_not_tried_for_ever(cast, clock, monkeypatch):
    schedule = new_schedule(cast.ada)

    def away(**named):
        raise Unavailable()

    monkeypatch.setattr(firing, "submit_job", away)
    clock(NIGHT)
    claim_due()
    fire()
    clock(NIGHT + TRIED_FOR + MINUTE)
    fire()
    assert outcomes(schedule) == [Outcome.REFUSED] and runs_of(schedule)[0].why["code"] == "unavailable"


def test_a_suspended_one_runs_nothing_and_what_passed_meanwhile_was_not_missed(cast, clock):
    schedule = new_schedule(cast.ada)
    clock(NIGHT)
    claim_due()
    suspend_schedule(actor=cast.bob, schedule=schedule)
    clock(NIGHT + 3 * DAY + HOUR)
    fire()
    assert runs_of(schedule)[0].why == {"code": "suspended"}
    resume_schedule(actor=cast.ada, schedule=schedule)
    fire()
    assert len(runs_of(schedule)) == 1 and Schedule.objects.get().next_at == NIGHT + 4 * DAY


def test_a_run_by_hand_is_one_more_and_leaves_the_next_time_alone(cast, clock):
    schedule = new_schedule(cast.ada)
    asked = [ask_for_run(actor=cast.ada, schedule=schedule, key="once", body=b"1") for _ in range(2)]
    run = fire_next(check_possible, True, asked[0].pk)
    assert asked[0].pk == asked[1].pk == run.pk and run.asked_by == "ada"
    assert run.outcome == Outcome.SUBMITTED and Schedule.objects.get().next_at == NIGHT


def test_the_newest_runs_are_kept_and_jobs_stay(cast, clock):
    schedule = new_schedule(cast.ada, keep=2, overlap=Overlap.SKIP)
    for day in range(5):
        clock(NIGHT + day * DAY)
        fire()
        for job in Job.objects.open():
            make.start(job)
            make.end(job)
    assert [run.tick_at for run in runs_of(schedule)] == [NIGHT + day * DAY for day in (2, 3, 4)]
    assert Job.objects.count() == 5


def test_a_changed_schedule_comes_at_its_new_times_and_a_deleted_one_leaves_its_jobs(cast, clock):
    schedule = new_schedule(cast.ada)
    clock(NIGHT)
    fire()
    change_schedule(actor=cast.ada, schedule=schedule, check=check_possible, containers=True, cron="0 4 * * *")
    assert Schedule.objects.get().next_at == NIGHT.replace(hour=4, minute=0)
    delete_schedule(actor=cast.ada, schedule=schedule)
    clock(NIGHT + DAY)
    fire()
    assert Job.objects.count() == 1 and not ScheduledRun.objects.exists()
