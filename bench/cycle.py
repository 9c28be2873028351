"""How long a full cycle takes on real PostgreSQL: from the poke to the last commit, with 10,000 jobs that wait.

bin/bench cycle [--scales 1 2 4] [--rounds 40] [--two-pools | --predictions | --array]. At scale 1: 1,000 machines of 8
cards, full, and 10,000 jobs in the queue of 20 teams. Before each round one job ends and one is submitted; then the
snapshot is loaded, the cycle runs, and what it decided and explains is committed. Also: cycles of a process that
remembers nothing yet ("first"), and cycles before which nothing changed. Prints p50 and p99 in milliseconds, and under
it the median of the processor's time: of the cycle's own process and of the database's that serves it (by Linux, where
it runs on this machine), which tell the same on a busy machine. Exits 1 where the goal at scale 1 is missed.
--two-pools: the same queue in turns with each job in one pool and in both, and how many times as long both take.
--predictions: with the lengths that people say, and with predictions from 4,000 past jobs. --array: without and with an
array of 10,000 elements, of which as many wait as may be open, and one more is made before each round; the processor's
time decides.
"""

import argparse
import os
import random
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle as forever
from itertools import pairwise
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

django.setup()

from accounts.models import Team, User  # noqa: E402
from accounts.services import add_member, create_team, create_user  # noqa: E402
from cluster.models import Gpu, HighPriority, Node, Pool  # noqa: E402
from jobs.arrays.making import make_due_elements  # noqa: E402
from jobs.arrays.models import JobArray  # noqa: E402
from jobs.arrays.services import submit_array  # noqa: E402
from jobs.jobfile.array_values import MOST_ELEMENTS  # noqa: E402
from jobs.jobfile.parse import parse_spec  # noqa: E402
from jobs.models import Job, Task  # noqa: E402
from jobs.states import JobState, TaskState  # noqa: E402
from jobs.submit import submit_job  # noqa: E402
from quotas.models import Holding, Quota, UserLimit  # noqa: E402
from scheduler import tasks  # noqa: E402
from scheduler.commit import explaining  # noqa: E402
from scheduler.commit.step_runner import run_steps  # noqa: E402
from scheduler.commit.steps import build_steps  # noqa: E402
from scheduler.core.cycle import run_cycle  # noqa: E402
from scheduler.core.model.types import Placement  # noqa: E402
from scheduler.lease import lead  # noqa: E402
from scheduler.loading import row_cache  # noqa: E402
from scheduler.loading.predicted_lengths import learn_from_past  # noqa: E402
from scheduler.loading.row_cache import read_change_mark  # noqa: E402
from scheduler.loading.snapshots import World, load_world  # noqa: E402

GOAL_P99_MS = 500
GOAL_TWO_POOLS = 1.25
GOAL_ARRAY = 1.1
TURNS = 3
NODES, WAITING, TEAMS, PEOPLE, CARDS = 1000, 10_000, 20, 10, 8
PAST = 4000
WARM_UP = 12
PARTS = ("load", "decide", "commit", "all")

Times = tuple[float, float, float]
"""Milliseconds: by the clock, of this process, of the database's process that serves it."""
Ratios = tuple[float, float]
"""How many times as long one way takes as the other: by the clock, of the processor."""

SHAPES: tuple[dict[str, Any], ...] = (
    {"gpu": "1", "time": "2h"},
    {"gpu": "2", "time": "8h"},
    {"gpu": "4", "time": "12h", "preemptible": True},
    {"gpu": "8", "time": "1d"},
    {"gpu": "8", "nodes": 4, "time": "2d", "preemptible": True},
    {"gpu": "8", "nodes": 16, "time": "3d"},
    {"gpu": "1", "preemptible": True},
    {"gpu": "2", "priority": "high", "time": "1h"},
    {"gpu": "1", "priority": "low", "time": "4h", "cpu": "8"},
    {"gpu": "1/4", "pool": "dev", "time": "4h"},
    {"gpu": "10GB", "pool": "dev"},
    {"gpu": 0, "pool": "dev", "cpu": "16", "time": "30m"},
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench cycle", description=__doc__)
    parser.add_argument("--two-pools", action="store_true")
    parser.add_argument("--predictions", action="store_true")
    parser.add_argument("--array", action="store_true")
    parser.add_argument("--scales", type=float, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    print(f"{'scale':>6} {'nodes':>6} {'waiting':>8}  {'':9}" + "".join(f"{part:>9} p50 {'p99':>6}" for part in PARTS))
    met = True
    for scale in options.scales:
        bench = Bench(scale, random.Random(options.seed))
        bench.build()
        if options.two_pools:
            met &= compare_pools(bench, options.rounds)[0] <= GOAL_TWO_POOLS or scale != 1
            continue
        if options.predictions:
            compare_predictions(bench, options.rounds)
            continue
        if options.array:
            met &= compare_array(bench, options.rounds)[1] <= GOAL_ARRAY or scale != 1
            continue
        few = max(options.rounds // 4, 3)
        changed = bench.measure(options.rounds, changing=True)
        first = bench.measure(few, changing=True, forgetting=True)
        quiet = bench.measure(few, changing=False)
        for name, rounds in (("changed", changed), ("first", first), ("nothing", quiet)):
            bench.report(name, rounds)
        met &= scale != 1 or p99([one[-1][0] for one in changed]) <= GOAL_P99_MS
    return 0 if met else 1


def compare_pools(bench: "Bench", rounds: int) -> Ratios:
    """Measure the same queue in one pool and in two, in turns, and return how many times as long two take.

    Each round tells as many jobs their new numbers: by age, as `explaining` does, it would depend on how many rounds
    fit into 15 s.
    """
    Pool.objects.update(shared=True)  # so that every job suits both
    explaining.REFRESH_REASONS_S = 0
    return compare(bench, rounds, {"one pool": lambda: bench.spread(False), "two pools": lambda: bench.spread(True)})


def compare_predictions(bench: "Bench", rounds: int) -> Ratios:
    """Measure the same queue without and with predicted lengths, in turns; return how many times as long with."""
    bench.remember()

    def switch(on: bool) -> Callable[[], None]:
        return lambda: setattr(settings, "TESSERA_PREDICT_LENGTHS", on)

    return compare(bench, rounds, {"said": switch(False), "predicted": switch(True)})


def compare_array(bench: "Bench", rounds: int) -> Ratios:
    """Measure the same queue without and with a long array, in turns; return how many times as long with."""
    return compare(bench, rounds, {"no array": bench.end_array, "an array": bench.begin_array})


def compare(bench: "Bench", rounds: int, ways: dict[str, Callable[[], None]]) -> Ratios:
    """Measure two ways in turns, and return how many times as long the second takes. ways: {name: begins it}."""
    ratios: list[tuple[float, float]] = []
    for turn in range(TURNS):
        found = []
        for name, begin in ways.items():
            begin()
            found.append(bench.measure(max(rounds // TURNS, 3), changing=True))
            bench.report(name, found[-1])
        one, two = ([statistics.median(times[-1][part] for times in each) for part in (0, 1)] for each in found)
        ratios.append((two[0] / one[0], two[1] / one[1]))
        print(f"{'':24}turn {turn + 1}: {ratios[-1][0]:.2f} by the clock, {ratios[-1][1]:.2f} of its processor")
    by_clock, of_processor = ([ratio[part] for ratio in ratios] for part in (0, 1))
    told = " to ".join(reversed(ways))
    print(f"{'':24}{told}: {spread_text(by_clock)} by the clock, {spread_text(of_processor)} of processor")
    return statistics.median(by_clock), statistics.median(of_processor)


def spread_text(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


@dataclass
class Model:
    """A job as it was submitted once, to be copied."""

    job: Job
    tasks: list[Task]
    people: list[User]


class Bench:
    def __init__(self, scale: float, dice: random.Random):
        self.nodes, self.waiting, self.scale, self.dice = round(NODES * scale), round(WAITING * scale), scale, dice
        self.models: list[Model] = []
        self.array: JobArray | None = None

    def build(self) -> None:
        """Rows as the services make them, but in bulk: a few jobs are submitted by the book and then copied."""
        clear()
        for name in ("train", "dev"):
            Pool.objects.get_or_create(name=name)
        Pool.objects.update(high_priority=HighPriority.FREE, batch_is_preemptible=False)
        Pool.objects.filter(name="dev").update(shared=True)
        pools = {pool.name: pool for pool in Pool.objects.all()}
        build_machines(self.nodes, pools)
        self.models = build_models(pools, self.dice)
        Quota.objects.filter(pool=pools["train"]).update(
            gpu_milli_guarantee=int(1000 * CARDS * self.nodes * 0.8 * 0.6 / TEAMS)
        )
        while (missing := self.waiting - Job.objects.waiting().count()) > 0:
            self.submit(missing)
            world = load_world()
            run_in_bulk(world, run_cycle(world.snapshot, world.policy, time.time()).starts)

    def submit(self, count: int) -> None:
        chosen = self.dice.choices(self.models, k=count)
        owners = [self.dice.choice(model.people) for model in chosen]
        rows = [copy_of(model.job, user=owner) for model, owner in zip(chosen, owners, strict=True)]
        jobs = Job.objects.bulk_create(rows, batch_size=2000)
        copies = [copy_of(task, job=job) for model, job in zip(chosen, jobs, strict=True) for task in model.tasks]
        Task.objects.bulk_create(copies, batch_size=2000)

    def remember(self) -> None:
        """Learn from past jobs: of each shape of each team, whose lengths differ from person to person."""
        now, past = timezone.now(), []
        for number in range(PAST):
            model = self.models[number % len(self.models)]
            owner = self.dice.choice(model.people)
            job = copy_of(model.job, user=owner)
            job.state, job.ended_at = JobState.SUCCEEDED, now - timedelta(minutes=PAST - number)
            job.started_at = job.ended_at - timedelta(seconds=self.dice.lognormvariate(7 + owner.pk % 5, 0.3))
            past.append(job)
        Job.objects.bulk_create(past, batch_size=2000)
        learn_from_past()

    def spread(self, wide: bool) -> None:
        """Let every job wait in both pools, or in its own only. What this writes is cleared away before a round."""
        pools = list(Pool.objects.order_by("-name"))
        for model in self.models:
            job = model.job
            asked = [{"pool": pool.pk, "name": pool.name, "gang": job.gang, "max_time_s": None} for pool in pools]
            asked.sort(key=lambda choice: choice["pool"] != job.pool_id)
            job.choices = asked if wide else []
            alike = Job.objects.waiting().filter(team=job.team_id, pool=job.pool_id, gang=job.gang)
            alike.update(choices=job.choices, wait_places=[])
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")

    def begin_array(self) -> None:
        spec = parse_spec({"run": "true", "team": "team0", "pool": "train", "gpu": "1", "array": MOST_ELEMENTS})
        owner = self.models[0].people[0]
        self.array = submit_array(user=owner, spec=spec, check=lambda draft: None, containers=True)
        while make_due_elements(lambda draft: None, True):
            pass

    def end_array(self) -> None:
        if self.array is not None:
            Holding.objects.filter(task__in=Task.objects.filter(job__array=self.array).values("uuid")).delete()
            Job.objects.filter(array=self.array).delete()
            self.array.delete()
        self.array = None

    def change(self) -> None:
        """One job ends, another comes; of an array, too."""
        if self.array is not None:
            done = Job.objects.waiting().filter(array=self.array).order_by("pk")[:1]
            Job.objects.filter(pk__in=done.values("pk")).update(state=JobState.SUCCEEDED, ended_at=Now())
            make_due_elements(lambda draft: None, True)
        ending = self.dice.choice(Job.objects.filter(state=JobState.RUNNING).values_list("pk", flat=True))
        Holding.objects.filter(task__in=Task.objects.filter(job=ending).values("uuid")).release()
        Task.objects.filter(job=ending).update(state=TaskState.SUCCEEDED, ended_at=Now())
        Job.objects.filter(pk=ending).update(state=JobState.SUCCEEDED, ended_at=Now())
        self.submit(1)

    def measure(self, rounds: int, changing: bool, forgetting: bool = False) -> list[tuple[Times, ...]]:
        """[round] the times of each of PARTS. Before come rounds that explain everybody for the first time."""
        measured = []
        for number in range(-round(WARM_UP * max(self.scale, 1.0)), rounds):
            if changing and number >= 0:
                self.change()
            if forgetting and number >= 0:
                row_cache.clear_cache()
            with lead("cycle") as epoch:
                assert epoch is not None, "somebody else leads"
                measured.append(one_round(epoch) if changing else one_poke(epoch))
        return measured[-rounds:]

    def report(self, name: str, rounds: list[tuple[Times, ...]]) -> None:
        parts = list(zip(*rounds, strict=True))
        clock = [[times[0] for times in part] for part in parts]
        figures = "".join(f"{statistics.median(part):13.0f} {p99(part):6.0f}" for part in clock)
        print(f"{self.scale:6} {self.nodes:6} {self.waiting:8}  {name:9}{figures:>{20 * len(PARTS)}}", flush=True)
        used = [
            " + ".join(f"{statistics.median(times):.0f}" for times in list(zip(*part, strict=True))[1:])
            for part in parts
        ]
        figures = "".join(f"{text:>20}" for text in used)
        print(f"{'':24}processor{figures:>{20 * len(PARTS)}}", flush=True)


def one_round(epoch: int) -> tuple[Times, ...]:
    """The steps of `tasks.full_cycle`, each timed."""
    moments = [now_ms()]
    with tasks.without_collector(), row_cache.caching(read_change_mark()):
        world = load_world()
        moments.append(now_ms())
        plan = run_cycle(world.snapshot, world.policy, time.time(), world.cycle_memo)
        moments.append(now_ms())
        run_steps(build_steps(plan, world), epoch)
    moments.append(now_ms())
    return (*(between(a, b) for a, b in pairwise(moments)), between(moments[0], moments[-1]))


def one_poke(epoch: int) -> tuple[Times, ...]:
    """Only the whole can be told: where nothing changed, it looks and rests."""
    began = now_ms()
    tasks.one_cycle(epoch)
    return (between(began, now_ms()),)


def now_ms() -> Times:
    return 1000 * time.perf_counter(), 1000 * time.process_time(), database_ms()


def between(began: Times, ended: Times) -> Times:
    clock, own, database = (b - a for a, b in zip(began, ended, strict=True))
    return clock, own, database


def database_ms() -> float:
    """https://docs.kernel.org/scheduler/sched-stats.html: the first number of /proc/<pid>/schedstat is in ns."""
    path = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
    return int(path.read_text().split()[0]) / 1e6 if path.exists() else 0.0


def p99(values) -> float:
    return sorted(values)[max(round(0.99 * len(values)) - 1, 0)]


def clear() -> None:
    for model in (Holding, Task, Job, Quota, Gpu, Node):
        model.objects.all().delete()


def build_machines(count: int, pools: dict[str, Pool]) -> None:
    """Four of five for training, the fifth for development; 8 cards with all links of an HGX board."""
    links = [["X" if a == b else "NV18" for b in range(CARDS)] for a in range(CARDS)]
    numa = [{"id": n, "cpus": [*range(96 * n, 96 * n + 96)], "memory_mib": 1 << 20, "socket": n} for n in range(2)]
    homes = forever((pools["train"],) * 4 + (pools["dev"],))
    nodes = Node.objects.bulk_create(
        Node(name=f"n{n}", pool=pool, cpu_milli=192_000, memory_mib=1 << 21, numa=numa, topology={"links": links})
        for n, pool in zip(range(count), homes, strict=False)
    )
    facts = {"model": "H100", "product": "NVIDIA H100 80GB HBM3", "memory_mib": 81_559, "enforcement": "simulated"}
    Gpu.objects.bulk_create(
        (
            Gpu(uuid=f"GPU-{node.name}-{n}", node=node, pool=node.pool, index=n, numa=n // 4, simulated=True, **facts)
            for node in nodes
            for n in range(CARDS)
        ),
        batch_size=4000,
    )


def build_models(pools: dict[str, Pool], dice: random.Random, teams: int = TEAMS, people: int = PEOPLE) -> list[Model]:
    UserLimit.objects.filter(user=None).update(**dict.fromkeys(UserLimit.FIELDS))
    models = []
    for name in (f"team{number}" for number in range(teams)):
        team = Team.objects.filter(name=name).first() or create_team(name=name)
        Quota.objects.bulk_create(Quota(team=team, pool=pool) for pool in pools.values())
        members = list(User.objects.filter(memberships__team=team)) or build_people(team, people)
        for shape in dice.sample(SHAPES, 4):
            spec = parse_spec({"run": "true", "team": name, "pool": "train", **shape})
            job = submit_job(user=members[0], spec=spec, check=lambda draft: None, containers=True)
            models.append(Model(Job.objects.get(pk=job.pk), list(job.newest_tasks), members))
    return models


def build_people(team: Team, count: int) -> list[User]:
    people = [create_user(username=f"{team.name}-{number}", password=None) for number in range(count)]
    for person in people:
        add_member(user=person, team=team, role="member")
    return people


def copy_of(row, **other):
    """A new row like this one, with a uuid of its own."""
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return type(row)(**{**values, "id": None, "uuid": uuid.uuid4()} | {k + "_id": v.pk for k, v in other.items()})


def run_in_bulk(world: World, starts: list[Placement]) -> None:
    """As if these had been started some while ago."""
    jobs = {job.pk: job for job in Job.objects.waiting().filter(pk__in=[start.job for start in starts])}
    rows = {(task.job_id, task.rank): task for task in Task.objects.filter(job__in=jobs)}
    holdings = []
    for start in starts:
        job = jobs[start.job]
        for place in start.tasks:
            task = rows[job.pk, place.rank]
            whose = {"task": task.uuid, "team_id": job.team_id, "user_id": job.user_id, "pool_id": job.pool_id}
            whose["node_id"] = world.nodes[place.node].pk
            holdings.append(Holding(**whose, cpu_milli=place.cpu_milli, memory_mib=place.memory_mib))
            for card in place.cards:
                share = {"gpu_memory_mib": card.memory_mib, "gpu_compute_percent": card.compute_percent}
                gpu = world.gpus[card.gpu].pk
                holdings.append(Holding(**whose, gpu_id=gpu, gpu_milli=card.milli, **share))
    Holding.objects.bulk_create(holdings, batch_size=4000)
    Task.objects.filter(job__in=jobs).update(state=TaskState.RUNNING, started_at=Now())
    Job.objects.filter(pk__in=jobs).update(state=JobState.RUNNING, started_at=Now())


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.exit(main())
