"""YAML scenario files; keys are described in HELP. Errors are ValueErrors that name the place."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from math import ceil, inf
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from common.errors import InvalidInput
from common.resources import parse_duration
from scheduler.core.forecast.simulate import SimulationRules
from scheduler.core.model.types import MaintenanceWindow, Policy, Role, WaitingJob
from scheduler.simulation.cluster_spec import SimulatedCluster, SimulatedNode, SimulatedTeam
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.trace_csv import PRIORITIES, JobRequest, load_trace_jobs
from scheduler.simulation.working_week import DAY_S, HOUR_S, WorkingDay, build_lending_windows

SCENARIO_HELP = """
A scenario, all times counted from Monday 00:00. Hours may be written as durations, too: 90m, 18h, 3d.

  name: Two teams
  until_h: 336                # stop then; else when nothing is left to happen
  checkpoint_cost_s: 120      # stopped jobs go on from where they were, for so much more; else from the beginning
  working_day: {begins: 8, ends: 20}        # hours; what is outside is night, Friday evening to Monday one weekend
  policy: {ageing_h: 12, reservations: 2, preempt: true, short_first: false}    # of all pools; as a pool of the console
                                            # has them: longest_h: 168, stop_longer: 4, most_stops: 10
  cluster:
    - {nodes: 4, gpus: 8, model: V100, memory_gb: 32, pool: train}
    - {nodes: 1, gpus: 4, model: T4, memory_gb: 16, pool: dev}
  pools:
    train: {slices: 1, policy: {reservations: 4}, batch_is_preemptible: true}   # never shared; what is its own of the
                                            # policy; jobs that do not say may be stopped, else they may not
    dev: {slices: 8, lends_to: train}       # by night and at weekends, to jobs that end before the day begins
  teams:
    vision: {weight: 2, guarantee: {train: 8}, limit: {train: 24}}          # in cards
    speech: {guarantee: {train: 16}, cell: {train: 8}}                      # two whole machines of 8 cards
  maintenance:                # of machines with a card of the pool, or of `machines`: [v100-0, v100-1]
    - {from_h: 30, to_h: 34, pool: train, stops: true}    # stops: preemptible jobs when it begins
  jobs:     # each line `count` jobs that come at random between from_h and to_h, again on the next each_day - 1 days
    - {team: vision, user: ada, count: 40, from_h: 0, to_h: 120, gpus: 2, hours: 6}
    - {team: speech, count: 10, hours: {median: 3, sigma: 1}, estimate_h: 12, tasks: 4, preemptible: true}
    - {team: vision, tasks: 2, tasks_max: 8, hours: 9}      # starts with 2 to 8 tasks, and takes as long with each
    - {team: vision, count: 8, from_h: 9, to_h: 10, each_day: 5, memory_gb: 4, hours: 8, pool: dev, priority: urgent}
  trace: jobs.csv             # beside the file; jobs from a table, whose columns are below
"""


POLICY_KEYS = "ageing_h reservations preempt short_first longest_h stop_longer most_stops"
TOP_KEYS = "name until_h checkpoint_cost_s working_day policy cluster pools teams maintenance jobs trace"


def load_scenario(path: Path, seed: int, *, depth: int | None = None) -> Scenario:
    """Load a scenario, deterministic by seed. Raises ValueError, OSError."""
    try:
        data = YAML(typ="safe").load(path.read_text())
    except YAMLError as error:
        raise ValueError(f"{path.name} is not YAML: {error}") from None
    top = _KnownKeys(data, path.name, TOP_KEYS)
    dice = random.Random(seed)  # noqa: S311 (no secret is drawn)
    wishes = [wish for at, line in enumerate(top.list("jobs")) for wish in _read_jobs(line, f"jobs[{at}]", dice)]
    if top.get("trace"):
        wishes += load_trace_jobs(path.parent / top.text("trace"))
    return build_scenario(top, path.stem, wishes, seed, depth)


def load_trace_scenario(trace: Path, seed: int, *, nodes: int, gpus: int, depth: int | None = None) -> Scenario:
    """Build a scenario from a trace on equal machines."""
    machine = {"nodes": nodes, "gpus": gpus, "model": "GPU", "memory_gb": 80}
    top = _KnownKeys({"cluster": [machine]}, trace.name, TOP_KEYS)
    return build_scenario(top, trace.stem, load_trace_jobs(trace), seed, depth)


def build_scenario(top: "_KnownKeys", stem: str, wishes: list[JobRequest], seed: int, depth: int | None) -> Scenario:
    lines = enumerate(top.list("cluster"))
    machines = tuple(chain.from_iterable(_read_machines(line, f"cluster[{at}]") for at, line in lines))
    if not machines:
        raise ValueError(f"{top.where}: cluster has no machine")
    listed = {
        name: _KnownKeys(value or {}, f"pools.{name}", "slices lends_to policy batch_is_preemptible")
        for name, value in top.mapping("pools").items()
    }
    used = dict.fromkeys(pool for machine in machines for *_, pool in machine.cards)
    pools = {
        name: max(int(listed[name].number("slices", 8)), 1) if name in listed else 8 for name in {**listed, **used}
    }
    teams = _read_teams(top.mapping("teams"), wishes, pools)
    _check_cells(teams, machines)
    users = tuple(dict.fromkeys(wish.user or wish.team for wish in wishes))
    cluster = SimulatedCluster(machines, pools, teams, users)
    wishes = sorted(wishes, key=lambda wish: wish.submit_s)
    soft = {name for name, keys in listed.items() if keys.flag("batch_is_preemptible")}
    jobs = tuple(_build_waiting_job(cluster, soft, number, wish) for number, wish in enumerate(wishes, start=1))
    day = _read_working_day(top.sub_mapping("working_day", "begins ends"))
    until = top.hours("until_h", inf) * HOUR_S
    cost = top.get("checkpoint_cost_s")
    windows = _build_lending_windows(cluster, listed, day, min(until, _latest_end(cluster, wishes)))
    rules = SimulationRules(resume_cost_s=None if cost is None else float(cost), depth=depth)
    durations = {number: wish.duration_s for number, wish in enumerate(wishes, start=1)}
    name = str(top.get("name") or stem)
    planned = enumerate(top.list("maintenance"))
    closings = tuple(_read_maintenance(cluster, line, f"maintenance[{at}]") for at, line in planned)
    return Scenario(
        name,
        seed,
        cluster,
        _read_policies(top, listed, cluster.pools),
        rules,
        jobs,
        durations,
        until,
        day,
        windows,
        closings,
    )


class _KnownKeys:
    """A mapping in the file with only known keys."""

    def __init__(self, data: Any, where: str, known: str):
        if not isinstance(data, Mapping):
            raise ValueError(f"{where} is not a mapping")
        if unknown := set(map(str, data)) - set(known.split()):
            raise ValueError(f"{where}: unknown: {', '.join(sorted(unknown))}; known: {known}")
        self.where = where
        self._data = data

    def get(self, key: str, otherwise: Any = None) -> Any:
        return self._data.get(key, otherwise)

    def flag(self, key: str) -> bool | None:
        """Return true or false as the file says, None where it does not."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{self.where}.{key} is neither true nor false: {value!r}")
        return value

    def number(self, key: str, otherwise: float) -> float:
        value = self.get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise ValueError(f"{self.where}.{key} is not a number of 0 or more: {value!r}")
        return value

    def hours(self, key: str, otherwise: float) -> float:
        """Return a number of hours, which may be written as a duration: 36, 36h, 1d12h."""
        value = self.get(key, otherwise)
        if not isinstance(value, str):
            return self.number(key, otherwise)
        try:
            seconds = parse_duration(value)
        except InvalidInput:
            raise ValueError(f"{self.where}.{key} is no time, as 36, 36h or 1d12h are: {value!r}") from None
        return seconds / HOUR_S if seconds % HOUR_S else seconds // HOUR_S

    def text(self, key: str, otherwise: str = "") -> str:
        return str(self.get(key, otherwise))

    def list(self, key: str) -> list:
        value = self.get(key) or []
        if not isinstance(value, list):
            raise ValueError(f"{self.where}.{key} is not a list")
        return value

    def mapping(self, key: str) -> Mapping:
        value = self.get(key) or {}
        if not isinstance(value, Mapping):
            raise ValueError(f"{self.where}.{key} is not a mapping")
        return value

    def sub_mapping(self, key: str, known: str) -> "_KnownKeys":
        return _KnownKeys(self.get(key) or {}, f"{self.where}.{key}", known)


def _read_jobs(line: Any, where: str, dice: random.Random) -> list[JobRequest]:
    when, what = "count from_h to_h each_day hours estimate_h", "gpus memory_gb model tasks tasks_max"
    keys = _KnownKeys(line, where, f"team user {when} {what} pool priority preemptible")
    if keys.text("priority", "normal") not in PRIORITIES:
        raise ValueError(f"{where}.priority is none of {', '.join(PRIORITIES)}")
    if keys.number("tasks", 1) < 1:
        raise ValueError(f"{where}.tasks: a job has at least one task")
    if keys.get("tasks_max") is not None and keys.number("tasks_max", 1) < keys.number("tasks", 1):
        raise ValueError(f"{where}.tasks_max: is less than tasks")
    count, days = int(keys.number("count", 1)), int(keys.number("each_day", 1))
    begin = keys.hours("from_h", 0)
    end = keys.hours("to_h", begin)
    found = []
    for day in range(days):
        for _ in range(count):
            hours = _draw_hours(keys, dice)
            at = day * DAY_S + HOUR_S * (begin + (end - begin) * dice.random())
            found.append(_read_job(keys, round(at), max(round(hours * HOUR_S), 1)))
    return found


def _read_job(keys: _KnownKeys, submit_s: int, duration_s: int) -> JobRequest:
    estimate = keys.get("estimate_h")
    memory = keys.get("memory_gb")
    return JobRequest(
        submit_s=submit_s,
        duration_s=duration_s,
        gpus=int(keys.number("gpus", 1)),
        tasks=int(keys.number("tasks", 1)),
        tasks_max=int(keys.number("tasks_max", keys.number("tasks", 1))),
        team=keys.text("team", "everybody"),
        user=keys.text("user"),
        pool=keys.text("pool"),
        priority=keys.text("priority", "normal"),
        memory_mib=None if memory is None else int(1024 * keys.number("memory_gb", 0)),
        model=keys.text("model"),
        time_s=duration_s if estimate is None else keys.hours("estimate_h", 0) * HOUR_S,
        preemptible=keys.flag("preemptible"),
    )


def _draw_hours(keys: _KnownKeys, dice: random.Random) -> float:
    """Return a number, or draw from {median, sigma} of a log-normal distribution."""
    if not isinstance(keys.get("hours"), Mapping):
        return keys.hours("hours", 1)
    spread = keys.sub_mapping("hours", "median sigma")
    return spread.hours("median", 1) * dice.lognormvariate(0.0, spread.number("sigma", 1))


def _read_machines(line: Any, where: str) -> list[SimulatedNode]:
    keys = _KnownKeys(line, where, "nodes gpus model memory_gb pool name")
    name, pool = keys.text("name", f"{keys.text('model', 'GPU').lower()}-"), keys.text("pool", "train")
    card = (keys.text("model", "GPU"), int(1024 * keys.number("memory_gb", 80)), pool)
    cards = (card,) * int(keys.number("gpus", 8))
    return [SimulatedNode(f"{name}{place}", cards) for place in range(int(keys.number("nodes", 1)))]


def _read_teams(listed: Mapping, wishes: list[JobRequest], pools: Mapping[str, int]) -> tuple[SimulatedTeam, ...]:
    teams = []
    for name in dict.fromkeys((*map(str, listed), *(wish.team for wish in wishes))):
        keys = _KnownKeys(listed.get(name) or {}, f"teams.{name}", "weight guarantee limit cell")
        guarantee, limit = (
            _read_card_quota(keys.sub_mapping(key, " ".join(pools)), pools) for key in ("guarantee", "limit")
        )
        cell = {
            pool: milli // 1000
            for pool, milli in _read_card_quota(keys.sub_mapping("cell", " ".join(pools)), pools).items()
        }
        teams.append(SimulatedTeam(name, int(keys.number("weight", 1)), guarantee, limit, cell))
    return tuple(teams)


def _check_cells(teams: tuple[SimulatedTeam, ...], machines: tuple[SimulatedNode, ...]) -> None:
    sizes = {(pool, count) for machine in machines for pool, count in Counter(p for *_, p in machine.cards).items()}
    for team in teams:
        for pool, cards in team.cell.items():
            if (pool, cards) not in sizes:
                raise ValueError(f"teams.{team.name}.cell: no machine has exactly {cards} cards of {pool}")


def _read_card_quota(keys: _KnownKeys, pools: Mapping[str, int]) -> dict[str, int]:
    """Return {pool: milli of cards}."""
    return {pool: int(1000 * keys.number(pool, 0)) for pool in pools if keys.get(pool) is not None}


def _build_waiting_job(cluster: SimulatedCluster, soft: Set[str], number: int, wish: JobRequest) -> WaitingJob:
    """soft: pools where jobs may be stopped that do not say."""
    where = f"job {number} of {wish.team}"
    pool = wish.pool or cluster.pools[0]
    if pool not in cluster.pools:
        raise ValueError(f"{where}: there is no pool {pool}; there are {', '.join(cluster.pools)}")
    if wish.model and wish.model not in {model for model, _ in cluster.kinds}:
        raise ValueError(f"{where}: there is no card {wish.model}")
    pieces = _split_tasks(cluster, wish.gpus)
    ask = cluster.build_resources(
        gpus=wish.gpus // pieces, memory_mib=wish.memory_mib, models=(wish.model,) if wish.model else ()
    )
    teams = [team.name for team in cluster.teams]
    return WaitingJob(
        job=number,
        team=teams.index(wish.team),
        user=cluster.users.index(wish.user or wish.team),
        pool=cluster.pools.index(pool),
        priority=PRIORITIES.index(wish.priority),
        submitted_at=float(wish.submit_s),
        gang=(Role("worker", pieces * wish.tasks, pieces * max(wish.tasks, wish.tasks_max), ask),),
        time_s=wish.time_s,
        preemptible=pool in soft if wish.preemptible is None else wish.preemptible,
    )


def _split_tasks(cluster: SimulatedCluster, gpus: int) -> int:
    """Return the fewest equal tasks that each fit on the largest machine."""
    most = max(len(machine.cards) for machine in cluster.nodes)
    return next((n for n in range(1, gpus) if gpus % n == 0 and gpus // n <= most), max(gpus, 1))


def _read_working_day(keys: _KnownKeys) -> WorkingDay:
    begins, ends = keys.number("begins", 8), keys.number("ends", 20)
    if not begins < ends <= 24:
        raise ValueError(f"{keys.where}: a day begins before it ends, and ends by 24")
    return WorkingDay(int(begins * HOUR_S), int(ends * HOUR_S))


def _build_lending_windows(
    cluster: SimulatedCluster, listed: Mapping[str, _KnownKeys], day: WorkingDay, until: float
) -> tuple:
    windows: tuple = ()
    pools = [pool for machine in cluster.nodes for *_, pool in machine.cards]
    for name, keys in listed.items():
        if not (to := keys.text("lends_to")):
            continue
        if to not in cluster.pools:
            raise ValueError(f"{keys.where}.lends_to: there is no pool {to}")
        gpus = tuple(gpu for gpu, pool in enumerate(pools) if pool == name)
        windows += build_lending_windows(gpus, cluster.pools.index(to), day.list_nights(until))
    return windows


def _read_maintenance(cluster: SimulatedCluster, line: Any, where: str) -> MaintenanceWindow:
    keys = _KnownKeys(line, where, "from_h to_h pool machines stops")
    begins, ends = keys.hours("from_h", 0) * HOUR_S, keys.hours("to_h", 0) * HOUR_S
    if not begins < ends:
        raise ValueError(f"{where}: it ends after its beginning")
    pool, named = keys.text("pool"), list(map(str, keys.list("machines")))
    if unknown := {pool} - {"", *cluster.pools} or set(named) - {machine.name for machine in cluster.nodes}:
        raise ValueError(f"{where}: there is no {', '.join(sorted(unknown))}")
    nodes = tuple(
        node
        for node, machine in enumerate(cluster.nodes)
        if machine.name in named or pool in {of for *_, of in machine.cards}
    )
    if not nodes:
        raise ValueError(f"{where} is of no machine: name a pool or machines")
    return MaintenanceWindow(nodes, begins, ends, bool(keys.get("stops", False)))


def _latest_end(cluster: SimulatedCluster, wishes: list[JobRequest]) -> float:
    """Return a time by which all jobs have surely ended."""
    cards = max(sum(len(machine.cards) for machine in cluster.nodes), 1)
    work = sum(wish.duration_s * max(wish.gpus * wish.tasks, 1) for wish in wishes)
    last = max((wish.submit_s + wish.duration_s for wish in wishes), default=0)
    return last + ceil(4 * work / cards) + 14 * DAY_S


def _read_policies(top: _KnownKeys, listed: Mapping[str, _KnownKeys], pools: Sequence[str]) -> Policy:
    """Return the policy of all pools, in which those have their own that name one; the rest of it is that of all."""
    usual = _read_policy(top.sub_mapping("policy", POLICY_KEYS), Policy())
    own = {name: _read_policy(keys.sub_mapping("policy", POLICY_KEYS), usual) for name, keys in listed.items()}
    return replace(usual, pools=tuple(own.get(name, usual) for name in pools))


def _read_policy(keys: _KnownKeys, usual: Policy) -> Policy:
    short_first = bool(keys.get("short_first", usual.short_first))
    stop_longer = keys.number("stop_longer", usual.stop_longer or 0)
    if stop_longer and not (short_first and stop_longer >= 1):
        raise ValueError(f"{keys.where}.stop_longer is 1 or more, and goes with short_first: true")
    return replace(
        usual,
        ageing_s=keys.hours("ageing_h", usual.ageing_s / HOUR_S) * HOUR_S,
        reservations=int(keys.number("reservations", usual.reservations)),
        preempt=bool(keys.get("preempt", usual.preempt)),
        short_first=short_first,
        longest_s=keys.hours("longest_h", usual.longest_s / HOUR_S) * HOUR_S,
        stop_longer=stop_longer or None,
        most_stops=int(keys.number("most_stops", usual.most_stops)),
    )
