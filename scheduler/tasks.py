"""Celery tasks that run the loops: short and idempotent, under a lease."""

import gc
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from celery import shared_task
from django.db import DatabaseError, OperationalError
from django.utils import timezone

from cluster.models import Node
from common.errors import StaleState
from common.steady_clock import steady_now, steady_time
from events.record_and_publish import clear_hint
from jobs.arrays.making import make_due_elements
from jobs.dependencies.settling import settle_dependencies
from jobs.models import IdempotencyKey
from jobs.outputs.outputs import take_outputs
from jobs.time_limits import give_up_waits
from jobs.used_secrets.giving import drop_given
from metrics.process import CYCLE_SECONDS, CYCLES, LOOP_SECONDS
from monitoring.alerts.round import judge_alerts
from monitoring.idle import watching
from monitoring.idle.acting import fulfil_wishes
from monitoring.samples.ingest import take_samples
from monitoring.samples.pace import claim_sample
from notebooks.models import Notebook
from notebooks.services import start_notebook
from quotas.services import return_due_quotas
from reported_numbers.collecting import collect_running
from runtimes.contract.errors import Unavailable
from scheduler.commit.step_runner import run_steps
from scheduler.commit.steps import build_steps
from scheduler.core.cycle import run_cycle
from scheduler.inventory.image_prepull import prepull_images
from scheduler.inventory.nodes import record_inventory
from scheduler.inventory.silence import mark_silent_nodes
from scheduler.lease import check_epoch, lead, record_success, renew, renewing, take_hint
from scheduler.loading.change_detection import IdlePeriod, compute_idle_period
from scheduler.loading.predicted_lengths import learn_from_past
from scheduler.loading.row_cache import ChangeMark, caching, read_change_mark
from scheduler.loading.snapshots import load_world
from scheduler.models import Lease
from scheduler.preview.forecast_recorder import record_forecasts
from scheduler.preview.preview import check_possible
from scheduler.reconcile.actions import decode_action, run_actions
from scheduler.reconcile.round import Poller, reconcile_once
from scheduler.reconcile.simulated_samples import sample_simulated_cards
from scheduler.runtime import get_runtime, get_sampler
from schedules.firing import fire_due
from services.controlling import control_services
from sweeps.drawing import draw_values
from sweeps.pruning import prune_open_sweeps

log = logging.getLogger("tessera.tasks")

FOLLOW_S = 0.6
"""How long a reconcile follows fresh starts, so that RUNNING need not wait for the next beat."""
LOOK_S = 0.03
LOOK_AT_REPLICAS_S = 0.1
REST_S = 0.3
"""Longest pause between two requested rounds."""
TERM_S = 30.0
"""How long one task repeats rounds, below CELERY_TASK_SOFT_TIME_LIMIT; the beat starts another."""
_rest: IdlePeriod | None = None
"""State of the last cycle that decided nothing."""

KEYS_KEPT = timedelta(hours=24)


@shared_task
def cycle() -> None:
    """Run scheduling cycles while requested."""
    _lead("cycle", one_cycle)


@shared_task
def reconcile() -> None:
    """Reconcile tasks with the runtime, following fresh starts."""
    _lead("reconcile", _one_reconcile)


@shared_task
def act(messages: list[dict]) -> None:
    """Run idempotent actions from `manage.py watch`."""
    try:
        run_actions([decode_action(message) for message in messages], get_runtime())
    except OperationalError as away:
        log.warning("%d deeds wait: %s", len(messages), away)


@shared_task
def take_inventory() -> None:
    """Store nodes and cards."""
    try:
        record_inventory(get_runtime().list_nodes())
    except Unavailable as away:
        log.warning("no inventory: %s", away)


@shared_task
def suspect() -> None:
    """Take machines whose agent is silent out of what may start."""
    try:
        mark_silent_nodes()
    except (StaleState, DatabaseError) as failed:  # the next beat retries
        log.warning("silent machines are not looked for: %s", failed)


@shared_task
def sample_when_due() -> None:
    """Sample this machine, or simulated cards of a cluster, where no agent does; more often what somebody watches."""
    sampler = get_sampler()
    try:
        if sampler is None:
            sample_simulated_cards()
        elif claim_sample(sampler.node_name):
            sample()
    except DatabaseError as failed:  # the next beat retries; nothing waits for samples
        log.warning("no samples: %s", failed)


def sample() -> None:
    """Sample this machine's cards and tasks."""
    sampler = get_sampler()
    node = Node.objects.present().filter(name=sampler.node_name).first() if sampler is not None else None
    if sampler is None or node is None:
        return
    try:
        take_samples(node, sampler.take())
    except (Unavailable, OSError, DatabaseError) as failed:  # the next beat retries; nothing waits for samples
        log.warning("no samples: %s", failed)


@shared_task
def alert() -> None:
    """Judge the alert rules, and tell whom they concern."""
    try:
        judge_alerts({"scheduler_silent_s": _count_silence()})
    except DatabaseError as failed:  # the next beat retries
        log.warning("alerts were not judged: %s", failed)


@shared_task
def follow_idle() -> None:
    """Look at what is held and idle, climb the ladder, and start notebooks anew that lost their GPU."""
    try:
        watching.follow_idle()
        fulfil_wishes(_start_for_owner)
    except (Unavailable, OSError, DatabaseError) as failed:  # the next beat retries; nothing waits for this
        log.warning("nobody looked at what is idle: %s", failed)


def _start_for_owner(notebook: Notebook, gpu: str | None) -> Notebook:
    containers = get_runtime().capabilities.containers
    return start_notebook(actor=notebook.user, notebook=notebook, check=check_possible, containers=containers, gpu=gpu)


@shared_task
def fetch_images() -> None:
    """Prepull catalogue images."""
    _lead("fetch", lambda epoch: prepull_images(get_runtime(), epoch))


@shared_task
def foretell() -> None:
    """Forecast when the first in line start."""
    _lead("forecast", lambda epoch: record_forecasts())


@shared_task
def learn_lengths() -> None:
    """Learn how long jobs run."""
    _lead("lengths", lambda epoch: learn_from_past())


@shared_task
def collect_numbers() -> None:
    """Store the numbers that running tasks have reported."""
    _lead("numbers", _collect_numbers)


@shared_task
def begin_outputs() -> None:
    """Begin the versions that jobs left, and remove the folders of those that are ready."""
    try:
        take_outputs()
    except DatabaseError as failed:  # the next beat retries
        log.warning("no output became a version: %s", failed)


@shared_task
def return_quotas() -> None:
    """Let quotas return to what they were, whose moment has come."""
    try:
        return_due_quotas()
    except DatabaseError as failed:  # the next beat retries
        log.warning("no quota returned: %s", failed)


@shared_task
def cancel_late_jobs() -> None:
    """Cancel what has not started within the time that it may wait."""
    try:
        give_up_waits()
    except DatabaseError as failed:  # the next beat retries
        log.warning("no wait was given up: %s", failed)


@shared_task
def fire_schedules() -> None:
    """Submit the jobs of schedules that have come due."""
    try:
        fire_due(check_possible, get_runtime().capabilities.containers)
    except (Unavailable, DatabaseError) as failed:  # the next beat goes on
        log.warning("schedules wait: %s", failed)


@shared_task
def serve() -> None:
    """Bring services to as many replicas as their requests need, following those that come up."""
    _lead("serve", _serve)


@shared_task
def make_elements() -> None:
    """Make the elements of arrays for which there is room, and stop the trials of sweeps that have fallen behind."""
    clear_hint("make_elements")
    try:
        prune_open_sweeps()
        make_due_elements(check_possible, get_runtime().capabilities.containers, draw_values)
    except (Unavailable, DatabaseError) as failed:  # the next beat goes on
        log.warning("arrays wait: %s", failed)


@shared_task
def sweep() -> None:
    """Delete old idempotency keys, and what was given of secrets to tasks that ended long ago."""
    IdempotencyKey.objects.filter(created_at__lt=steady_now() - KEYS_KEPT).delete()
    drop_given()


def _count_silence() -> float | None:
    """Return how long ago the last cycle ended; None if none ever did."""
    last = Lease.objects.filter(name="cycle").values_list("last_ok_at", flat=True).first()
    return None if last is None else max((timezone.now() - last).total_seconds(), 0.0)


def _lead(name: str, act: Callable[[int], None]) -> None:
    """Run rounds while requested, pausing as long as the last took, to serve several requests at once."""
    try:
        with lead(name) as epoch:
            until = time.monotonic() + TERM_S
            while epoch is not None:
                began = time.monotonic()
                clear_hint(name)
                with measure_round(name):
                    act(epoch)
                took_s = time.monotonic() - began
                record_success(name, epoch, round(1000 * took_s))
                if began > until or not take_hint(name, epoch) or not renew(name, epoch):
                    return
                time.sleep(min(took_s, REST_S))
    except OperationalError as gone:  # the next beat retries
        log.warning("%s waits for the database: %s", name, gone)


@contextmanager
def measure_round(loop: str) -> Iterator[None]:
    """Count how long a round takes, and whether it fails."""
    began, result = time.monotonic(), "failed"
    try:
        yield
        result = "ok"
    finally:
        LOOP_SECONDS.labels(loop, result).observe(time.monotonic() - began)


def one_cycle(epoch: int) -> None:
    """Run a full cycle unless nothing changed."""
    global _rest
    mark = read_change_mark()
    if _rest is not None and _rest.covers(mark, steady_time()):
        CYCLES.labels("unchanged").inc()
    else:
        with without_collector(), CYCLE_SECONDS.time():
            _rest = full_cycle(epoch, mark)
        CYCLES.labels("decided").inc()


def full_cycle(epoch: int, mark: ChangeMark) -> IdlePeriod | None:
    if _settle_dependencies(epoch):
        mark = read_change_mark()
    with renewing("cycle", epoch), caching(mark):
        world, now = load_world(), steady_time()
        plan = run_cycle(world.snapshot, world.policy, now, world.cycle_memo)
        run_steps(build_steps(plan, world), epoch)
    return compute_idle_period(mark, plan, world.snapshot, now)


def _settle_dependencies(epoch: int) -> bool:
    try:
        return settle_dependencies(partial(check_epoch, "cycle", epoch))
    except StaleState as stale:  # as what the cycle decides is dropped then
        log.info("jobs after others are looked at by who leads now: %s", stale)
        return False


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable garbage collection: scanning a snapshot takes a third of a cycle."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _collect_numbers(epoch: int) -> None:
    try:
        collect_running(get_runtime())
    except (Unavailable, OSError) as away:  # the next beat goes on where this one ended
        log.warning("numbers wait: %s", away)


def _serve(epoch: int) -> None:
    try:
        containers, until = get_runtime().capabilities.containers, time.monotonic() + FOLLOW_S
        while control_services(check_possible, containers) and time.monotonic() < until:
            time.sleep(LOOK_AT_REPLICAS_S)
    except (Unavailable, DatabaseError) as failed:  # the next beat goes on
        log.warning("services wait: %s", failed)


def _one_reconcile(epoch: int) -> None:
    runtime, until = get_runtime(), time.monotonic() + FOLLOW_S
    try:
        while reconcile_once(Poller(runtime), epoch).moves and time.monotonic() < until:
            time.sleep(LOOK_S)
    except Unavailable as away:
        log.warning("reconcile waits for the runtime: %s", away)
