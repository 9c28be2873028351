"""The allocating transaction under 16 threads on real PostgreSQL: nothing is ever promised twice.

The naive variant does the same sums without the locks. It oversells, which proves that this test can fail.
"""

import random
import threading
from contextlib import suppress
from unittest import mock

import pytest
from django.db import connection
from django.db.models import Sum

from cluster.models import Gpu
from common.errors import StaleState
from common.resources import gpu_milli, parse_gpu, slice_of
from jobs.models import Job
from jobs.states import JOB_ACTIVE
from quotas.models import Holding, UserLimit
from quotas.services import ensure_user_limit
from scheduler.commit import starting
from scheduler.commit.starting import start_jobs
from scheduler.commit.step_runner import list_batches
from scheduler.commit.steps import CardShare, StartJob, TaskStart
from scheduler.models import Lease
from tests import make
from tests.whole import part_of

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 16
GPU_LIMIT, CPU_LIMIT, MEMORY_LIMIT = 3_000, 14_000, 40_000
USER_GPU, USER_JOBS = 1_500, 12
SHAPES = ({"gpu": 0, "cpu": 1}, {"gpu": "1/4", "cpu": "250m"}, {"gpu": "1/8", "cpu": "100m", "nodes": 3}, {"gpu": 1})


def fill_world() -> tuple[list[Job], list[Gpu]]:
    """One node with four cards, a team with limits, three people, and more jobs of every shape than can fit."""
    nlp, dev = make.team("nlp"), make.pool("dev", shared=True, max_slices_per_gpu=8)
    node = make.node("n1", pool=dev, cpu_milli=16_000, memory_mib=48_000)
    cards = [make.gpu(node) for _ in range(4)]
    make.quota(nlp, dev, gpu_milli_limit=GPU_LIMIT, cpu_milli_limit=CPU_LIMIT, memory_mib_limit=MEMORY_LIMIT)
    jobs = []
    for name in ("ada", "bob", "cyd"):
        person = make.user(name, nlp)
        row = ensure_user_limit(person)
        UserLimit.objects.filter(pk=row.pk).update(gpu_milli=USER_GPU, jobs_running=USER_JOBS)
        for shape in range(12):
            jobs.append(make.job(person, **{"memory": "1GiB", "cpu": "500m", **SHAPES[shape % 4]}))
    Lease.objects.create(name="cycle", epoch=1)
    return jobs, cards


def propose(job: Job, cards: list[Gpu], dice: random.Random) -> StartJob:
    """Where a scheduler with a stale picture would put it: any card."""
    role = job.gang[0]
    ask = parse_gpu(role["request"]["gpu"])
    places = []
    for rank in range(role["min"]):
        chosen = [dice.choice(cards)] if ask.count else []
        shares = [(card, slice_of(ask, card.sellable_mib)) for card in chosen]
        held = tuple(CardShare(c.pk, s.memory_mib, s.compute_percent, gpu_milli(s, c.sellable_mib)) for c, s in shares)
        request = role["request"]
        places.append(TaskStart(rank, cards[0].node_id, held, request["cpu_milli"], request["memory_mib"]))
    return StartJob(job.pk, tuple(places), (job.team_id, job.user_id, job.pool_id))


def race(jobs: list[Job], cards: list[Gpu], seed: int) -> None:
    """Every thread tries its share of the jobs, all at once."""
    dice = random.Random(seed)
    steps = [propose(job, cards, dice) for job in jobs] + [propose(job, cards, dice) for job in jobs]
    dice.shuffle(steps)
    barrier, errors = threading.Barrier(THREADS), []

    def work(mine: list[StartJob]) -> None:
        try:
            barrier.wait(10)
            for alike in list_batches(mine):
                for together in (alike, *([step] for step in alike)):
                    with suppress(StaleState):
                        start_jobs(together, epoch=1)
        except Exception as error:  # a deadlock or a lost connection is a failure of the test, not of the thread
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(steps[n::THREADS],)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors[:3]


def oversold(cards: list[Gpu]) -> list[str]:
    """Every promise that is broken now, in words."""
    live, broken = Holding.objects.live(), []
    team = live.totals()
    broken += [f"team {i}" for i, most in enumerate((GPU_LIMIT, CPU_LIMIT, MEMORY_LIMIT)) if team[i] > most]
    for card in cards:
        used = live.filter(gpu=card).aggregate(
            mib=Sum("gpu_memory_mib", default=0), cpu=Sum("gpu_compute_percent", default=0)
        )
        slices = live.filter(gpu=card).count()
        if used["mib"] > card.sellable_mib or used["cpu"] > 100 or slices > 8:
            broken.append(f"card {card.index}: {used}, {slices} slices")
    _, cpu, memory = live.filter(node=cards[0].node_id).totals()
    if cpu > 16_000 or memory > 48_000:
        broken.append(f"node: {cpu} m, {memory} MiB")
    for (user,), held in live.totals_by("user").items():
        running = Job.objects.filter(user=user, state__in=JOB_ACTIVE).count()
        if held[0] > USER_GPU or running > USER_JOBS:
            broken.append(f"user {user}: {held}, {running} jobs")
    return broken


def whole_gangs() -> bool:
    held = {uuid for (uuid,) in Holding.objects.live().values_list("task").distinct()}
    for job in Job.objects.filter(state__in=JOB_ACTIVE):
        if not {task.uuid for task in job.newest_tasks} <= held:
            return False
    return not any(task.uuid in held for job in Job.objects.waiting() for task in job.newest_tasks)


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, part_of(20, 3)))]
)
def test_sixteen_threads_never_oversell(seed):
    jobs, cards = fill_world()
    race(jobs, cards, seed)
    assert oversold(cards) == []
    assert Holding.objects.live().exists()
    assert whole_gangs()


def test_without_the_locks_the_same_race_oversells():
    """The near miss: the same checks, and nobody waits for anybody. In some of ten races a promise must break."""
    broken = []
    for seed in range(10):
        jobs, cards = fill_world()
        with mock.patch.object(starting, "lock_rows", lambda rows, **_: list(rows.order_by("pk"))):
            race(jobs, cards, seed)
        broken += oversold(cards)
        if broken:
            return
        empty_world()
    pytest.fail("ten races without locks broke nothing: this test proves nothing")


def empty_world() -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE accounts_user, accounts_team, cluster_pool, scheduler_lease CASCADE")
