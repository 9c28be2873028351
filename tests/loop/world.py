"""A small cluster, its people, their acts and its bad luck, all drawn from one seed.

run(seed)  plays one life: some hundred acts, then the faults stop, and everything that can end must end.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from django.db import transaction
from loop.answers import Answers, install
from loop.database import ConnectionLost, Database
from loop.engine import Engine
from loop.processes import Process
from loop.promises import SAME_EVICTION, Promises

from accounts.models import Team, User
from cluster.models import Gpu, Node, NodeState, Pool
from events import bus, transitions
from events.bus import SYSTEM, Actor
from jobs import control, lifecycle
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.spec import to_json
from jobs.models import Job
from jobs.states import JOB_FINAL, JobState
from quotas.models import Holding, Quota, UserLimit
from runtimes.base import NodeView
from scheduler import inventory, memory, snapshots, tasks
from scheduler.core.possible import could_ever_run

ACTS = 600
ROUNDS, ROUND_S = 150, 3.0
"""So many rounds everything has to end in, once the faults stop."""
V100 = {"model": "V100-32GB", "product": "Tesla V100-SXM2-32GB", "memory_mib": 32_768, "reserved_mib": 257}
MOST_WORKERS = 3
MOST_OPEN = 12
"""So many jobs wait or run at once at most, so that a run does not drown."""


class Broken(AssertionError):
    """A promise was broken; says how, and how to see it again."""


class World:
    """life: what the seed draws. trace: what happened, newest last."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch, acts: int = ACTS) -> None:
        self.seed, self.acts, self.dice = seed, acts, Random(seed)
        self.db = Database()
        self.answers = Answers(self.db, self.dice, bell=self.hear)
        self.workers: list[Process] = []
        self.asleep: dict[Process, float] = {}
        self.trace: list[str] = []
        self.rung: set[str] = set()
        self.rests: list[Any] = []  # what the workers that idle remember of their last cycle
        self.commits = self.events = 0
        build_cluster(self.db, self.dice)
        self.engine = Engine(self.db, [view_of(node) for node in self.rows(Node)], self.dice)
        parents = {team.pk: team.parent_id for team in self.db.all_fixed(Team)}
        self.promises = Promises(self.db, self.engine, parents)
        self.db.observers.append(self.note_commit)
        install(patch, self.answers)
        patch.setattr(tasks, "the_runtime", lambda: self.engine)
        patch.setattr(tasks, "_rest", None)
        patch.setattr(memory, "_last", None)
        self.calm = self.dice.random() < 0.15
        self.rush = self.dice.choice([0.0, 0.2, 0.5])  # how often others come in between the statements of one
        self.luck = 0.0 if self.calm else self.dice.choice([0.3, 1.0, 2.0])
        self.engine.away = self.engine.unheard = 0.02 * self.luck

    @property
    def steps(self) -> int:
        """Transactions that were committed, and calls to the runtime."""
        return self.commits + self.engine.calls

    # one life

    def live(self) -> "World":
        for _ in range(self.acts):
            self.act()
        self.end_well()
        return self

    def act(self) -> None:
        kind = self.dice.choices(ACTS_OF_LIFE, weights=self.weights())[0]
        kind(self)
        self.events += 1
        self.check()

    def weights(self) -> list[float]:
        pairs = zip(ACTS_OF_LIFE, WEIGHTS, strict=True)
        return [weight * (self.luck if act in BAD_LUCK else 1.0) for act, weight in pairs]

    def end_well(self) -> None:
        """The faults stop: in some rounds every feasible job is over, and nothing of it is left."""
        self.heal()
        for _ in range(ROUNDS):
            self.db.clock += ROUND_S
            for name in ("cycle", "reconcile"):
                self.spawn(name)
            while running := [worker for worker in self.workers if worker.runnable]:
                self.resume(running[0], 10_000)
            if self.workers:
                raise self.broken("workers wait for one another for ever")
            self.check()
            if all(job["state"] in JOB_FINAL for job in self.rows(Job)) and not self.engine.kept():
                break
        open_jobs = [f"job {job['id']} {job['state']} {job['wait_reasons']}" for job in self.open_jobs()]
        if open_jobs:
            raise self.broken(f"not over after {ROUNDS} rounds: {'; '.join(open_jobs[:3])}")
        if self.engine.kept():
            raise self.broken(f"left in the runtime: {self.engine.kept()[:3]}")
        if any(row["released_at"] is None for row in self.rows(Holding)):
            raise self.broken("something is held and nobody runs")

    def heal(self) -> None:
        self.log("the faults stop")
        self.engine.away = self.engine.unheard = 0.0
        self.engine.cut.clear()
        self.asleep.clear()
        for worker in self.workers:
            worker.trouble = None
        while running := [worker for worker in self.workers if worker.runnable]:
            self.resume(running[0], 10_000)
        self.db.update(Quota, lambda row: True, {"gpu_milli_limit": None, "gpu_milli_guarantee": 0})
        self.db.update(UserLimit, lambda row: row["user_id"] is not None, {"gpu_milli": None, "jobs_running": None})
        self.db.update(Gpu, lambda row: True, {"healthy": True})
        for node in self.rows(Node):
            move_node(self, node["id"], NodeState.READY)
        for job in self.open_jobs():
            control.release_job(actor=self.person(job["user_id"]), job=self.job(job["id"]))
            if "infinity" in job["spec"]["run"]:
                self.end(job["id"])
        seen = snapshots.load_world().snapshot
        for waiting in seen.waiting:
            if could_ever_run(seen, waiting):
                self.end(waiting.job)

    def end(self, pk: int) -> None:
        control.end_job(by=SYSTEM, job=self.job(pk), reason="stopped_by_user")

    # processes

    def spawn(self, name: str, body: Callable[[], object] | None = None) -> Process:
        bodies = {"cycle": tasks.cycle.run, "reconcile": tasks.reconcile.run}
        self.rung.discard(name)
        worker = Process(self.db, f"{name}-{self.events}", body or bodies[name])
        worker.rest = self.rests.pop() if name == "cycle" and self.rests else None  # type: ignore[attr-defined]
        self.workers.append(worker)
        return worker

    def resume(self, worker: Process, pauses: int) -> None:
        tasks._rest, memory._last = worker.rest or (None, None)  # type: ignore[attr-defined]
        worker.run(pauses)
        worker.rest = tasks._rest, memory._last  # type: ignore[attr-defined]
        if worker.done:
            self.workers.remove(worker)
            if worker.name.startswith("cycle"):
                self.rests.append(worker.rest)  # type: ignore[attr-defined]
            if worker.crash is not None and not is_luck(worker.crash):
                raise self.broken(f"{worker.name}: {type(worker.crash).__name__}: {worker.crash}") from worker.crash
        self.promises.look_at_runtime()
        self.untangle()

    def untangle(self) -> None:
        """Two that wait for each other: PostgreSQL would end one of them. The order of locks forbids it."""
        waiting = [worker for worker in self.workers if worker.waits is not None]
        for worker in waiting:
            seen, front = set(), [worker]
            while front:
                one = front.pop()
                for other in waiting:
                    if other.transaction is not None and one.waits is not None and other.transaction in one.waits():
                        if other is worker:
                            raise self.broken(f"deadlock: {worker.name} and {one.name}")
                        if other not in seen:
                            seen.add(other)
                            front.append(other)

    # what the tests and the acts ask

    def rows(self, model: Any) -> list[dict]:
        return self.db.rows(model)

    def open_jobs(self) -> list[dict]:
        return [job for job in self.rows(Job) if job["state"] not in JOB_FINAL]

    def job(self, pk: int) -> Job:
        return self.answers.load_job(pk)

    def person(self, pk: int) -> User:
        return self.db.static[User, pk]  # type: ignore[return-value]

    def hear(self, name: str) -> None:
        self.rung.add(name)

    def note_commit(self, one: Any, before: dict) -> None:
        self.commits += 1
        who = self.db.process.name if self.db.process is not None else "the world"
        for (model, pk), row in one.writes.items():
            if row is not None and "state" in row and before.get((model, pk), {}) is not None:
                was = (before.get((model, pk)) or {}).get("state")
                if was != row["state"]:
                    self.log(f"{who}: {model.__name__.lower()} {pk} {was} to {row['state']} {row.get('reason', '')}")

    def log(self, words: str) -> None:
        self.trace.append(f"{self.events:5} {self.db.clock:9.3f} s  {words}")

    def check(self) -> None:
        if self.promises.broken:
            raise self.broken("; ".join(self.promises.broken[:3]))
        often = [pair for pair, count in self.promises.evictions.items() if count > SAME_EVICTION * 8]
        if often:
            raise self.broken(f"stopped again and again: {often}")

    def broken(self, words: str) -> Broken:
        last = "\n".join(self.trace[-60:])
        again = f"python -m loop.replay {self.seed} --acts {self.acts}"
        return Broken(f"seed {self.seed}, act {self.events}: {words}\nAgain, with every step: {again}\n{last}")


def is_luck(error: BaseException) -> bool:
    return isinstance(error, ConnectionLost)


@contextmanager
def life(seed: int, acts: int = ACTS) -> Iterator[World]:
    """A world whose product runs on the model until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        world = World(seed, patch, acts)
        try:
            yield world
        finally:
            for worker in list(world.workers):
                worker.kill()


def run(seed: int, acts: int = ACTS) -> World:
    """One life. Raises Broken."""
    with life(seed, acts) as world:
        return world.live()


# the cluster


def build_cluster(db: Database, dice: Random) -> None:
    """Two pools, some nodes, teams in two levels, three people, quotas and limits."""
    pools = [fixed(Pool, 1, name="dev", shared=True, cpu_overcommit_percent=200), fixed(Pool, 2, name="train")]
    org = fixed(Team, 1, name="org", gid=2000)
    teams = [fixed(Team, pk, name=name, gid=2000 + pk, parent=org) for pk, name in ((2, "nlp"), (3, "vision"))]
    lone = fixed(Team, 4, name="bio", gid=2004)
    people = [fixed(User, pk, username=name, uid=3000 + pk) for pk, name in ((1, "ada"), (2, "bob"), (3, "eve"))]
    db.fix(*pools, org, *teams, lone, *people)
    for number in range(1, dice.randint(2, 4)):
        size = {"cpu_milli": dice.choice([8000, 16_000]), "memory_mib": 65_536, "address": "127.0.0.1"}
        node = db.insert(Node, {"name": f"n{number}", "pool_id": dice.choice([1, 2]), **size, "boot_id": "first"})
        for index in range(dice.choice([1, 2, 2, 4])):
            card = {"uuid": f"GPU-n{number}-{index}", "index": index, "simulated": True, "enforcement": "simulated"}
            db.insert(Gpu, {"node_id": node["id"], "pool_id": dice.choice([1, 2]), **card, **V100})
    for team in (org, *teams, lone):
        for pool in pools:
            limit = dice.choice([None, None, 1000, 2000, 4000])
            guarantee = min(dice.choice([0, 0, 1000, 2000]), limit or 2000) if team is not org else 0
            amounts = {"gpu_milli_limit": limit, "gpu_milli_guarantee": guarantee}
            db.insert(Quota, {"team_id": team.pk, "pool_id": pool.pk, **amounts})
    db.insert(UserLimit, {"user_id": None, "jobs_running": dice.choice([3, 100]), "jobs_waiting": 1000})


def fixed(model: Any, pk: int, **fields: Any) -> Any:
    return model(pk=pk, **fields)


def view_of(node: dict) -> NodeView:
    return NodeView(node["name"], "127.0.0.1", "first", node["cpu_milli"], node["memory_mib"], (), (), ())


# what happens; each act draws its own details


def go_on(world: World) -> None:
    """One of the processes runs some statements further."""
    able = [w for w in world.workers if w.runnable and world.asleep.get(w, 0.0) <= world.db.clock]
    if able:
        worker = world.dice.choice(able)
        world.resume(worker, world.dice.choice([0, 1, 2, 3, 5, 10, 20, 50, 400]))
        if not worker.done and worker.transaction is not None and world.dice.random() < world.rush:
            interrupt(world)
    else:
        tick(world)


def ring_cycle(world: World) -> None:
    ring(world, "cycle")


def ring_reconcile(world: World) -> None:
    ring(world, "reconcile")


def ring(world: World, name: str) -> None:
    if sum(worker.name.startswith(name) for worker in world.workers) < MOST_WORKERS:
        world.spawn(name)
    else:
        go_on(world)


def interrupt(world: World) -> None:
    """While somebody is in the middle of something, another act about it goes through as far as the locks let it."""
    busy = [worker for worker in world.workers if worker.focus is not None]
    deep = [worker for worker in busy if worker.transaction is not None and worker.transaction.writes]
    if busy := deep or busy:
        before = set(world.workers)
        job = world.db.get(Job, world.dice.choice(busy).focus)
        world.dice.choice([wish, wish, edit_quota, edit_quota, edit_person, cordon, hurt_card])(world, job)
        for worker in [worker for worker in world.workers if worker not in before]:
            world.resume(worker, 10_000)
    else:
        go_on(world)


def tick(world: World) -> None:
    world.db.clock += world.dice.choice([0.1, 0.5, 1.0, 1.0, 3.0, 15.0])


def submit(world: World) -> None:
    if len(world.open_jobs()) < MOST_OPEN:
        ask = draw_job(world.dice)
        world.spawn("submit", lambda: submit_job(world, *ask))


def draw_job(dice: Random) -> tuple[dict, int, int, int]:
    """(job file, person, team, pool)"""
    pool = dice.choice([1, 1, 2])
    small = ["0", "1/4", "1/2", "1", "1", "2"] if pool == 1 else ["1", "1", "2", "0"]
    seconds = dice.choice(["0.5", "2", "5", "20", "infinity", "infinity"])
    file: dict[str, Any] = {"run": f"sleep {seconds}; exit {dice.choice([0, 0, 0, 1])}", "gpu": dice.choice(small)}
    file |= {"cpu": dice.choice(["500m", "1", "4"]), "memory": dice.choice(["1GiB", "8GiB"])}
    file |= {"nodes": dice.choice([1, 1, 1, 2, 3]), "priority": dice.choice(["low", "low", "normal", "high"])}
    file |= {"preemptible": file["priority"] == "low" or dice.random() < 0.3}
    if dice.random() < 0.6:
        reasons = ["exit_nonzero", "container_lost", "out_of_memory", "node_lost"]
        file |= {"retry": {"times": dice.choice([1, 2]), "when": reasons}}
    if dice.random() < 0.5:
        file |= {"time": dice.choice(["5s", "30s", "2m"])}
    return file, dice.choice([1, 2, 3]), dice.choice([2, 3, 4]), pool


def submit_job(world: World, file: dict, user: int, team: int, pool: int) -> None:
    """What jobs.submit stores, with the product's own history and first attempt."""
    spec = parse_spec(file)
    request = {"gpu": spec.gpu.text, "cpu_milli": spec.cpu_milli, "memory_mib": spec.memory_mib}
    gang = [{"role": spec.role, "min": spec.nodes, "max": spec.nodes, "request": request}]
    priority = ["low", "normal", "high"].index(file["priority"])
    times = {"time_s": spec.time_s, "max_time_s": spec.max_time_s, "retries_left": spec.retry_times}
    whose = {"team_id": team, "user_id": user, "pool_id": pool, "name": spec.name or ""}
    flags = {"priority": priority, "preemptible": spec.preemptible}
    with transaction.atomic():
        world.answers.admit_waiting_job(user=world.person(user), waiting=lambda: 0)
        world.db.pause()
        row = world.db.insert(Job, {"spec": to_json(spec), "gang": gang, **whose, **times, **flags})
        job = lifecycle.lock_job(row["id"])
        bus.record(job, "submitted", actor=Actor(job.user.username, user))
        lifecycle.begin_attempt(job)
        bus.hint("cycle")


def wish(world: World, job: dict | None = None) -> None:
    """A person stops, holds, releases or retries a job."""
    jobs = world.rows(Job)
    if not jobs:
        return
    job = job or world.dice.choice(jobs)
    pk, actor = job["id"], world.person(job["user_id"])
    if job["state"] in JOB_FINAL:
        if world.dice.random() < 0.3 and len(world.open_jobs()) < MOST_OPEN:
            world.spawn("retry", lambda: quietly(lambda: control.retry_job(actor=actor, job=world.job(pk))))
        return
    waits = job["state"] == JobState.QUEUED
    what = world.dice.choice(["stop", "hold", "hold", "release", "release", "release"] if waits else ["stop", "", ""])
    if not what:
        return
    act: Callable[..., Any] = {
        "stop": control.stop_job,
        "hold": control.hold_job,
        "release": control.release_job,
    }[what]
    world.log(f"{actor}: {what} job {pk}")
    world.spawn(what, lambda: quietly(lambda: act(actor=actor, job=world.job(pk))))


def quietly(act: Callable[[], object]) -> None:
    """A person is told that it is too late."""
    try:
        act()
    except control.Conflict:
        pass


def edit_quota(world: World, job: dict | None = None) -> None:
    quotas = world.rows(Quota)
    of_job = [row for row in quotas if job and (row["team_id"], row["pool_id"]) == (job["team_id"], job["pool_id"])]
    quota = world.dice.choice(of_job or quotas)
    limit = world.dice.choice([None, None, 0, 500, 1000, 3000])
    world.log(f"quota of team {quota['team_id']} in pool {quota['pool_id']}: {limit}")
    world.spawn("quota", lambda: change(world, Quota, quota["id"], {"gpu_milli_limit": limit}))


def edit_person(world: World, job: dict | None = None) -> None:
    own = [row for row in world.rows(UserLimit) if row["user_id"] is not None]
    if own:
        row, limits = world.dice.choice(own), {"gpu_milli": world.dice.choice([None, 500, 2000]), "jobs_running": None}
        world.spawn("limit", lambda: change(world, UserLimit, row["id"], limits))


def change(world: World, model: Any, pk: int, values: dict) -> None:
    """As an admin's form does: lock the row, then write it."""
    with transaction.atomic():
        world.db.pause()
        world.db.lock(model, lambda row: row["id"] == pk)
        world.db.pause()
        world.db.update(model, lambda row: row["id"] == pk, values)


def cordon(world: World, job: dict | None = None) -> None:
    node = world.dice.choice(world.rows(Node))
    wanted = world.dice.choice([NodeState.CORDONED, NodeState.READY, NodeState.READY])
    world.spawn("cordon", lambda: move_node(world, node["id"], wanted))


def move_node(world: World, pk: int, wanted: str) -> None:
    with transaction.atomic():
        node = world.answers.lock_nodes([pk])[pk]
        if node.state != wanted:
            transitions.advance(node, wanted, actor=SYSTEM)


def follow_node(world: World) -> None:
    """The inventory sees which nodes answer."""
    node = world.dice.choice(world.rows(Node))
    world.spawn("inventory", lambda: follow_health(world, node["id"], node["name"] not in world.engine.cut))


def follow_health(world: World, pk: int, ready: bool) -> None:
    with transaction.atomic():
        node = world.answers.lock_nodes([pk])[pk]
        inventory._follow_health(node, ready=ready)


def kill(world: World) -> None:
    if world.workers:
        worker = world.dice.choice(world.workers)
        world.log(f"{worker.name} is killed")
        worker.kill()
        world.workers.remove(worker)


def cut_off(world: World) -> None:
    if world.workers:
        worker = world.dice.choice(world.workers)
        worker.trouble = ConnectionLost("the server closed the connection")
        world.log(f"{worker.name} loses the database")


def put_to_sleep(world: World) -> None:
    """Stopped for longer than a lease lasts; others take over, then it wakes."""
    if world.workers:
        worker = world.dice.choice(world.workers)
        world.asleep[worker] = world.db.clock + world.dice.choice([5.0, 11.0, 30.0])
        world.log(f"{worker.name} sleeps")


def lose_node(world: World) -> None:
    name = world.dice.choice(world.rows(Node))["name"]
    world.engine.cut.add(name)
    world.log(f"{name} does not answer")


def find_node(world: World) -> None:
    for name in sorted(world.engine.cut)[:1]:
        world.engine.cut.discard(name)
        world.log(f"{name} answers again")


def reboot(world: World) -> None:
    name = world.dice.choice(world.rows(Node))["name"]
    world.engine.catch_up()
    world.engine.reboot(name, f"boot at {world.db.clock}")
    world.engine.cut.discard(name)
    world.log(f"{name} boots")


def end_badly(world: World) -> None:
    """A program ends in a way of its own, or does not listen when it is asked to end."""
    alive = world.engine.alive()
    if alive:
        view = world.dice.choice(alive)
        if world.dice.random() < 0.4:
            world.engine.ignore_term(view.uuid)
        else:
            code, signal, cause = world.dice.choice(ENDINGS)
            world.engine.finish(view.uuid, code, signal=signal, cause=cause)


ENDINGS: list[tuple[int | None, int | None, str]] = [
    (None, None, "out_of_memory"), (None, None, "container_lost"), (0, None, ""), (1, None, ""), (None, 9, ""),
]  # fmt: skip


def hurt_card(world: World, job: dict | None = None) -> None:
    card = world.dice.choice(world.rows(Gpu))
    world.spawn("card", lambda: change(world, Gpu, card["id"], {"healthy": not card["healthy"]}))


def look(world: World) -> None:
    """What a cycle would decide by is what is held."""
    seen = snapshots.load_world()
    keys = ([team.pk for team in seen.teams], [pool.pk for pool in seen.pools], seen.user_ids)
    world.promises.look_at_usage(seen.snapshot, *keys)


LIFE: dict[Callable[[World], None], float] = {
    go_on: 60, interrupt: 12, ring_cycle: 5, ring_reconcile: 9, tick: 5, submit: 8, wish: 4, edit_quota: 1,
    edit_person: 0.5, cordon: 1, follow_node: 2, look: 0.5,
}  # fmt: skip
BAD_LUCK: dict[Callable[[World], None], float] = {
    kill: 1.5, cut_off: 1.5, put_to_sleep: 1, lose_node: 1, find_node: 1.5, reboot: 0.4, end_badly: 1.5, hurt_card: 0.5,
}  # fmt: skip
ACTS_OF_LIFE = [*LIFE, *BAD_LUCK]
WEIGHTS = [*LIFE.values(), *BAD_LUCK.values()]
