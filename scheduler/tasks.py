"""Celery's door to the loops. Each task is a short, idempotent poke: it takes the lease, looks, acts, and ends."""

import gc
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from celery import shared_task
from django.db import OperationalError, connection
from django.utils import timezone

from events.hints import heed
from jobs.models import IdempotencyKey
from runtimes.base import Unavailable
from scheduler.commit import run_steps
from scheduler.core.cycle import run_cycle
from scheduler.deeds import do_all, from_message
from scheduler.fetching import fetch_ahead
from scheduler.forecast import record_forecasts
from scheduler.inventory import record_inventory
from scheduler.lease import kept, leading, note_success, renew, wanted_again
from scheduler.memory import remembering
from scheduler.quiet import Mark, Rest, read_mark, rest_after
from scheduler.rounds import reconcile_once
from scheduler.runtime import the_runtime
from scheduler.snapshots import load_world
from scheduler.steps import build_steps

log = logging.getLogger("tessera.tasks")

FOLLOW_S = 0.6
"""How long a reconcile stays to see what it started come up, so that RUNNING need not wait for the next beat."""
LOOK_S = 0.03
REST_S = 0.3
"""The longest pause between two rounds of a loop that are wished one after the other."""
TERM_S = 30.0
"""So long one task goes on with rounds: CELERY_TASK_SOFT_TIME_LIMIT would end it, and the beat begins another."""
_rest: Rest | None = None
"""What this worker found when it last had nothing to do."""

KEYS_KEPT = timedelta(hours=24)


@shared_task
def cycle() -> None:
    """One pass of the scheduler, and another for each wish that came while it ran."""
    _lead("cycle", one_cycle)


@shared_task
def reconcile() -> None:
    """Drive what runs to what the rows say, following fresh starts until they are up."""
    _lead("reconcile", _one_reconcile)


@shared_task
def act(messages: list[dict]) -> None:
    """Starts, stops and forgets that `manage.py watch` hands out. Any number of times."""
    _leave_dead_connection()
    try:
        do_all([from_message(message) for message in messages], the_runtime())
    except OperationalError as away:
        log.warning("%d deeds wait: %s", len(messages), away)


@shared_task
def take_inventory() -> None:
    """What the nodes are now: facts, cards, last seen."""
    _leave_dead_connection()
    try:
        record_inventory(the_runtime().list_nodes())
    except Unavailable as away:
        log.warning("no inventory: %s", away)


@shared_task
def fetch_images() -> None:
    """What of the catalogue machines shall have before a job asks for it."""
    _lead("fetch", lambda epoch: fetch_ahead(the_runtime(), epoch))


@shared_task
def foretell() -> None:
    """When the first in line will start."""
    _lead("forecast", lambda epoch: record_forecasts())


@shared_task
def sweep() -> None:
    """Drop answers to submits that nobody can still be retrying."""
    _leave_dead_connection()
    IdempotencyKey.objects.filter(created_at__lt=timezone.now() - KEYS_KEPT).delete()


def _lead(name: str, act: Callable[[int], None]) -> None:
    """Each wish that comes while it acts is one more round. A round costs the same for one that waits as for many: it
    is worth waiting for who else comes, as long as the last one took.
    """
    _leave_dead_connection()
    try:
        with leading(name) as epoch:
            until = time.monotonic() + TERM_S
            while epoch is not None:
                began = time.monotonic()
                heed(name)
                act(epoch)
                took_s = time.monotonic() - began
                note_success(name, epoch, round(1000 * took_s))
                if began > until or not wanted_again(name, epoch) or not renew(name, epoch):
                    return
                time.sleep(min(took_s, REST_S))
    except OperationalError as gone:  # the database restarts: the next beat finds it again
        log.warning("%s waits for the database: %s", name, gone)


def _leave_dead_connection() -> None:
    """Celery keeps a connection for CELERY_DB_REUSE_MAX tasks, even one whose server crashed: look before each task."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def one_cycle(epoch: int) -> None:
    """Nothing where everything is as the last full cycle left it."""
    global _rest
    mark = read_mark()
    if _rest is None or not _rest.covers(mark, time.time()):
        with without_collector():
            _rest = full_cycle(epoch, mark)


def full_cycle(epoch: int, mark: Mark) -> Rest | None:
    with kept("cycle", epoch), remembering(mark):
        world, now = load_world(), time.time()
        plan = run_cycle(world.snapshot, world.policy, now, world.mind)
        run_steps(build_steps(plan, world), epoch)
    return rest_after(mark, plan, world.snapshot, now)


@contextmanager
def without_collector() -> Iterator[None]:
    """A snapshot is a hundred thousand objects, all of them in use: to look for garbage among them takes a third of a
    cycle's time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _one_reconcile(epoch: int) -> None:
    runtime, until = the_runtime(), time.monotonic() + FOLLOW_S
    try:
        while reconcile_once(runtime, epoch) and time.monotonic() < until:
            time.sleep(LOOK_S)
    except Unavailable as away:
        log.warning("reconcile waits for the runtime: %s", away)
