"""What happens in a life; each act draws its own details."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from django.db import transaction

from cluster.models import Gpu, Maintenance, Node, NodeState, Pool, Window
from common.locks import lock_rows
from common.resources import parse_gpu, slice_of
from events import record_and_publish
from events.record_and_publish import Actor
from jobs import control, lifecycle, running_slices
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.spec import to_json
from jobs.models import Job, Task, show_job_id
from jobs.states import JOB_FINAL, JobState, TaskState
from jobs.submit import build_gang
from quotas.models import Quota, UserLimit
from quotas.services import admit_waiting_job
from scheduler.inventory import nodes as inventory
from scheduler.loading import snapshots
from tests.loop.database import ConnectionLost
from tests.loop.hours import NAMED, machines_of, machines_of_pool, window_row
from tests.loop.world import World

MOST_WORKERS = 3
MOST_OPEN = 12
"""So many jobs wait or run at once at most, so that a life does not drown."""


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
        acts = [wish, wish, resize, edit_quota, edit_quota, edit_person, cordon, hurt_card, lend, maintain]
        acts += world.often * len(acts)
        world.dice.choice(acts)(world, job)
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


def draw_job(dice: Random) -> tuple[dict, int, int, list[int]]:
    """(job file, person, team, pools)"""
    pools = dice.choice([[1], [2], [1, 2], [2, 1]])
    small = ["0", "1/4", "1/2", "1", "1", "2"] if pools == [1] else ["1", "1", "2", "0"]
    seconds = dice.choice(["0.5", "2", "5", "20", "infinity", "infinity"])
    file: dict[str, Any] = {"run": f"sleep {seconds}; exit {dice.choice([0, 0, 0, 1])}", "gpu": dice.choice(small)}
    file |= {"cpu": dice.choice(["500m", "1", "4"]), "memory": dice.choice(["1GiB", "8GiB"])}
    file |= {"nodes": dice.choice([1, 1, 1, 2, 3, "1..3", "2..4"])}
    file |= {"priority": dice.choice(["low", "low", "normal", "high"])}
    file |= {"preemptible": file["priority"] == "low" or dice.random() < 0.3}
    if dice.random() < 0.6:
        reasons = ["exit_nonzero", "container_lost", "out_of_memory", "node_lost"]
        file |= {"retry": {"times": dice.choice([1, 2]), "when": reasons}}
    if dice.random() < 0.5:
        file |= {"time": dice.choice(["5s", "30s", "2m"])}
    if dice.random() < 0.3:
        file |= split_in_roles(dice, file)
    return file, dice.choice([1, 2, 3]), dice.choice([2, 3, 4]), pools


def split_in_roles(dice: Random, file: dict) -> dict:
    """The same as workers beside a head, whose end is the job's."""
    small = {"cpu": "500m", "memory": "1GiB"}
    own = {key: file.pop(key) for key in ("run", "gpu", "cpu", "memory", "nodes")}
    seconds, code, many = dice.choice(["0.5", "2", "5", "20"]), dice.choice([0, 0, 0, 1]), own.pop("nodes")
    head = {"run": f"sleep {seconds}; exit {code}", "count": dice.choice([1, 1, 2])}
    head |= small | {"ends_job": dice.choice(["any", "all"])}
    return {"roles": {"head": head, "worker": own | {"count": many}}}


def submit_job(world: World, file: dict, user: int, team: int, pools: list[int]) -> None:
    """What jobs.submit stores, with the product's own history and first attempt."""
    spec = parse_spec(file)
    gangs = {pool: build_gang(spec, world.db.static[Pool, pool]) for pool in pools}
    times = {"max_time_s": spec.max_time_s}
    choices = [{"pool": pool, "name": f"pool {pool}", "gang": gang, **times} for pool, gang in gangs.items()]
    priority = ["low", "normal", "high"].index(file["priority"])
    times = {"time_s": spec.time_s, "max_time_s": spec.max_time_s, "retries_left": spec.retry_times}
    whose = {"team_id": team, "user_id": user, "pool_id": pools[0], "name": spec.name or ""}
    whose |= {"choices": choices if len(choices) > 1 else []}
    flags = {"priority": priority, "preemptible": bool(spec.preemptible)}
    with transaction.atomic():
        admit_waiting_job(user=world.person(user), waiting=Job.objects.waiting().filter(user=user))
        world.db.pause()
        after, waits_for = draw_after(world)
        whose |= {"spec": to_json(replace(spec, after=after)), "waits_for": waits_for}
        row = world.db.insert(Job, {"gang": gangs[pools[0]], **whose, **times, **flags})
        job = lifecycle.lock_job(row["id"])
        record_and_publish.record(job, "submitted", actor=Actor(job.user.username, user))
        lifecycle.begin_attempt(job)
        record_and_publish.hint("cycle")


def draw_after(world: World) -> tuple[dict[str, str], list[int]]:
    """The jobs after which a new one starts, and those of them that have yet to end: none, in most lives."""
    return {}, []


def draw_one_after(world: World) -> tuple[dict[str, str], list[int]]:
    """Let each fourth job start after one of the last that have yet to end, as their numbers have it."""
    jobs = world.rows(Job)
    open_ = [row["id"] for row in jobs if row["state"] not in JOB_FINAL]
    if len(jobs) % 4 != 3 or not open_:
        return {}, []
    other = open_[-1 - len(jobs) % min(len(open_), 3)]
    return {show_job_id(other): ("success", "any", "failure")[len(jobs) // 4 % 3]}, [other]


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


def resize(world: World, job: dict | None = None) -> None:
    """A person asks for another size of the slice of a task that runs."""
    tasks = [row for row in world.rows(Task) if row["state"] == TaskState.RUNNING and len(row["cards"]) == 1]
    tasks = [row for row in tasks if not row["cards"][0]["whole"] and not (row["resize"] or {"open": False})["open"]]
    tasks = [row for row in tasks if job is None or row["job_id"] == job["id"]]
    if tasks:
        row, gpu = world.dice.choice(tasks), world.dice.choice(["1/8", "1/4", "1/2", "3/4"])
        world.log(f"resize task {row['id']} to {gpu}")
        world.spawn("resize", lambda: quietly(lambda: wish_size(world, row["job_id"], row["id"], gpu)))


def wish_size(world: World, job_id: int, task_id: int, gpu: str) -> None:
    """What jobs.running_slices writes, with the job locked."""
    with transaction.atomic():
        job = lifecycle.lock_job(job_id)
        task = next((task for task in lifecycle.load_attempt(job) if task.pk == task_id), None)
        if task is None or task.state != TaskState.RUNNING or (task.resize or {"open": False})["open"]:
            raise control.Conflict
        card, ask = task.cards[0], parse_gpu(gpu)
        known = Gpu.objects.get(uuid=card["uuid"])
        change = running_slices.Change(task, known, card, slice_of(ask, known.sellable_mib))
        Task.objects.filter(pk=task.pk).update(resize=running_slices.build_wish(change, ask, "somebody"))
        record_and_publish.record(job, "resize_requested", actor=Actor("somebody"))


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


def lend(world: World, job: dict | None = None) -> None:
    """A pool opens a window, or closes those that it has."""
    dice = world.dice
    lender = 3 - job["pool_id"] if job else dice.choice([1, 2])
    mine = [row["id"] for row in world.rows(Window) if row["lender_id"] == lender]
    begins = world.db.now + timedelta(seconds=dice.choice([0, 0, 0, 5]))
    window = window_row(lender, begins, begins + timedelta(seconds=dice.choice([5, 20, 60, 200])))
    world.log(f"pool {lender}: {'lends no more' if mine else 'lends'}")

    def change_hours() -> None:
        with transaction.atomic():
            world.db.pause()
            if mine:
                world.db.delete(Window, lambda row: row["id"] in mine)
            else:
                world.db.insert(Window, window)

    world.spawn("hours", change_hours)


def maintain(world: World, job: dict | None = None) -> None:
    """A machine, or all of a pool, is planned to be away for a while, or what was planned is called off."""
    dice, planned = world.dice, [row for row in world.rows(Maintenance) if row["ends_at"] > world.db.now]
    if planned and dice.random() < 0.6:
        row = dice.choice(planned)
        world.log(f"maintenance {row['id']} is called off")
        world.spawn("maintenance", lambda: call_off(world, row))
        return
    begins = world.db.now + timedelta(seconds=dice.choice([0, 2, 10, 30]))
    pool = dice.choice([None, None, 1, 2])
    nodes = {dice.choice(world.rows(Node))["id"]} if pool is None else machines_of_pool(world.db, pool)
    row = {"begins_at": begins, "ends_at": begins + timedelta(seconds=dice.choice([5, 15, 40])), "pool_id": pool}
    world.log(f"maintenance of machines {sorted(nodes)} from {row['begins_at']:%X} until {row['ends_at']:%X}")
    world.spawn("maintenance", lambda: plan(world, row | {"stops": dice.random() < 0.5}, nodes))


def plan(world: World, row: dict, nodes: set[int]) -> None:
    """As cluster.maintenance does: what starts on the machines holds their rows."""
    with transaction.atomic():
        lock_rows(Node.objects.filter(pk__in=nodes))
        world.db.pause()
        made = world.db.insert(Maintenance, row)
        for node in nodes if row["pool_id"] is None else ():
            world.db.pause()
            world.db.insert(NAMED, {"maintenance_id": made["id"], "node_id": node})


def call_off(world: World, row: dict) -> None:
    with transaction.atomic():
        lock_rows(Node.objects.filter(pk__in=machines_of(world.db, row)))
        world.db.pause()
        if row["begins_at"] < world.db.now:
            world.db.update(Maintenance, lambda one: one["id"] == row["id"], {"ends_at": world.db.now})
        else:
            world.db.delete(NAMED, lambda one: one["maintenance_id"] == row["id"])
            world.db.delete(Maintenance, lambda one: one["id"] == row["id"])


def cordon(world: World, job: dict | None = None) -> None:
    node = world.dice.choice(world.rows(Node))
    wanted = world.dice.choice([NodeState.CORDONED, NodeState.DRAINING, NodeState.READY, NodeState.READY])
    world.spawn("cordon", lambda: world.move_node(node["id"], wanted))


def follow_node(world: World) -> None:
    """The inventory sees which nodes answer."""
    node = world.dice.choice(world.rows(Node))
    world.spawn("inventory", lambda: follow_health(world, node["id"], node["name"] not in world.engine.cut))


def follow_health(world: World, pk: int, ready: bool) -> None:
    with transaction.atomic():
        (node,) = lock_rows(Node.objects.filter(pk=pk))
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
    go_on: 60, interrupt: 12, ring_cycle: 5, ring_reconcile: 9, tick: 5, submit: 8, wish: 4, resize: 2, edit_quota: 1,
    edit_person: 0.5, cordon: 1, follow_node: 2, look: 0.5, lend: 0.6, maintain: 0.6,
}  # fmt: skip
BAD_LUCK: dict[Callable[[World], None], float] = {
    kill: 1.5, cut_off: 1.5, put_to_sleep: 1, lose_node: 1, find_node: 1.5, reboot: 0.4, end_badly: 1.5, hurt_card: 0.5,
}  # fmt: skip
