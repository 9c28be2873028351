"""Look at what is held, and climb the ladder: each job in a transaction of its own, under its lock."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from asgiref.sync import async_to_sync
from django.db import DatabaseError, transaction

from common.errors import PlatformError
from common.locks import database_now, lock_rows
from events.record_and_publish import SYSTEM, record
from jobs.lifecycle import lock_job
from jobs.models import Job
from jobs.states import JobState
from jobs.task_access import get_access
from monitoring.idle.acting import act, describe
from monitoring.idle.clock import step_clock
from monitoring.idle.evidence import Busy, Finding, Idle, Limits, Unknown, Why, derive_idle
from monitoring.idle.ladder import Climb, Hold, Ladder, Standing, Stay, TellLead, compare, plan_times
from monitoring.idle.loading import HeldJob, find_work, load_held_jobs, load_newest, load_windows
from monitoring.idle.rules import Rules, load_rules
from monitoring.idle.rungs import Rung
from monitoring.idle.telling import find_leads, has_reached, tell, was_told_instead
from monitoring.models import Exemption, IdleWatch, TaskNow
from notebooks.jupyter_activity import JupyterActivity, ask_jupyters
from notebooks.models import Notebook

log = logging.getLogger("tessera.idle")

LIMITS = Limits()
LOOK_EVERY = timedelta(seconds=55)
"""Where nothing is idle yet; what is on the ladder is looked at each time."""
FRESH = timedelta(seconds=60)
"""Nothing is done by an older look."""


@dataclass(frozen=True)
class Look:
    """What was found of a job, and by what. terms: of the samplers that saw its tasks."""

    held: HeldJob
    ladder: Ladder
    changed_at: datetime | None
    finding: Finding
    terms: list[list[int]]
    kernels: tuple[JupyterActivity, datetime] | None = None


def follow_idle() -> None:
    """Look at all jobs that hold cards, and take the rungs that are due."""
    now, rules = database_now(), load_rules()
    for look in find_looks(rules, now):
        try:
            take_look(look, now)
        except (DatabaseError, PlatformError) as failed:  # of this job; the next look tries again
            log.warning("%s was not looked at: %s", look.held.job, failed)


def find_looks(rules: Rules, now: datetime) -> list[Look]:
    """Return what is found of each job now. Jobs that plainly work and were not idle need no look."""
    held = [one for one in load_held_jobs() if rules.find_ladder(one.job) is not None]
    watches, newest = IdleWatch.objects.in_bulk([one.job.pk for one in held]), load_newest(held)
    looks, quiet = [], []
    for one in held:
        watch = watches.get(one.job.pk)
        if (signal := find_work(one, newest, LIMITS)) is not None:
            if watch is not None and watch.finding != "busy":
                looks.append(_build_look(one, rules, Busy(signal, now), newest))
        elif watch is None or watch.since is not None or watch.looked_at is None or now - watch.looked_at > LOOK_EVERY:
            quiet.append(one)
    return looks + _look_closer(quiet, watches, newest, rules, now)


def _look_closer(
    quiet: Sequence[HeldJob],
    watches: Mapping[int, IdleWatch],
    newest: Mapping[int, TaskNow],
    rules: Rules,
    now: datetime,
) -> list[Look]:
    """Derive what the windows of jobs say; of notebooks that seem idle, JupyterLab is asked, too."""
    for one in quiet:
        if (watch := watches.get(one.job.pk)) is not None:
            note_restart(watch, list_terms(one, newest), now)
    findings = _derive(quiet, watches, rules, now)
    seem_idle = [one for one in quiet if one.notebook is not None and _hangs_on_kernels(findings[one.job.pk])]
    answers = _ask_kernels(seem_idle, watches, now)
    again = [one for one in seem_idle if one.job.pk in answers]
    findings |= _derive(again, {one.job.pk: _with_kernels(one, watches, answers, now) for one in again}, rules, now)
    return [_build_look(one, rules, findings[one.job.pk], newest, answers.get(one.job.pk), now) for one in quiet]


def _derive(
    held: Sequence[HeldJob], watches: Mapping[int, IdleWatch], rules: Rules, now: datetime
) -> dict[int, Finding]:
    found: dict[int, Finding] = {}
    by_window: dict[int, list[HeldJob]] = {}
    for one in held:
        ladder = rules.find_ladder(one.job)
        by_window.setdefault(ladder.window_s if ladder else 0, []).append(one)
    for window_s, some in by_window.items():
        windows = load_windows(some, watches, window_s, now)
        found |= {pk: derive_idle(window, LIMITS, now) for pk, window in windows.items()}
    return found


def _hangs_on_kernels(finding: Finding) -> bool:
    return isinstance(finding, Idle) or (isinstance(finding, Unknown) and finding.why == Why.KERNELS_SILENT)


def _ask_kernels(
    held: Sequence[HeldJob], watches: Mapping[int, IdleWatch], now: datetime
) -> dict[int, JupyterActivity]:
    """Ask those that were not asked in the last minute; return the answers by job."""
    due = []
    for one in held:
        watch = watches.get(one.job.pk)
        if watch is None or watch.kernels_asked_at is None or now - watch.kernels_asked_at > LOOK_EVERY:
            due.append(one)
    if not due:
        return {}
    answers = async_to_sync(ask_jupyters)(get_access(), [one.tasks[0] for one in due])
    return {one.job.pk: answers[one.tasks[0].pk] for one in due if one.tasks[0].pk in answers}


def _with_kernels(
    held: HeldJob, watches: Mapping[int, IdleWatch], answers: Mapping[int, JupyterActivity], now: datetime
) -> IdleWatch:
    watch = watches.get(held.job.pk) or IdleWatch(job=held.job)
    answer = answers[held.job.pk]
    watch.kernels_asked_at, watch.kernels_busy, watch.kernels_active_at = now, answer.busy, answer.active_at
    return watch


def _build_look(
    held: HeldJob,
    rules: Rules,
    finding: Finding,
    newest: Mapping[int, TaskNow],
    answer: JupyterActivity | None = None,
    now: datetime | None = None,
) -> Look:
    ladder = rules.find_ladder(held.job)
    assert ladder is not None
    kernels = (answer, now) if answer is not None and now is not None else None
    return Look(held, ladder, rules.find_change(held.job), finding, list_terms(held, newest), kernels)


def list_terms(held: HeldJob, newest: Mapping[int, TaskNow]) -> list[list[int]]:
    return [[task.pk, newest[task.pk].term] for task in held.tasks if task.pk in newest]


def note_restart(watch: IdleWatch, terms: list[list[int]], now: datetime) -> None:
    """Keep which runs of samplers a job was seen by, and when one of them began anew."""
    known = {row[0]: row[1] for row in watch.terms}
    if any(known.get(task, term) != term for task, term in terms):
        watch.restarted_at = now
    watch.terms = [*([task, term] for task, term in watch.terms if task not in {task for task, _ in terms}), *terms]


@transaction.atomic
def take_look(look: Look, now: datetime) -> None:
    """Move a job's clock, and take a rung if one is due."""
    if look.held.notebook is not None:
        lock_rows(Notebook.objects.filter(pk=look.held.notebook.pk))
    job = lock_job(look.held.job.pk)
    if job.state != JobState.RUNNING or job.attempt != look.held.job.attempt:
        return
    watch = lock_watch(job)
    if watch.looked_at is not None and watch.looked_at >= now:
        return  # another look was later
    _move_clock(watch, job, look, now)
    standing = build_standing(watch, job, look.held.notebook)
    step = compare(look.ladder, standing, look.finding, now)
    if not isinstance(step, Stay) and database_now() - now > FRESH:
        step = Stay(Hold.UNKNOWN)
    if isinstance(step, Climb):
        step = _climb(watch, job, look, step.rung, now)
    elif isinstance(step, TellLead):
        _tell_lead(watch, job, look, now)
    watch.hold = step.why if isinstance(step, Stay) else ""
    _write_plan(watch, job, look)
    watch.save()


def lock_watch(job: Job) -> IdleWatch:
    """Lock a job's watch, which begins with this. The job is locked."""
    IdleWatch.objects.get_or_create(job=job, defaults={"attempt": job.attempt})
    return lock_rows(IdleWatch.objects.filter(pk=job.pk))[0]


def _move_clock(watch: IdleWatch, job: Job, look: Look, now: datetime) -> None:
    """Let the clock go on, stand or begin anew; work, another attempt and a new rule begin another ladder."""
    note_restart(watch, look.terms, now)
    if look.kernels is not None:
        answer, watch.kernels_asked_at = look.kernels
        watch.kernels_busy, watch.kernels_active_at = answer.busy, answer.active_at
    if watch.attempt != job.attempt:
        _note_retry(watch, job)
        begin_ladder(watch)
        watch.attempt, watch.since = job.attempt, None
    began = watch.since
    watch.clock = step_clock(watch.clock, look.finding, now)
    if look.changed_at is not None and watch.since is not None and watch.since < look.changed_at:
        watch.since, watch.stood_s = look.changed_at, 0
    if watch.rung and (watch.since is None or began is None or watch.since > began):
        if watch.since is None:
            record(job, "idle_over", actor=SYSTEM, params={"signal": watch_signal(look.finding)})
        begin_ladder(watch)
    watch.finding, watch.detail = name_finding(look.finding)
    held = isinstance(look.finding, Idle) and look.finding.held
    watch.evidence = {**look.finding.seen.as_json(), "held": held}
    watch.notebook = look.held.notebook


def begin_ladder(watch: IdleWatch) -> None:
    """Put a job at the foot of a new ladder."""
    watch.ladder, watch.rung, watch.rung_at = watch.ladder + 1, Rung.NONE, None
    watch.snoozed_until, watch.plan = None, []


def watch_signal(finding: Finding) -> str:
    return finding.signal.value if isinstance(finding, Busy) else ""


def name_finding(finding: Finding) -> tuple[str, str]:
    """Return a finding as it is kept: its kind, and its signal or reason."""
    if isinstance(finding, Busy):
        return "busy", finding.signal
    return ("unknown", finding.why) if isinstance(finding, Unknown) else ("idle", "")


def _note_retry(watch: IdleWatch, job: Job) -> None:
    """A job that was stopped and is wanted again at once was stopped wrongly."""
    if watch.acted_at is not None and job.queued_at < watch.acted_at + timedelta(minutes=15):
        watch.regretted = True
    if watch.returned_until is not None:
        watch.returned_until = max(min(watch.returned_until, job.queued_at), watch.acted_at or job.queued_at)


def build_standing(watch: IdleWatch, job: Job, notebook: Notebook | None) -> Standing:
    exempt = Exemption.objects.filter(ended_at__isnull=True, **({"notebook": notebook} if notebook else {"job": job}))
    ends_at = notebook.stops_at if notebook else None
    if ends_at is None and job.max_time_s and job.started_at:
        ends_at = job.started_at + timedelta(seconds=job.max_time_s)
    return Standing(
        clock=watch.clock,
        rung=Rung(watch.rung),
        rung_at=watch.rung_at,
        reached=has_reached(watch, job.user_id),
        instead=was_told_instead(watch),
        started_at=job.started_at,
        ends_at=ends_at,
        stopping=job.stop_requested_at is not None,
        snoozed_until=watch.snoozed_until,
        exempt_until=exempt.order_by("-until").values_list("until", flat=True).first(),
    )


def _write_plan(watch: IdleWatch, job: Job, look: Look) -> None:
    times = plan_times(look.ladder, build_standing(watch, job, look.held.notebook)) if watch.since else {}
    watch.plan = [[int(rung), at.isoformat()] for rung, at in times.items()]
    watch.then = look.ladder.then


def _climb(watch: IdleWatch, job: Job, look: Look, rung: Rung, now: datetime) -> Climb | Stay:
    """Take a rung: its event, its notices, and what it does."""
    if rung == Rung.ACTED and not is_still_idle(look, watch):
        return Stay(Hold.UNKNOWN)
    watch.rung, watch.rung_at = rung, now
    params = describe(watch, job, look.ladder, build_standing(watch, job, look.held.notebook), now)
    about, owner = look.held.notebook or job, look.held.job.user
    if rung == Rung.ACTED:
        params |= act(watch, job, look.ladder.then, look.held, now)
    record(job, f"idle_{VERBS[rung]}", actor=SYSTEM, params=params)
    tell(watch, rung, [owner], about=about, params=params)
    if rung == Rung.ACTED or (rung == Rung.REMINDED and look.held.notebook is None):
        tell(watch, rung, find_leads(job.team, owner.pk), about=job, params={**params, "owner": owner.username})
    return Climb(rung)


VERBS = {Rung.NOTED: "noticed", Rung.REMINDED: "reminded", Rung.WARNED: "warned", Rung.ACTED: "acted"}


def is_still_idle(look: Look, watch: IdleWatch) -> bool:
    """Derive it again, under the job's lock, from what is known now."""
    now = database_now()
    window = load_windows([look.held], {look.held.job.pk: watch}, look.ladder.window_s, now)[look.held.job.pk]
    return isinstance(derive_idle(window, LIMITS, now), Idle)


def _tell_lead(watch: IdleWatch, job: Job, look: Look, now: datetime) -> None:
    """Tell the leads what the owner was told and has not seen."""
    params = describe(watch, job, look.ladder, build_standing(watch, job, look.held.notebook), now)
    params |= {"owner": look.held.job.user.username, "instead": True}
    tell(watch, Rung(watch.rung), find_leads(job.team, job.user_id), about=job, params=params, instead=True)
    record(job, "idle_lead_told", actor=SYSTEM, params=params)
