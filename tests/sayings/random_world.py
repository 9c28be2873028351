"""A random small cluster, in which ada asks what she could start: one maker for all tests of what the platform says.

Maintenance, lending windows, personal limits, several pools and gangs are each in a third of the worlds. What runs and
waits got there as in life: it was submitted, and the cycle decided.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from uuid import uuid4

from django.db.models import F
from django.utils import timezone

from accounts.models import Team, TeamRole, User
from cluster.models import Node, Pool
from common.errors import PlatformError
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from notebooks.services import create_notebook, start_notebook
from quotas.models import Quota
from scheduler import tasks
from scheduler.commit.explaining import REFRESH_REASONS_S
from scheduler.models import Lease
from scheduler.preview.forecast_recorder import record_forecasts
from scheduler.preview.preview import check_possible
from tests import make

MINUTE, HOUR, DAY = 60, 3600, 86_400
SLICES, CARDS = ("1/8", "1/4", "1/2", "3/4", "4GB"), ("1", "1", "2")
LENGTHS = (None, None, 10 * MINUTE, 2 * HOUR, 3 * DAY)
A100 = {"model": "A100-40GB", "product": "NVIDIA A100-PCIE-40GB", "memory_mib": 40_960, "reserved_mib": 512}


@dataclass
class RandomWorld:
    """ada and bob are in team nlp, eve in vision. pools: all, of which nlp has a quota in `own`."""

    ada: User
    bob: User
    eve: User
    nlp: Team
    vision: Team
    dice: Random
    pools: list[Pool] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    has_gangs: bool = False


def make_random_world(seed: int) -> RandomWorld:
    dice = Random(seed)
    nlp, vision = make.team("nlp"), make.team("vision")
    ada, bob, eve = make.user("ada", nlp), make.user("bob", nlp, role=TeamRole.LEAD), make.user("eve", vision)
    world = RandomWorld(ada, bob, eve, nlp, vision, dice, has_gangs=third(dice))
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    _add_machines(world)
    _add_quotas(world)
    if third(dice):
        _add_limits(world)
    if third(dice) and len(world.pools) > 1:
        _add_window(world)
    if third(dice):
        _add_history(world)
    if third(dice):  # planned long ago: what starts knows of it
        _add_maintenance(world)
    _add_work(world)
    if third(dice):  # planned just now: what runs does not
        _add_maintenance(world)
    run_cycle()
    record_forecasts()
    return world


def third(dice: Random) -> bool:
    return not dice.randrange(3)


def run_cycle() -> None:
    """The next one. A transaction of a test ends with no commit, so that no cycle may take it that nothing changed."""
    tasks._rest = None
    waiting = Job.objects.filter(state=JobState.QUEUED)
    waiting.update(explained_at=timezone.now() - timedelta(seconds=2 * REFRESH_REASONS_S))  # numbers are written, too
    tasks.cycle()


def _add_machines(world: RandomWorld) -> None:
    """One pool or several, of split and of whole cards; some share a machine."""
    dice = world.dice
    names = dice.sample(["dev", "train", "big"], dice.choice([1, 2, 3]))
    world.pools = [make.pool(name, shared=name == "dev", max_slices_per_gpu=dice.choice([2, 8])) for name in names]
    together = third(dice)
    for pool in world.pools:
        if third(dice):
            Pool.objects.filter(pk=pool.pk).update(default_max_time_s=dice.choice([HOUR, DAY]))
        for _ in range(1 if together and world.nodes else dice.choice([1, 1, 2])):
            node = world.nodes[0] if together and world.nodes else _add_node(world, pool)
            for _ in range(dice.choice([1, 1, 2, 3])):
                make.gpu(node, pool=pool, **(A100 if pool.name == "big" else {}))


def _add_node(world: RandomWorld, pool: Pool) -> Node:
    cores = world.dice.choice([4, 16, 64])
    node = make.node(f"n{len(world.nodes) + 1}", pool=pool, cpu_milli=1000 * cores, memory_mib=4096 * cores)
    world.nodes.append(node)
    return node


def _add_quotas(world: RandomWorld) -> None:
    """nlp has quota in one pool at least; guarantees and limits are here and there."""
    dice = world.dice
    missing = dice.choice(world.pools) if third(dice) and len(world.pools) > 1 else None
    for team in (world.nlp, world.vision):
        for pool in world.pools:
            if team == world.nlp and pool == missing:
                continue
            limit = dice.choice([500, 1000, 2000]) if third(dice) else None
            guarantee = dice.choice([500, 1000]) if third(dice) else 0
            make.quota(team, pool, gpu_milli_limit=limit, gpu_milli_guarantee=min(guarantee, limit or guarantee))
    world.own = sorted(Quota.objects.filter(team=world.nlp).values_list("pool__name", flat=True))


def _add_limits(world: RandomWorld) -> None:
    limits = {"notebooks_running": 1, "jobs_running": 2, "jobs_waiting": 2, "gpu_milli": 750}
    make.limit(world.ada, **{name: most for name, most in limits.items() if world.dice.randrange(2)})


def _add_window(world: RandomWorld) -> None:
    """Around the clock, or until soon."""
    lender, borrower = world.dice.sample(world.pools, 2)
    now = timezone.now()
    soon = {"begins": (now - timedelta(hours=1)).time(), "ends": (now + timedelta(hours=2)).time()}
    make.window(lender, borrower, **(soon if third(world.dice) else {}))


def _add_maintenance(world: RandomWorld) -> None:
    begins = world.dice.choice([-600, 600, 2 * HOUR, 6 * DAY])
    lasts = world.dice.choice([HOUR, DAY])
    if third(world.dice):
        make.maintenance(pool=world.dice.choice(world.pools), begins_in_s=begins, lasts_s=lasts)
    else:
        make.maintenance(world.dice.choice(world.nodes), begins_in_s=begins, lasts_s=lasts)


def _add_history(world: RandomWorld) -> None:
    """Jobs without a time that ended, from which their length is learned."""
    now, pool = timezone.now(), world.dice.choice(world.pools)
    one = make.job(world.eve, pool=pool.name)
    Job.objects.filter(pk=one.pk).update(
        state=JobState.SUCCEEDED, reason="completed", started_at=now - timedelta(hours=1), ended_at=now
    )
    Task.objects.filter(job=one).update(state=TaskState.SUCCEEDED, ended_at=now)
    row = Job.objects.get(pk=one.pk)
    copies = []
    for number in range(24):
        row.pk, row.uuid, row.started_at = (
            None,
            uuid4(),
            now - timedelta(minutes=world.dice.choice([1, 10, 60]) + number),
        )
        copies.append(Job(**{each.attname: getattr(row, each.attname) for each in Job._meta.concrete_fields}))
    Job.objects.bulk_create(copies)


def _add_work(world: RandomWorld) -> None:
    """Twice a few jobs and a cycle; what started has run for a while when the second come."""
    for _ in range(2):
        for _ in range(world.dice.randrange(5)):
            submit_random_job(world)
        if third(world.dice):
            _start_notebook(world)
        run_cycle()
        _settle(world)


def submit_random_job(world: RandomWorld) -> None:
    """By anybody, of anything; what can never run is refused."""
    dice = world.dice
    person = dice.choice([world.ada, world.ada, world.bob, world.eve, world.eve])
    spec = {"gpu": dice.choice([*SLICES, *CARDS, "0"]), "time": dice.choice(LENGTHS)}
    spec |= {"pool": dice.choice(world.pools).name} if dice.randrange(2) else {}
    spec |= {"nodes": dice.choice([2, "1..2"])} if world.has_gangs and third(dice) else {}
    spec |= {"preemptible": True} if third(dice) else {}
    spec |= {"priority": dice.choice(["low", "high"])} if third(dice) else {}
    spec |= {"hold": True} if not dice.randrange(8) else {}
    try:
        make.job(person, check=check_possible, **{key: value for key, value in spec.items() if value is not None})
    except PlatformError:
        pass


def _start_notebook(world: RandomWorld) -> None:
    try:
        made = create_notebook(user=world.ada, name=f"explore-{world.dice.randrange(10**6)}", gpu="1/8")
        start_notebook(actor=world.ada, notebook=made, check=check_possible, containers=False)
    except PlatformError:
        pass


def _settle(world: RandomWorld) -> None:
    """What was placed runs, and has for a random while."""
    for task in Task.objects.filter(state=TaskState.ASSIGNED).select_related("job"):
        make.move(task, TaskState.RUNNING)
    for job in Job.objects.filter(state=JobState.RUNNING):
        ago = timedelta(seconds=world.dice.choice([1, 5 * MINUTE, HOUR]))
        Job.objects.filter(pk=job.pk).update(started_at=F("started_at") - ago)
        job.tasks.update(started_at=F("started_at") - ago, assigned_at=F("assigned_at") - ago)
