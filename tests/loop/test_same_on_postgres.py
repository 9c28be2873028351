"""The model is believed because it does as PostgreSQL does: random lists of steps leave the same rows in both.

Each list is drawn from a seed and run by the product's code twice, on the server and on the model; what every step
answered, every row that is left and what the loops read of them must be equal. Times and made-up numbers are left out.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from operator import attrgetter
from random import Random
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from accounts.models import Membership, Team, User
from cluster.models import Gpu, Node, NodeState, Pool
from common.errors import PlatformError
from events import transitions
from events.models import Event, Notice
from events.record_and_publish import SYSTEM
from jobs import control
from jobs.models import Job, Task
from jobs.states import TaskState
from quotas.models import Holding, Quota, UserLimit
from runtimes.contract.container import ContainerView, GpuUse
from scheduler import lease
from scheduler.commit import explaining, starting, step_runner
from scheduler.commit.steps import CardShare, ExplainJobs, StartJob, StopJob, TaskStart
from scheduler.core.model.types import Refusal
from scheduler.loading import holdings, running_jobs, snapshots
from scheduler.models import Lease
from scheduler.reconcile import compare, observations
from tests import make
from tests.loop.bugs import BUGS_OF_THE_MODEL
from tests.loop.connection import install
from tests.loop.database import Database
from tests.loop.mutants import plant
from tests.whole import part_of

LISTS, OF = 10, part_of(100, 5)
LISTS_AT_MOST = 100
"""Until one finds a planted bug: most do not come by it (one in fourteen by the rarest, of 200)."""
STEPS = 12
MODELS = (Node, Gpu, Quota, UserLimit, Job, Task, Holding, Event, Notice, Lease)
READ_ONLY = (Membership,)
T = TaskState
ENDS = (
    (T.STARTING, ""), (T.RUNNING, ""), (T.RUNNING, ""), (T.LOST, ""), (T.STOPPING, "stopped_by_user"),
    (T.SUCCEEDED, "completed"), (T.FAILED, "exit_nonzero"), (T.FAILED, "container_lost"), (T.STOPPED, "preempted"),
    (T.STOPPED, "gang_broken"),
)  # fmt: skip
CARDS = ((8127, 25, 250), (16_255, 50, 500), (32_511, 100, 1000))
"""(MiB, percent, thousandths) of a slice."""


@dataclass
class Side:
    """rows: all rows of a model as dicts. write: {columns} of one row, by its id."""

    rows: Callable[[Any], list[dict]]
    write: Callable[[Any, int, dict], object]
    said: list[str] = field(default_factory=list)

    def task(self, job: int, rank: int) -> dict:
        return max((row for row in self.rows(Task) if (row["job_id"], row["rank"]) == (job, rank)), key=by_attempt)

    def epoch(self, name: str, good: bool) -> int:
        return next(row["epoch"] for row in self.rows(Lease) if row["name"] == name) - (0 if good else 1)


def by_attempt(row: dict) -> int:
    return row["attempt"]


# steps, as values; each is run on both sides


def draw(dice: Random, jobs: list[Job], gpus: list[Gpu]) -> tuple:
    """One step: (what, ...)."""
    job = dice.choice(jobs)
    rank, good = dice.randrange(job.least), dice.random() < 0.9
    steps: list[tuple] = [
        *[("start", draw_start(dice, job, gpus), good)] * 4,
        ("evict", job.pk, dice.choice(["preempted", "reclaimed"]), dice.choice(jobs).pk, good),
        *[("see", job.pk, rank, *dice.choice(ENDS), dice.choice([None, 0, 1]), good)] * 6,
        ("save", job.pk, rank),
        ("explain", job.pk, dice.choice(["no_fit_now", "held", "team_limit"]), dice.randint(1, 3)),
        *[(what, job.pk) for what in ("stop", "hold", "release", "retry")],
        ("quota", dice.randint(0, 3), dice.choice([None, 0, 500, 2000])),
        ("node", dice.randint(0, 1), dice.choice([NodeState.READY, NodeState.CORDONED])),
        ("take", dice.choice(["cycle", "reconcile"])),
        ("give up", dice.choice(["cycle", "reconcile"]), good),
    ]
    return dice.choice(steps)


def draw_start(dice: Random, job: Job, gpus: list[Gpu]) -> StartJob:
    """Somewhere, whether it fits or not."""
    places = []
    for rank in range(job.least + (dice.random() < 0.05)):
        gpu, (mib, percent, milli) = dice.choice(gpus), dice.choice(CARDS)
        cards = (CardShare(gpu.pk, mib, percent, milli),) if dice.random() < 0.9 else ()
        request = job.request
        asked, role = (request["cpu_milli"], request["memory_mib"]), job.gang[-1]["role"]
        places.append(TaskStart(rank, gpu.node_id, cards, *asked, role=role))
    return StartJob(job.pk, tuple(places))


def perform(side: Side, step: tuple) -> None:
    """What it says when it goes wrong is kept, too."""
    what, *how = step
    try:
        said = str(PERFORM[what](side, *how))
    except PlatformError as error:
        said = f"{type(error).__name__} {error.params}"
    except transitions.IllegalTransition:
        said = "illegal"
    side.said.append(f"{what}: {re.sub('[0-9]{13}', 'a term', said)}")


def see(side: Side, job: int, rank: int, state: str, reason: str, code: int | None, good: bool) -> None:
    uuid = side.task(job, rank)["uuid"].hex
    view = ContainerView(uuid, "n1", "exited", exit_code=code, detail="words", peak_memory_mib=7)
    observations.record_observation(compare.TaskObserved(uuid, job, state, reason, view), side.epoch("reconcile", good))


def save(side: Side, job: int, rank: int) -> None:
    uuid = side.task(job, rank)["uuid"].hex
    use, coming = GpuUse("GPU-a", 100, 10, 20, 1), compare.StartProgress(detail="says no")
    step = compare.TaskProgress(uuid, datetime(2026, 1, 1, tzinfo=UTC), (use,), coming)
    observations.record_progress(step, side.epoch("reconcile", True))


def explain(side: Side, job: int, code: str, position: int) -> None:
    step = ExplainJobs({job: [Refusal(code, {"n": position})]}, {job: (position, 3)})
    explaining.explain_jobs(step, side.epoch("cycle", True))


def by_owner(act: str) -> Callable[[Side, int], None]:
    def run(side: Side, pk: int) -> None:
        job = Job.objects.get(pk=pk)
        getattr(control, act)(actor=job.user, job=job)

    return run


def move_node(side: Side, place: int, wanted: str) -> None:
    with transaction.atomic():
        pk = sorted(row["id"] for row in side.rows(Node))[place]
        node = starting.lock_nodes([pk])[pk]
        if node.state != wanted:
            transitions.advance([transitions.Move(node)], wanted, actor=SYSTEM)


PERFORM: dict[str, Callable[..., object]] = {
    "start": lambda side, step, good: starting.start_jobs([step], side.epoch("cycle", good)),
    "evict": lambda side, job, reason, to, good: step_runner.stop_job(
        StopJob(job, reason, to), side.epoch("cycle", good)
    ),
    "see": see,
    "save": save,
    "explain": explain,
    "stop": by_owner("stop_job"),
    "hold": by_owner("hold_job"),
    "release": by_owner("release_job"),
    "retry": by_owner("retry_job"),
    "quota": lambda side, place, limit: side.write(
        Quota, sorted(row["id"] for row in side.rows(Quota))[place], {"gpu_milli_limit": limit}
    ),
    "node": move_node,
    "take": lambda side, name: lease.acquire(name) is not None,
    "give up": lambda side, name, good: lease.release(name, side.epoch(name, good)),
}


# what is left


def left(side: Side) -> dict[str, Any]:
    """All rows, and what the loops read of them, without times and made-up numbers."""
    names = {row["id"]: (row["job_id"], row["rank"], row["attempt"]) for row in side.rows(Task)}
    by_uuid = {row["uuid"]: names[row["id"]] for row in side.rows(Task)}
    found: dict[str, Any] = {}
    for model in MODELS:
        lines = []
        for row in side.rows(model):
            line = {key: plain(value, by_uuid) for key, value in row.items() if key not in LEFT_OUT}
            if model is Event:
                pk = row["object_id"]
                line["object_id"] = names[pk] if row["kind"] == "task" else pk
            lines.append(repr(sorted(line.items())))
        found[model.__name__] = sorted(lines)
    reads: dict[str, Any] = {
        "rows": compare.load_rows(),
        "queue": snapshots.load_queue(),
        "nodes": snapshots.load_nodes(),
        "gpus": snapshots.load_gpus(),
        "active": sorted(snapshots.load_active().items()),
        "holders": sorted(running_jobs.load_running_tasks(), key=attrgetter("job", "rank")),
    }
    held = holdings.load_holdings()
    reads["holdings"] = sorted(
        ((UUID(row.task), numbers) for row, numbers in zip(held.rows, held.columns.tolist(), strict=True)),
        key=lambda line: repr((by_uuid[line[0]], line[1:])),
    )
    found |= {name: [repr(plain(line, by_uuid)) for line in lines] for name, lines in reads.items()}
    found["rows"] = sorted(found["rows"])  # in no order that anybody counts on
    return found | {"said": side.said}


LEFT_OUT = {"id", "uuid", "_version", "holder", "epoch", "last_ms", "last_ok_at"}


def plain(value: Any, by_uuid: dict[UUID, tuple]) -> Any:
    """Moments are there or not; a task is its place in its job."""
    if isinstance(value, datetime):
        return "then"
    if isinstance(value, UUID):
        return by_uuid.get(value, "a uuid")
    if isinstance(value, compare.TaskRow):
        saved = value.checkpointed_at is not None
        return by_uuid[UUID(value.uuid)], str(value.state), value.stop, saved, value.gpu_use, value.start_progress
    if isinstance(value, float) and value > 1e9:
        return "then"
    if isinstance(value, str) and len(value) == 36 and value.count("-") == 4:
        return by_uuid.get(UUID(value), "a uuid")
    if isinstance(value, list | tuple):
        return [plain(one, by_uuid) for one in value]
    if isinstance(value, dict):
        return sorted((key, plain(one, by_uuid)) for key, one in value.items())
    return str(value) if isinstance(value, str) else value


# the two sides


@contextmanager
def on_postgres() -> Iterator[Side]:
    """Whatever is done is undone."""
    with transaction.atomic():
        yield Side(lambda model: list(model.objects.order_by("pk").values()), write_row)
        transaction.set_rollback(True)


def write_row(model: Any, pk: int, columns: dict) -> None:
    model.objects.filter(pk=pk).update(**columns)


@contextmanager
def on_the_model(base: dict[Any, list[dict]], fixed: list[Any], dice: Random) -> Iterator[Side]:
    database = Database()
    database.fix(*fixed)
    for model, rows in base.items():
        for row in rows:
            database.insert(model, row)
        database.begin_at(model, 1_000_000)
    with pytest.MonkeyPatch.context() as patch:
        install(patch, database, dice)
        yield Side(lambda model: database.rows(model), lambda model, pk, columns: database.put(model, pk, columns))


def build_base() -> list[Job]:
    org, bio = make.team("org"), make.team("bio")
    nlp = make.team("nlp", parent=org)
    dev, train = make.pool("dev", shared=True), make.pool("train")
    for name in ("n1", "n2"):
        node = make.node(name, pool=dev)
        for pool in (dev, dev, train):
            make.gpu(node, pool=pool)
    for team, limit in ((org, 2000), (nlp, 1500), (bio, None)):
        make.quota(team, dev, gpu_milli_limit=limit)
    make.quota(nlp, train)
    ada, bob = make.user("ada", nlp), make.user("bob", bio)
    again = {"times": 1, "when": ["exit_nonzero", "container_lost"]}
    small = {"memory": "1GiB", "cpu": "500m"}
    head, worker = {"run": "true", "ends_job": "all"}, {"run": "true", "gpu": "1/4", "count": 2}
    jobs = [
        make.job(ada, pool="dev", retry=again, roles={"head": head | small, "worker": worker | small}),
        make.job(ada, gpu="1/4", pool="dev", retry=again, **small),
        make.job(ada, gpu="1/2", pool="dev", nodes=2, retry=again, **small),
        make.job(bob, gpu="1", pool="dev", preemptible=True, priority="low", **small),
        make.job(bob, gpu="1/4", pool="dev", nodes=3, **small),
        make.job(ada, gpu="1", pool="train", **small),
    ]
    make.limit(ada, gpu_milli=3000, jobs_running=3)
    for number, name in enumerate(("cycle", "reconcile")):
        Lease.objects.create(name=name, epoch=5 + number)
    return jobs


class Pair:
    """The same base on both sides."""

    def __init__(self) -> None:
        self.jobs = build_base()
        self.gpus = list(Gpu.objects.order_by("pk"))
        self.base = {model: list(model.objects.order_by("pk").values()) for model in (*READ_ONLY, *MODELS)}
        self.fixed = [row for model in (Pool, Team, User) for row in model.objects.order_by("pk")]
        self.worked = 0

    def difference(self, name: str) -> str:
        """What the list of this name leaves different, "" for nothing."""
        dice = Random(name)
        steps = [draw(dice, self.jobs, self.gpus) for _ in range(STEPS)]
        results = []
        for place in (on_postgres(), on_the_model(self.base, self.fixed, dice)):
            with place as side:
                for step in steps:
                    perform(side, step)
                results.append(left(side))
        real, model = results
        self.worked += sum(said.endswith("None") for said in real["said"])
        for what in real:
            for one, other in zip_longest(real[what], model[what]):
                if one != other:
                    return f"list {name}: {what}\nreal  {one}\nmodel {other}\n{steps}"
        return ""


@pytest.mark.django_db
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", [pytest.param(n, marks=[pytest.mark.slow] if n else []) for n in range(OF)])
def test_a_random_list_of_steps_leaves_the_same_on_the_model_and_on_postgresql(part):
    pair = Pair()
    for number in range(LISTS):
        assert not (found := pair.difference(f"{part}.{number}")), found
    assert pair.worked > LISTS * STEPS / 4, "most steps changed nothing: this test proves little"


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", BUGS_OF_THE_MODEL, ids=lambda bug: bug.name)
def test_a_bug_in_the_model_is_found(bug, monkeypatch):
    plant(monkeypatch, bug)
    pair = Pair()
    assert any(_finds(pair, f"bug.{number}") for number in range(LISTS_AT_MOST))


def _finds(pair: Pair, seed: str) -> bool:
    try:
        return bool(pair.difference(seed))
    except IndexError:  # of a row that the model did not lock
        return True
