"""What is remembered between two looks is what the rows say: a cycle with a memory sees the world of one without."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from cluster.models import Gpu, Node, Pool
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from quotas.models import Holding, Quota
from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Plan, Policy
from scheduler.loading import row_cache
from scheduler.loading.row_cache import caching, read_change_mark
from scheduler.loading.snapshots import World, load_present_world, load_world
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def people():
    """Two teams, three machines of two cards each in two pools, nobody asked anything."""
    nlp, vision = make.team("nlp"), make.team("vision")
    dev, train = make.pool("dev", shared=True), make.pool("train")
    for number, pool in enumerate((dev, train, train)):
        node = make.node(f"n{number}", pool=pool)
        make.gpu(node), make.gpu(node)
    for team in (nlp, vision):
        make.quota(team, dev), make.quota(team, train)
    return [make.user("ada", nlp), make.user("bob", nlp), make.user("eve", vision)]


def look() -> World:
    with caching(read_change_mark()):
        return load_world()


def picture(world: World) -> dict:
    """All that a snapshot says, with people by their ids: a memory may have them in another order."""
    snapshot = world.snapshot
    told = {name: getattr(snapshot, name) for name in snapshot.__dataclass_fields__}
    arrays = {name: value.tolist() for name, value in told.items() if isinstance(value, np.ndarray)}
    for name in ("user_held", "user_limit", "user_jobs", "user_jobs_limit"):
        del arrays[name]
    of_users = zip(snapshot.user_held.tolist(), snapshot.user_jobs.tolist(), strict=True)
    held = {pk: of for pk, of in zip(world.user_ids, of_users, strict=True) if of != ([0, 0, 0], 0)}
    waiting = [(job.job, world.user_ids[job.user], repr(job).split("user=")[0]) for job in snapshot.waiting]
    running = [
        (job.job, world.user_ids[job.user], job.tasks, job.leaving, job.preemptible, job.priority, job.started_at)
        for job in snapshot.running
    ]
    return {"arrays": arrays, "held": held, "waiting": waiting, "running": running, "names": snapshot.node_names}


def some_change(people: list, dice: random.Random) -> None:
    free_to_go = {"held_at": None, "stop_requested_at": None}
    queued, running = Job.objects.waiting().filter(**free_to_go), Job.objects.filter(state=JobState.RUNNING)
    one = queued.order_by("?").first()
    change = dice.choice(
        ("submit", "submit", "start", "end", "hold", "stop", "heal", "cordon", "quota", "delay", "save", "resize")
    )
    if change == "submit":
        make.job(dice.choice(people), pool=dice.choice(("dev", "train")), gpu=1)
    elif change == "start" and one and (free := free_card(one)):
        make.start(one, free, node=free.node)
    elif change == "end" and running.exists():
        make.end(running.order_by("?").first())
    elif change == "hold" and one:
        Job.objects.filter(pk=one.pk).update(held_at=timezone.now())
    elif change == "stop" and one:
        Job.objects.filter(pk=one.pk).update(stop_requested_at=timezone.now())
    elif change == "heal":
        Gpu.objects.filter(index=dice.randrange(2)).update(healthy=dice.random() < 0.7)
    elif change == "cordon":
        Node.objects.filter(name="n2").update(state=dice.choice(("READY", "CORDONED")))
    elif change == "quota":
        Quota.objects.update(gpu_milli_limit=dice.choice((None, 2000)))
    elif change == "delay" and one:
        Job.objects.filter(pk=one.pk).update(not_before=timezone.now() + timedelta(hours=1))
    elif change == "resize" and (share := Holding.objects.live().filter(gpu__isnull=False).order_by("?").first()):
        Holding.objects.filter(pk=share.pk).release()
        share.pk, share.gpu_memory_mib, share.held_from = None, dice.randrange(1, 1000), timezone.now()
        share.save()
    elif change == "save":
        Task.objects.filter(state=TaskState.RUNNING).update(checkpointed_at=timezone.now())


def free_card(job: Job) -> Gpu | None:
    return Gpu.objects.filter(pool=job.pool, holdings__isnull=True, healthy=True, node__state="READY").first()


@pytest.mark.parametrize("seed", range(3))
def test_after_any_changes_it_sees_the_world_of_one_that_remembers_nothing(people, seed):
    dice = random.Random(seed)
    for _ in range(25):
        for _ in range(dice.randrange(3)):
            some_change(people, dice)
        assert picture(look()) == picture(load_world())


def decide() -> tuple[Plan, World]:
    with caching(read_change_mark()):
        world = load_world()
        return run_cycle(world.snapshot, Policy(), time.time(), world.cycle_memo), world


def decisions(plan: Plan) -> dict:
    """Without the numbers that are measured in seconds from now."""
    waits = {job: [refusal.reason for refusal in refusals] for job, refusals in plan.refusals.items()}
    starts = {(start.job, start.tasks) for start in plan.starts}
    return {"starts": starts, "evictions": plan.evictions, "waits": waits, "positions": plan.positions}


@pytest.mark.parametrize("seed", range(3))
def test_with_the_cache_off_cycles_decide_the_same(people, seed, settings):
    dice = random.Random(100 + seed)
    for _ in range(25):
        for _ in range(dice.randrange(3)):
            some_change(people, dice)
        settings.TESSERA_ROW_CACHE = True
        cached, world = decide()
        settings.TESSERA_ROW_CACHE = False
        anew, other = decide()
        assert decisions(cached) == decisions(anew)
        assert world.cycle_memo is not other.cycle_memo  # nothing is kept while it is off


def test_a_row_that_stayed_is_the_same_object(people):
    first, _ = make.job(people[0], pool="train", gpu=1), look()
    before = look().snapshot.waiting
    make.job(people[1], pool="train", gpu=1)
    assert look().snapshot.waiting[0] is before[0] and before[0].job == first.pk


def test_where_nothing_changed_no_rows_of_jobs_are_read(people):
    make.job(people[0], pool="train", gpu=1)
    look()
    with CaptureQueriesContext(connection) as seen:
        look()
    assert not [line for line in seen.captured_queries if "json_agg" in line["sql"]]


def test_what_cycles_know_of_machines_ends_when_a_row_of_them_or_of_their_pool_changes(people):
    before = look().cycle_memo
    make.job(people[0], pool="train", gpu=1)
    assert look().cycle_memo is before
    Node.objects.filter(name="n2").update(memory_mib=1)
    after = look().cycle_memo
    assert after is not before
    Pool.objects.filter(name="train").update(weight_links=1)
    assert look().cycle_memo is not after


def test_it_is_forgotten_with_the_connection(people):
    make.job(people[0], pool="train", gpu=1)
    before = look().snapshot.waiting[0]
    assert look().snapshot.waiting[0] is before
    connection.close()
    assert look().snapshot.waiting[0] is not before


def test_a_connection_that_was_open_at_its_last_use_shares_it_and_a_younger_one_does_not(people):
    make.job(people[0], pool="train", gpu=1)
    mine = look().snapshot.waiting[0]

    def look_twice() -> list:
        try:
            return [look().snapshot.waiting[0], look().snapshot.waiting[0]]
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        first, second = other.submit(look_twice).result()
    assert first is not mine and second is first
    assert look().snapshot.waiting[0] is first


def test_who_looks_at_the_present_reads_no_row_twice_and_within_a_transaction_all(people):
    make.job(people[0], pool="train", gpu=1)
    first = load_present_world().snapshot.waiting[0]
    assert load_present_world().snapshot.waiting[0] is first
    assert picture(load_present_world()) == picture(load_world())
    with transaction.atomic():
        assert load_present_world().snapshot.waiting[0] is not first


def test_it_is_forgotten_after_a_while(people, monkeypatch):
    make.job(people[0], pool="train", gpu=1)
    before = look().snapshot.waiting[0]
    monkeypatch.setattr(row_cache, "CLEAR_AFTER_S", 0.0)
    assert look().snapshot.waiting[0] is not before


def test_an_error_leaves_nothing_behind(people):
    make.job(people[0], pool="train", gpu=1)
    before = look().snapshot.waiting[0]
    with pytest.raises(ZeroDivisionError), caching(read_change_mark()):
        raise ZeroDivisionError
    assert look().snapshot.waiting[0] is not before
