"""Waiting for jobs, following logs and watching, over restarts and cut connections."""

import os
import random
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from cli.failures import INTERRUPTED, JOB_FAILED, OK, WAITS, Failure, Unreachable
from cli.http.transport import Client, is_array_id, job_path
from cli.output.cells import (
    ENDED,
    NONE,
    count_ended,
    describe_end,
    describe_wait,
    format_duration,
    format_elements,
)
from cli.output.safe_text import LogText
from cli.session import Session

POLL_S = (0.3, 0.5, 1.0, 2.0)
"""Pauses between polls of a job; the last one repeats."""
GIVE_UP_AFTER_S = 300.0
"""How long the platform may be away before a wait ends."""
LIVED_S = 5.0
"""A log connection that lived this long counts as a success."""
WATCH_S = 2.0
"""Pause between two polls of --watch."""

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Look again every two seconds, until Ctrl-C.")]

Job = dict[str, Any]


def show_repeatedly(session: Session, look: Callable[[], bool | None], watch: bool) -> None:
    """Call `look` once, or until True or Ctrl-C."""
    if not watch:
        look()
        return
    session.watching, retries = True, Retries(session)
    try:
        while True:
            try:
                if look():
                    return
                retries.reset()
            except Unreachable as gone:
                retries.wait(gone)
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        raise Failure(INTERRUPTED) from None


def wait_for_start(session: Session, client: Client, job: Job, within_s: float | None = None) -> Job:
    """Wait until the job runs or has ended. Raises Failure (WAITS)."""
    return _wait(session, client, job, lambda job: job["state"] == "running" or job["state"] in ENDED, within_s)


def wait_for_end(session: Session, client: Client, job: Job, within_s: float | None = None) -> Job:
    """Wait until the job has ended. Raises Failure (WAITS)."""
    return _wait(session, client, job, lambda job: job["state"] in ENDED, within_s)


def follow(session: Session, client: Client, job: Job, rank: int = 0, role: str = "") -> Job:
    """Write one task's log to stdout until the job has ended."""
    while True:
        attempt, task = job["attempt"], find_task(job, rank, role)
        job = _wait(session, client, job, _has_started(attempt))
        if task is not None:
            print_log(session, client, job["id"], task=task["uuid"], follow=True)
        job = _wait(session, client, job, _ends_attempt(attempt), tell=False)
        if job["attempt"] == attempt:
            return job
        session.print_note(f"{job['id']} is tried again: attempt {job['attempt']}.")


def print_log(
    session: Session, client: Client, job_id: str, *, rank: int = 0, task: str | None = None, follow: bool = False
) -> None:
    """Write a task's log to stdout, resuming after a cut."""
    text = build_log_text()
    offset, retries = 0, Retries(session)
    query: dict[str, Any] = {"task": task} if task else {"rank": rank}
    try:
        while True:
            opened = time.monotonic()
            try:
                path, following = job_path(job_id, "/logs"), 1 if follow else None
                with client.stream(path, follow=following, offset=offset, **query) as (headers, pieces):
                    query = {"task": headers["X-Task"]} if headers["X-Task"] else query
                    for piece in pieces:
                        offset += len(piece)
                        _write(text.feed(piece))
                        retries.reset()
                if not follow or _has_ended(client, job_id, query.get("task")):
                    return
                gone = Unreachable(f"The log of {job_id} broke off.")
            except Unreachable as error:
                gone = error
            if time.monotonic() - opened >= LIVED_S:  # a quiet job, no failure
                retries.reset()
            retries.wait(gone)
    finally:
        _write(text.end())


def print_lines(client: Client, job_id: str, **query: Any) -> None:
    """Write what the platform selects of a log to stdout, part by part, up to its present end."""
    text, offset, size = build_log_text(), 0, 1
    while offset < size:
        with client.stream(job_path(job_id, "/logs"), offset=offset, **query) as (headers, pieces):
            for piece in pieces:
                _write(text.feed(piece))
            told = int(headers["X-Log-Next-Offset"])
            offset, size = told, int(headers["X-Log-Size"]) if told > offset else told
    _write(text.end())


def build_log_text() -> LogText:
    return LogText(colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)


def find_task(job: Job, rank: int, role: str = "") -> dict[str, Any] | None:
    """Return a task of the newest attempt; without a role the first of this rank."""
    return next((task for task in job["tasks"] if task["rank"] == rank and (not role or task["role"] == role)), None)


def report_outcome(session: Session, job: Job) -> int:
    if job["state"] == "succeeded":
        return OK
    if is_array_id(job["id"]):
        session.print_note(f"{job['id']} {job['state']}: {format_elements(job)}.")
        return JOB_FAILED
    why = describe_end(job)
    session.print_note(f"{job['id']} {job['state']}: {why}" if why != NONE else f"{job['id']} {job['state']}.")
    if job["hint"]:
        session.print_note(job["hint"])
    return JOB_FAILED


def build_detached_failure(job_id: str) -> Failure:
    return Failure(INTERRUPTED, "", f"{job_id} goes on. To stop it: tessera stop {job_id}")


def _wait(
    session: Session,
    client: Client,
    job: Job,
    done: Callable[[Job], bool],
    within_s: float | None = None,
    tell: bool = True,
) -> Job:
    begun, retries, said, looks = time.monotonic(), Retries(session), "", 0
    while not done(job):
        if tell and (text := _progress(job)) != said:
            session.print_note(said := text)
        pause = POLL_S[min(looks, len(POLL_S) - 1)]
        if within_s is not None:
            left = begun + within_s - time.monotonic()
            if left <= 0:
                raise Failure(WAITS, f"{job['id']} is still {job['state']} after {format_duration(within_s)}.")
            pause = min(pause, left)
        time.sleep(pause)
        looks += 1
        try:
            job = client.get(job_path(job["id"]))
            retries.reset()
        except Unreachable as gone:
            retries.wait(gone)
    return job


def _has_started(attempt: int) -> Callable[[Job], bool]:
    return lambda job: job["state"] == "running" or _ends_attempt(attempt)(job)


def _ends_attempt(attempt: int) -> Callable[[Job], bool]:
    return lambda job: job["state"] in ENDED or job["attempt"] > attempt


def _progress(job: Job) -> str:
    if is_array_id(job["id"]):
        return f"{job['id']}: {count_ended(job)} of {job['total']} have ended."
    if job["state"] == "queued":
        return f"{job['id']} waits: {describe_wait(job)}"
    return f"{job['id']} is {job['state']}."


def _has_ended(client: Client, job_id: str, task: str | None) -> bool:
    job = client.get(job_path(job_id))
    if job["state"] in ENDED:
        return True
    newest = next((one for one in job["tasks"] if one["uuid"] == task), None)
    return newest is None or newest["ended_at"] is not None


def _write(text: str) -> None:
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()


class Retries:
    """Retry state: counts failures, waits between tries, gives up."""

    def __init__(self, session: Session):
        self.session = session
        self.since: float | None = None
        self.tries = 0

    def reset(self) -> None:
        self.since, self.tries = None, 0

    def wait(self, failure: Unreachable) -> None:
        """Wait before the next try, or raise the failure."""
        now = time.monotonic()
        self.since = self.since or now
        if now - self.since >= GIVE_UP_AFTER_S:
            raise failure
        if self.tries == 2:
            self.session.print_note(f"{failure.lines[0]} Trying again.")
        pause = POLL_S[min(self.tries, len(POLL_S) - 1)]
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  after a restart not all at once
        self.tries += 1
