"""What must hold after every commit and every call to the runtime; (P1) and the like are of docs/promises.md.

Each finding is a sentence.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cluster.models import Gpu, Node, NodeState, Pool
from common.resources import parse_gpu
from events.models import Event
from jobs.dependencies.conditions import ENDS, number_conditions
from jobs.lifecycle import MADE_ROOM
from jobs.models import Job, Task
from jobs.pricing.expected_length import LEAST_S
from jobs.states import HOLDING, JOB_ACTIVE, JOB_FINAL, JOB_MOVES, TASK_FINAL, TASK_MOVES, JobState, TaskState
from quotas.models import RESOURCES, Amounts, Holding, Quota, UserLimit, list_subtree, team_chain
from scheduler.models import Lease
from tests.loop.database import Database, Key, Row, Transaction
from tests.loop.engine import Engine
from tests.loop.hours import Hours, stays_s

MODELS: dict[str, tuple[Any, dict]] = {"job": (Job, JOB_MOVES), "task": (Task, TASK_MOVES), "node": (Node, Node.MOVES)}
SAME_EVICTION = 3
"""A job makes room for the same other at most so often (P3)."""


class Promises:
    def __init__(self, database: Database, engine: Engine, parents: dict[int, int | None]) -> None:
        self.db, self.engine, self.parents = database, engine, parents
        self.broken: list[str] = []
        self.seen: dict[tuple[str, int], tuple[int, str]] = {}  # object: its last event's number, its state by events
        self.evictions: Counter[tuple[int, str]] = Counter()
        self.came_to: defaultdict[int, set[str]] = defaultdict(set)  # job: in what states it has ended
        self.hours = Hours(database)
        database.observers.append(self.after_commit)
        engine.on_stop = self.before_stop

    def after_commit(self, one: Transaction, before: dict[Key, Row | None]) -> None:
        """one: what was just committed. before: the same rows as they were."""
        found = self.findings(one, before)
        self.broken += found

    def findings(self, one: Transaction, before: dict[Key, Row | None]) -> list[str]:
        of: dict[type, list[Row]] = defaultdict(list)
        self.hours.note({model for model, _ in one.writes})
        for (model, _), row in one.writes.items():
            if row is not None:
                of[model].append(row)
        for row in of[Job]:
            self.came_to[row["id"]] |= {row["state"]} & JOB_FINAL
        new = [row for row in of[Holding] if before.get((Holding, row["id"])) is None]
        given_back = {row["task"]: row["gpu_milli"] for row in of[Holding] if row["released_at"] is not None}
        new = [row for row in new if row["gpu_milli"] > given_back.get(row["task"], -1) or row["gpu_id"] is None]
        return [
            *self.term(of),
            *self.history(of),
            *self.holdings(of),
            *self.gangs(of),
            *self.attempts(of, before),
            *self.starts(of, one.began),
            *self.cards(new),
            *self.limits(new),
            *self.freed(of, before),
        ]

    # one promise each

    def term(self, of: dict[type, list[Row]]) -> Iterator[str]:
        """No write with an old epoch (P15)."""
        process = self.db.process
        if process is not None and process.epochs and any(rows for model, rows in of.items() if model is not Lease):
            for name, epoch in process.epochs.items():
                now = self.db.tables[Lease][name]["epoch"]
                if now != epoch:
                    yield f"{process.name} wrote in term {epoch} of {name}, which is in term {now}"

    def history(self, of: dict[type, list[Row]]) -> Iterator[str]:
        """Events are dense, their path is legal, and they say what the rows say (P10b)."""
        for event in sorted(of[Event], key=lambda row: row["seq"]):
            about = event["kind"], event["object_id"]
            last, state = self.seen.get(about, (0, ""))
            if event["seq"] != last + 1:
                yield f"{about} has event {event['seq']} after {last}"
            if event["verb"] == "state" and event["kind"] in MODELS:
                if state and event["from_state"] != state:
                    yield f"{about} moved from {event['from_state']}, but it was {state}"
                if event["to_state"] not in MODELS[event["kind"]][1][event["from_state"]]:
                    yield f"{about} moved from {event['from_state']} to {event['to_state']}"
                state = str(event["to_state"])
            self.seen[about] = event["seq"], state
        for kind, (model, _) in MODELS.items():
            for row in of[model]:
                last, state = self.seen.get((kind, row["id"]), (0, ""))
                if state and state != row["state"]:
                    yield f"{kind} {row['id']} is {row['state']}, its history says {state}"
                self.seen[kind, row["id"]] = last, str(row["state"])

    def holdings(self, of: dict[type, list[Row]]) -> Iterator[str]:
        """A task has live holdings exactly in the states of HOLDING."""
        touched = {row["uuid"] for row in of[Task]} | {row["task"] for row in of[Holding]}
        if not touched:
            return
        live: dict[Any, list[Row]] = {uuid: [] for uuid in touched}
        for row in self.db.tables.get(Holding, {}).values():
            if row["released_at"] is None and row["task"] in live:
                live[row["task"]].append(row)
        for task in self.db.tables[Task].values():
            if task["uuid"] in touched:
                held = live[task["uuid"]]
                if bool(held) != (task["state"] in HOLDING):
                    yield f"task {task['id']} is {task['state']} and holds {'something' if held else 'nothing'}"
                elif held and shape_of(held) != self.asked(task):
                    yield f"task {task['id']} holds {shape_of(held)} and asked {self.asked(task)}"

    def asked(self, task: Row) -> tuple[int, int, int]:
        """(cards, thousandths of a core, MiB)"""
        gang = self.db.tables[Job][task["job_id"]]["gang"]
        request = next(role["request"] for role in gang if role["role"] == task["role"])
        return parse_gpu(request["gpu"]).count, request["cpu_milli"], request["memory_mib"]

    def gangs(self, of: dict[type, list[Row]]) -> Iterator[str]:
        """An attempt has between min and max tasks of each role, ranked without a gap; its least while it waits."""
        for pk in {row["id"] for row in of[Job]} | {row["job_id"] for row in of[Task]}:
            job = self.db.tables[Job][pk]
            tasks = [t for t in self.db.tables[Task].values() if (t["job_id"], t["attempt"]) == (pk, job["attempt"])]
            if sorted(task["rank"] for task in tasks) != list(range(len(tasks))):
                yield f"job {pk} has ranks {sorted(task['rank'] for task in tasks)}"
            for role in job["gang"]:
                count = sum(task["role"] == role["role"] for task in tasks)
                most = role["min"] if job["state"] == JobState.QUEUED else role["max"]
                if not role["min"] <= count <= most:
                    yield f"job {pk} is {job['state']} with {count} tasks of {role['min']} to {role['max']}"

    def attempts(self, of: dict[type, list[Row]], before: dict[Key, Row | None]) -> Iterator[str]:
        """One live attempt (P8), the newest; the job's state fits; retries are counted once (P11)."""
        jobs = {row["id"] for row in of[Job]} | {row["job_id"] for row in of[Task]}
        if not jobs:
            return
        tasks: dict[int, list[Row]] = defaultdict(list)
        for task in self.db.tables[Task].values():
            if task["job_id"] in jobs:
                tasks[task["job_id"]].append(task)
        for pk in jobs:
            job = self.db.tables[Job][pk]
            if any(t["state"] not in TASK_FINAL and t["attempt"] != job["attempt"] for t in tasks[pk]):
                yield f"job {pk} has live tasks of an attempt that is over"
            states = {t["state"] for t in tasks[pk] if t["attempt"] == job["attempt"]}
            if states and (states <= TASK_FINAL) != (job["state"] in JOB_FINAL):
                yield f"job {pk} is {job['state']} with tasks {sorted(states)}"
            if states and (job["state"] == JobState.QUEUED) != (states <= {TaskState.PENDING}):
                yield f"job {pk} is {job['state']} with tasks {sorted(states)}"
            wish = job["stop_requested_at"] is not None
            if states == {TaskState.RUNNING} and job["state"] != JobState.RUNNING and not wish:
                yield f"job {pk} is {job['state']}, and all its tasks run"
            if job["state"] in JOB_FINAL and job["reason"] in MADE_ROOM and not wish:
                yield f"job {pk} is {job['state']}, and only made room"
            if states == {TaskState.STOPPED} and (job["state"] == JobState.CANCELLED) != wish:
                yield f"job {pk} is {job['state']}, and somebody wished: {wish}"
            newest = [t for t in tasks[pk] if t["attempt"] == job["attempt"]]
            yield from self.done(job, before.get((Job, pk)), newest)
            yield from self.retries(job, before.get((Job, pk)), of[Event])

    def done(self, job: Row, was: Row | None, tasks: list[Row]) -> Iterator[str]:
        """The role that ends a job decides how it ends, and nobody tries again what was done."""
        ends = {role["role"]: role["ends_job"] for role in job["gang"] if "ends_job" in role}
        well = {name: [t["state"] == TaskState.SUCCEEDED for t in tasks if t["role"] == name] for name in ends}
        done = any(any(ok) if ends[name] == "any" else all(ok) for name, ok in well.items() if ok)
        all_well = all(t["state"] == TaskState.SUCCEEDED for t in tasks)
        if job["state"] in JOB_FINAL and (job["state"] == JobState.SUCCEEDED) != (done or all_well):
            yield f"job {job['id']} is {job['state']}, and the role that ends it is done: {done}"
        if done and job["state"] not in {*JOB_FINAL, JobState.STOPPING}:
            yield f"job {job['id']} is {job['state']} and goes on though it is done"
        if not done and job["stop_reason"] == "job_done":
            yield f"job {job['id']} is stopped as done and is not"

    def retries(self, job: Row, was: Row | None, events: list[Row]) -> Iterator[str]:
        if was is None or job["attempt"] == was["attempt"]:
            return
        if job["attempt"] != was["attempt"] + 1:
            yield f"job {job['id']} went from attempt {was['attempt']} to {job['attempt']}"
        (reason,) = [e["reason"] for e in events if e["kind"] == "job" and e["object_id"] == job["id"]][-1:]
        by_person = was["state"] in JOB_FINAL
        wanted = was["retries_left"] - (0 if reason in MADE_ROOM else 1)
        if not by_person and job["retries_left"] != wanted:
            yield f"job {job['id']} tries again because of {reason} and has {job['retries_left']} left, not {wanted}"
        if not by_person and job["stop_requested_at"] is not None:
            yield f"job {job['id']} tries again although it was to stop"
        if not by_person and reason not in MADE_ROOM and job["not_before"] in (None, was["not_before"]):
            yield f"job {job['id']} tries again without a pause"

    def starts(self, of: dict[type, list[Row]], began: datetime) -> Iterator[str]:
        """Nothing is placed that is held, stopped (P10) or pauses, nor where nothing may start. began: to be placed."""
        for event in of[Event]:
            if event["kind"] == "task" and event["to_state"] == TaskState.ASSIGNED:
                task = self.db.tables[Task][event["object_id"]]
                job = self.db.tables[Job][task["job_id"]]
                if job["stop_requested_at"] is not None or job["held_at"] is not None:
                    yield f"job {job['id']} was placed against a wish"
                if job["not_before"] is not None and job["not_before"] > self.db.now:
                    yield f"job {job['id']} was placed before its time"
                for other, condition in number_conditions(job["spec"].get("after") or {}).items():
                    if not self.came_to[other] & ENDS[condition]:
                        yield f"job {job['id']} was placed before job {other} has ended as it asks (P13b)"
                if self.db.tables[Node][task["node_id"]]["state"] != NodeState.READY:
                    yield f"job {job['id']} was placed on a node that takes nothing"
                if planned := self.hours.in_the_way(
                    task["node_id"], began, min(stays_s(job), LEAST_S), may_stop=job["preemptible"]
                ):
                    yield f"job {job['id']} was placed on a node that goes into maintenance {planned['id']}"
                if strange := self.strange_choice(job, task):
                    yield f"job {job['id']} {strange}"
                stays = 0.0 if job["preemptible"] else stays_s(job)
                for lender in self.strange_pools([task], job["pool_id"]):
                    if not self.hours.is_lent(lender, job["pool_id"], began, stays):
                        yield f"job {job['id']} was placed on a card that pool {lender} does not lend it so long"
            if event["kind"] == "task" and event["to_state"] == TaskState.STOPPING and event["reason"] in MADE_ROOM:
                job_id = self.db.tables[Task][event["object_id"]]["job_id"]
                self.evictions[job_id, str(event["params"])] += 1
                yield from self.stops(self.db.tables[Job][job_id], event["reason"])

    def strange_choice(self, job: Row, task: Row) -> str:
        """What is wrong with the pool where a job starts, of those where it waits."""
        asked = {choice["pool"]: choice["gang"] for choice in job["choices"]} or {job["pool_id"]: job["gang"]}
        if job["gang"] != asked.get(job["pool_id"]):
            return f"starts in pool {job['pool_id']} with a gang that it does not ask for there"
        rows = [row for row in self.db.tables[Holding].values() if row["task"] == task["uuid"]]
        held = {row["pool_id"] for row in rows if row["released_at"] is None}
        return "" if held == {job["pool_id"]} else f"starts in pool {job['pool_id']} and holds in {held}"

    def stops(self, job: Row, reason: str) -> Iterator[str]:
        """Who leaves a lent card or a machine in maintenance was on one."""
        tasks = [t for t in self.db.tables[Task].values() if (t["job_id"], t["attempt"]) == (job["id"], job["attempt"])]
        if reason == "maintenance" and not self.hours.may_stop_on({task["node_id"] for task in tasks}):
            yield f"job {job['id']} left for a maintenance that stops nobody"
        if reason == "window_closed":
            lenders = self.strange_pools(tasks, job["pool_id"])
            if not any(self.hours.is_closed(lender, job["pool_id"]) for lender in lenders):
                yield f"job {job['id']} left cards of pools {lenders}, which lend them still"

    def strange_pools(self, tasks: list[Row], pool: int) -> set[int]:
        """Other pools than this whose cards these tasks hold."""
        mine = {task["uuid"] for task in tasks}
        rows = self.db.tables.get(Holding, {}).values()
        gpus = {row["gpu_id"] for row in rows if row["task"] in mine and row["released_at"] is None} - {None}
        return {self.db.tables[Gpu][pk]["pool_id"] for pk in gpus} - {pool}

    def cards(self, new: list[Row]) -> Iterator[str]:
        """No card or node is promised twice (P1)."""
        if not new:
            return
        live = [row for row in self.db.tables[Holding].values() if row["released_at"] is None]
        for pk in {row["gpu_id"] for row in new if row["gpu_id"] is not None}:
            card, rows = self.db.tables[Gpu][pk], [row for row in live if row["gpu_id"] == pk]
            room = card["memory_mib"] - card["reserved_mib"] - card["margin_mib"]
            slices = self.db.static[Pool, card["pool_id"]].slices_per_gpu
            mib, percent = sum(r["gpu_memory_mib"] for r in rows), sum(r["gpu_compute_percent"] for r in rows)
            if mib > room or percent > 100 or len(rows) > slices:
                yield f"card {pk} gives {mib} MiB of {room}, {percent} %, to {len(rows)} of {slices}"
            if not card["healthy"]:
                yield f"card {pk} is ill and was given away"
        for pk in {row["node_id"] for row in new}:
            node = self.db.tables[Node][pk]
            pool = self.db.static[Pool, node["pool_id"]]
            _, cpu, memory = totals([row for row in live if row["node_id"] == pk])
            if cpu > node["cpu_milli"] * pool.cpu_overcommit_percent // 100 or memory > node["memory_mib"]:
                yield f"node {pk} gives {cpu} m and {memory} MiB"

    def limits(self, new: list[Row]) -> Iterator[str]:
        """No team or person gets more than its limit (P2); a limit that was lowered ends nothing."""
        if not new:
            return
        live = [row for row in self.db.tables[Holding].values() if row["released_at"] is None]
        quotas = list(self.db.tables[Quota].values())
        for team, pool in {(row["team_id"], row["pool_id"]) for row in new}:
            for quota in quotas:
                if quota["pool_id"] == pool and quota["team_id"] in team_chain(team, self.parents):
                    below = set(list_subtree(quota["team_id"], self.parents))
                    held = totals([row for row in live if row["pool_id"] == pool and row["team_id"] in below])
                    more = totals([row for row in new if row["pool_id"] == pool and row["team_id"] in below])
                    for name, used, grew in zip(RESOURCES, held, more, strict=True):
                        if grew and quota[f"{name}_limit"] is not None and used > quota[f"{name}_limit"]:
                            yield f"team {quota['team_id']} holds {used} of {quota[f'{name}_limit']} {name}"
        everyone = next(row for row in self.db.tables[UserLimit].values() if row["user_id"] is None)
        for user in {row["user_id"] for row in new}:
            held, more = (totals([row for row in rows if row["user_id"] == user]) for rows in (live, new))
            yield from self.limit_of_person(user, everyone, held, more)

    def limit_of_person(self, user: int, everyone: Row, held: Amounts, more: Amounts) -> Iterator[str]:
        own = next(row for row in self.db.tables[UserLimit].values() if row["user_id"] == user)
        limit = {name: everyone[name] if own[name] is None else own[name] for name in (*RESOURCES, "jobs_running")}
        running = [j for j in self.db.tables[Job].values() if j["user_id"] == user and j["state"] in JOB_ACTIVE]
        counts = zip((*RESOURCES, "jobs_running"), (*held, len(running)), (*more, 1), strict=True)
        for name, used, grew in counts:
            if grew and limit[name] is not None and used > limit[name]:
                yield f"person {user} has {used} of {limit[name]} {name}"

    def freed(self, of: dict[type, list[Row]], before: dict[Key, Row | None]) -> Iterator[str]:
        """What a task held is free only when no process of it is left (P4)."""
        for row in of[Task]:
            was = before.get((Task, row["id"]))
            freed = row["state"] in TASK_FINAL and was is not None and was["state"] in HOLDING
            if freed and self.engine.is_alive(row["uuid"].hex):
                yield f"task {row['id']} is {row['state']} and still runs"
            if freed:
                yield from self.ends(row)

    def ends(self, row: Row) -> Iterator[str]:
        """An end is kept as it was, before the runtime may forget it (P9)."""
        view = self.engine.last_seen(row["uuid"].hex)
        if view is None:
            yield f"task {row['id']} is {row['state']}, and the runtime has forgotten how it ended"
        elif (row["state"] == TaskState.SUCCEEDED) != (view.exit_code == 0 and view.cause != "stopped"):
            yield f"task {row['id']} is {row['state']}, and ended with {view.exit_code} {view.signal} {view.cause}"

    # after calls to the runtime, and now and then

    def look_at_runtime(self) -> None:
        """Each container is of one task that holds something, and no place of a gang runs twice (P8)."""
        tasks = {row["uuid"].hex: row for row in self.db.tables.get(Task, {}).values()}
        places, used = set(), dict[str, int]()
        for view in self.engine.alive():
            task = tasks.get(view.uuid)
            if task is None or task["state"] not in HOLDING:
                self.broken.append(f"{view.uuid[:8]} runs and is {task['state'] if task else 'nobody'}")
                continue
            place = task["job_id"], task["role"], task["rank"]
            if place in places:
                self.broken.append(f"{place} runs twice")
            places.add(place)
            for share in self.engine.specs[view.uuid].gpus:
                used[share.uuid] = used.get(share.uuid, 0) + share.memory_mib
        for card in self.db.tables[Gpu].values() if used else ():
            if used.get(card["uuid"], 0) > card["memory_mib"] - card["reserved_mib"]:
                self.broken.append(f"{card['uuid']} runs {used[card['uuid']]} MiB")

    def before_stop(self, uuid: str) -> None:
        """Nobody is asked to end whom nobody wished to."""
        task = next((row for row in self.db.tables[Task].values() if row["uuid"].hex == uuid), None)
        if task is None or task["state"] not in (TaskState.STARTING, TaskState.RUNNING):
            return
        wished = self.db.tables[Job][task["job_id"]]["stop_requested_at"] is not None
        place = task["job_id"], task["attempt"]
        broken = any(
            (row["job_id"], row["attempt"]) == place and row["state"] in (TaskState.FAILED, TaskState.STOPPED)
            for row in self.db.tables[Task].values()
        )
        if not wished and not broken:
            self.broken.append(f"task {task['id']} is {task['state']} and is asked to end for no reason")

    def look_at_usage(self, snapshot: Any, teams: list[int], pools: list[int], users: list[int]) -> None:
        """What a cycle would decide by is the sum of what is held."""
        live = [row for row in self.db.tables.get(Holding, {}).values() if row["released_at"] is None]
        for t, team in enumerate(teams):
            below = set(list_subtree(team, self.parents))
            for p, pool in enumerate(pools):
                held = totals([row for row in live if row["team_id"] in below and row["pool_id"] == pool])
                if tuple(snapshot.held[t, p]) != held:
                    self.broken.append(f"a cycle counts {tuple(snapshot.held[t, p])} for team {team}, not {held}")
        for u, user in enumerate(users):
            held = totals([row for row in live if row["user_id"] == user])
            if tuple(snapshot.user_held[u]) != held:
                self.broken.append(f"a cycle counts {tuple(snapshot.user_held[u])} for person {user}, not {held}")


def totals(rows: list[Row]) -> Amounts:
    return sum(r["gpu_milli"] for r in rows), sum(r["cpu_milli"] for r in rows), sum(r["memory_mib"] for r in rows)


def shape_of(held: list[Row]) -> tuple[int, int, int]:
    """(cards, thousandths of a core, MiB) of the live holdings of one task."""
    _, cpu, memory = totals(held)
    return len({row["gpu_id"] for row in held} - {None}), cpu, memory
