"""Load database rows as the arrays of the scheduler core."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from django.db import connection
from django.db.models import Count, F

from accounts.models import Team
from cluster.models import Arrangement, NodeState, Pool, sellable_milli
from common.resources import GpuAsk, gpu_milli, is_instance, parse_gpu, rank_of, slice_of
from common.steady_clock import steady_time
from jobs.models import Job, may_be_stopped
from jobs.states import JOB_ACTIVE
from quotas.models import RESOURCES, Amounts, Quota, UserLimit, team_chain
from quotas.services import get_default_limit
from scheduler.core.model.snapshot import UNLIMITED, Snapshot
from scheduler.core.model.topology import LinkLayout, LinkMatrix, build_link_layout
from scheduler.core.model.types import (
    Cell,
    DemandProfile,
    PlaceRule,
    Policy,
    Role,
    TaskResources,
    TypicalRequests,
    WaitingJob,
)
from scheduler.core.placement.scores import spread_scores, weigh_scores
from scheduler.core.placement.usual_requests import (
    BLOCK,
    HISTORY,
    TYPICAL_EVERY,
    WISHES_EVERY,
    PastRequest,
    is_due,
    learn_typical,
    learn_wishes,
)
from scheduler.core.prediction.length_model import PredictedLength
from scheduler.core.queueing.cycle_context import CycleMemo
from scheduler.loading.cache_locations import CacheLocations, load_cache_locations
from scheduler.loading.expected_length import load_expected_length
from scheduler.loading.holdings import Holdings, load_holdings
from scheduler.loading.json_rows import as_text, is_set, load_rows, seconds
from scheduler.loading.lending_and_maintenance import load_maintenance_windows, load_windows
from scheduler.loading.numa_nodes import build_numa, count_free_numa, find_numa, index_numa
from scheduler.loading.past_jobs import read_traits
from scheduler.loading.predicted_lengths import JobLengths, get_max_time_s, load_lengths
from scheduler.loading.row_cache import cached_rows, caching, match_rows, memo_for, read_change_mark
from scheduler.loading.running_jobs import ArrayIndex, load_running
from scheduler.loading.waited_arrays import load_waited_arrays

NOTHING: Amounts = (0, 0, 0)


@dataclass(frozen=True)
class Kind:
    """Interchangeable cards. sliceable: their memory limit satisfies the pool."""

    model: str
    product: str
    sellable_mib: int
    sliceable: bool


class NodeRow(NamedTuple):
    """A node; topology, numa and facts as JSON. said_switch: by an admin."""

    pk: int
    name: str
    pool_id: int
    state: str
    cpu_milli: int
    memory_mib: int
    topology: str
    numa: str
    said_switch: str
    facts: str

    @property
    def switch(self) -> str:
        """As `cluster.models.Node.known_switch`."""
        return self.said_switch or json.loads(self.facts).get("switch", "")


class GpuRow(NamedTuple):
    """A card. number: index on the node; kept_mib: reserved."""

    pk: int
    node_id: int
    pool_id: int
    number: int
    numa: int | None
    healthy: bool
    model: str
    product: str
    enforcement: str
    simulated: bool
    memory_mib: int
    kept_mib: int

    @property
    def sellable_mib(self) -> int:
        return max(self.memory_mib - self.kept_mib, 0)


@dataclass(frozen=True)
class World:
    """A snapshot and the rows behind its indices."""

    snapshot: Snapshot
    policy: Policy
    nodes: list[NodeRow]
    gpus: list[GpuRow]
    pools: list[Pool]
    teams: list[Team]
    user_ids: list[int]
    kinds: list[Kind]
    fetches: CacheLocations
    lengths: JobLengths
    numa_ids: np.ndarray
    """Of each machine, see `build_numa`."""
    cycle_memo: CycleMemo = field(default_factory=CycleMemo)
    """What earlier cycles learned about the same machines."""


def load_world(
    *, queue: bool = True, work: bool = True, user_id: int | None = None, reads: Iterable[str] = ()
) -> World:
    """Load cluster, holdings and queue. queue, work: False omits them. user_id: a person to add.

    reads: keys from `caches.keys_of` that their job would read.
    """
    jobs = load_queue() if queue and work else []
    pools, teams, quotas = load_pools(), load_teams(), load_quotas()
    nodes, gpus, holdings = load_nodes(), load_gpus(), load_holdings() if work else Holdings()
    holding = np.unique(holdings.of("user")).tolist()
    user_ids = index_users({job.user_id for job in jobs} | {*holding} | ({user_id} if user_id else set()))
    machines = index_machines(nodes, gpus, pools)
    kinds = machines.kinds
    places = ArrayIndex(
        _places(_keys(teams)), _places(user_ids), machines.pools, machines.nodes, machines.gpus, machines.numa
    )
    arrays = {
        **machines.arrays,
        **_card_arrays(machines, holdings, places),
        **_node_arrays(machines, holdings, places),
        "numa_free": count_free_numa(machines.numa_ids, machines.arrays["numa_total"], holdings, places),
        **build_team_arrays(teams, pools, quotas, holdings, places),
        **_user_arrays(user_ids, holdings, places),
    }
    fetches = load_cache_locations(places.node, reads) if jobs or reads else CacheLocations()
    lengths = load_lengths()
    waiting = tuple(list_waiting(jobs, kinds, places, fetches, quotas, lengths))
    typical, wishes = register_requests(kinds, max((job.pk for job in jobs), default=0))
    now = steady_time()
    closings = load_maintenance_windows(places.node, now)
    names = tuple(kind.model for kind in kinds)
    jobs_and_times: dict[str, Any] = {
        "waiting": waiting,
        "running": tuple(load_running(holdings, places, now, lengths)) if work else (),
        "windows": load_windows(pools, [gpu.pool_id for gpu in gpus], now),
        "closings": closings,
        "expected_s": tuple(load_expected_length(pool.pk) for pool in pools) if closings else (),
        "contents": fetches.contents,
        "arrays": load_waited_arrays(waiting),
    }
    snapshot = Snapshot(**arrays, **jobs_and_times, kind_names=names, typical=typical, wishes=wishes)
    rows = nodes, gpus, pools, teams, user_ids, kinds
    return World(snapshot, build_policy(pools), *rows, fetches, lengths, machines.numa_ids, machines.cycle_memo)


def load_present_world(*, queue: bool = True, work: bool = True, **more: Any) -> World:
    """As `load_world`, for who decides nothing: unchanged rows are those of this process's last look."""
    if connection.in_atomic_block:  # a row that it changes twice has the same version twice
        return load_world(queue=queue, work=work, **more)
    wanted = {"nodes": True, "gpus": True, "holders": work, "holdings": work, "queue": queue and work}
    with _turn, caching(read_change_mark(*(name for name, is_read in wanted.items() if is_read))):
        return load_world(queue=queue, work=work, **more)


_turn = Lock()
"""Of threads that look at the present: the first reads what changed, and the others have it."""


def index_users(user_ids: set[int]) -> list[int]:
    """Return users by index, stable while rows are cached."""
    known = memo_for("users")
    for pk in sorted(user_ids - known.keys()):
        known[pk] = len(known)
    return list(known)


@dataclass(frozen=True)
class Machines:
    """Arrays of nodes and cards. numa_ids: see `build_numa`. pools, nodes, gpus: {id:
    index}. numa: see `ArrayIndex`."""

    kinds: list[Kind]
    arrays: dict[str, Any]
    numa_ids: np.ndarray
    pools: dict[int, int]
    nodes: dict[int, int]
    gpus: dict[int, int]
    numa: dict[tuple[int, int], int]
    cycle_memo: CycleMemo = field(default_factory=CycleMemo)


def index_machines(nodes: list[NodeRow], gpus: list[GpuRow], pools: list[Pool]) -> Machines:
    """Return the arrays, rebuilt when a row changed."""
    rules = [[getattr(pool, column.attname) for column in Pool._meta.concrete_fields] for pool in pools]
    last = memo_for("machines", rules)
    if last.get("nodes") is not nodes or last.get("gpus") is not gpus:
        last.update(nodes=nodes, gpus=gpus, built=build_machines(nodes, gpus, pools))
    return last["built"]


def build_machines(nodes: list[NodeRow], gpus: list[GpuRow], pools: list[Pool]) -> Machines:
    kind_of = {alike: build_kind(gpu, pools) for alike, gpu in {_kind_key(gpu): gpu for gpu in gpus}.items()}
    kinds = sorted(set(kind_of.values()), key=lambda k: (k.model, k.sellable_mib, k.product, k.sliceable))
    kind_at = {alike: kinds.index(kind) for alike, kind in kind_of.items()}
    pool_at, node_at, gpu_at = (_places(_keys(rows)) for rows in (pools, nodes, gpus))
    slices = {pool.pk: pool.slices_per_gpu for pool in pools}
    overcommit = {pool.pk: pool.cpu_overcommit_percent for pool in pools}
    cpu_total = np.array([sellable_milli(n.cpu_milli, overcommit[n.pool_id]) for n in nodes], dtype=np.int64)
    switch_of = [node.switch for node in nodes]
    switches = sorted({*switch_of} - {""})
    numa_ids, numa_total = build_numa([node.numa for node in nodes], cpu_total)
    arrays = {
        "gpu_node": np.array([node_at[gpu.node_id] for gpu in gpus], dtype=np.int64),
        "gpu_pool": np.array([pool_at[gpu.pool_id] for gpu in gpus], dtype=np.int64),
        "gpu_kind": np.array([kind_at[_kind_key(gpu)] for gpu in gpus], dtype=np.int64),
        "gpu_total_mib": np.array([gpu.sellable_mib for gpu in gpus], dtype=np.int64),
        "gpu_max_slices": np.array(
            [1 if is_instance(gpu.product) else slices[gpu.pool_id] for gpu in gpus], dtype=np.int64
        ),
        "gpu_open": np.array([gpu.healthy for gpu in gpus], dtype=bool),
        "node_pool": np.array([pool_at[node.pool_id] for node in nodes], dtype=np.int64),
        "node_cpu_total": cpu_total,
        "node_memory_total": np.array([node.memory_mib for node in nodes], dtype=np.int64),
        "node_open": np.array([node.state == NodeState.READY for node in nodes], dtype=bool),
        "draining": tuple(at for at, node in enumerate(nodes) if node.state == NodeState.DRAINING),
        "node_names": tuple(node.name for node in nodes),
        "node_switch": np.array([switches.index(name) if name else -1 for name in switch_of], dtype=np.int64),
        "switch_names": tuple(switches),
        "node_rdma": np.array([bool(_list_hcas(node.topology)) for node in nodes], dtype=bool),
        "layouts": _build_layouts(nodes, gpus),
        "numa_total": numa_total,
        "gpu_numa": find_numa(numa_ids, [node_at[gpu.node_id] for gpu in gpus], [gpu.numa for gpu in gpus]),
    }
    return Machines(kinds, arrays, numa_ids, pool_at, node_at, gpu_at, index_numa(numa_ids, _keys(nodes)))


def register_requests(kinds: list[Kind], newest: int) -> tuple[TypicalRequests | None, DemandProfile | None]:
    """Return usual requests, relearned now and then. newest: waiting job id."""
    last, totals = memo_for("usual", tuple(kinds)), tuple(kind.sellable_mib for kind in kinds)
    if is_due(newest, last.get("wishes_at", -1), WISHES_EVERY):
        past = load_history(kinds)
        last.update(wishes_at=newest, wishes=learn_wishes(past, totals))
        if is_due(newest, last.get("typical_at", -1), TYPICAL_EVERY):
            last.update(typical_at=newest, typical=learn_typical(past, totals))
    return last["typical"], last["wishes"]


def build_policy(pools: Iterable[Pool]) -> Policy:
    return Policy(pools=tuple(_policy_of(pool) for pool in pools))


class QueuedRow(NamedTuple):
    """A waiting job; gang and choices as JSON."""

    pk: int
    team_id: int
    user_id: int
    pool_id: int
    priority: int
    eligible_at: float
    queued_at: float
    gang: str
    held: bool
    not_before: float | None
    kind: str
    preemptible: bool
    time_s: int | None
    max_time_s: int | None
    stops: int = 0
    revision: int = 0
    choices: str = "[]"
    waits_for: str = "[]"


def load_queue() -> list[QueuedRow]:
    """Load waiting jobs without a stop request."""
    columns = ("pk", "team_id", "user_id", "pool_id", "priority", seconds("eligible_at"), seconds("queued_at"))
    wishes = (
        as_text("gang"),
        is_set("held_at"),
        seconds("not_before"),
        "kind",
        "preemptible",
        "time_s",
        "max_time_s",
        "stops",
        "revision",
        as_text("choices"),
        as_text("waits_for"),
    )
    return cached_rows("queue", QueuedRow, *columns, *wishes)


def load_pools() -> list[Pool]:
    return list(Pool.objects.order_by("pk"))


def load_teams() -> list[Team]:
    return list(Team.objects.order_by("pk"))


def load_quotas() -> list[Quota]:
    return list(Quota.objects.all())


def load_limits(user_ids: Iterable[int]) -> list[UserLimit]:
    return list(UserLimit.objects.filter(user__in=user_ids))


def load_active() -> dict[int, int]:
    """Return {user id: running jobs}."""
    active = Job.objects.filter(state__in=sorted(JOB_ACTIVE))
    return dict(active.order_by().values_list("user").annotate(n=Count("pk")))


def load_nodes() -> list[NodeRow]:
    columns = ("pk", "name", "pool_id", "state", "cpu_milli", "memory_mib", as_text("topology"), as_text("numa"))
    return cached_rows("nodes", NodeRow, *columns, "switch", as_text("facts"))


def load_gpus() -> list[GpuRow]:
    kept = F("reserved_mib") + F("margin_mib")
    columns = ("pk", "node_id", "pool_id", "index", "numa", "healthy", "model", "product", "enforcement", "simulated")
    return cached_rows("gpus", GpuRow, *columns, "memory_mib", kept)


def load_history(kinds: list[Kind]) -> list[PastRequest]:
    """Return what the newest jobs asked for. A job's age is counted by ids."""
    recent = load_rows(Job.objects.order_by("-pk")[:HISTORY], "pk", as_text("gang"))
    counted = Counter((gang, (recent[0][0] - pk) // BLOCK) for pk, gang in recent if pk > recent[0][0] - HISTORY)
    gangs = {gang: build_gang(json.loads(gang), kinds) for gang in dict.fromkeys(gang for gang, _ in counted)}
    return [(role.ask, jobs * role.min, block) for (gang, block), jobs in counted.items() for role in gangs[gang]]


def list_waiting(
    jobs: list[QueuedRow],
    kinds: list[Kind],
    places: ArrayIndex,
    fetches: CacheLocations,
    quotas: Iterable[Quota],
    lengths: JobLengths,
) -> list[WaitingJob]:
    """Convert queued jobs, a record for each pool where one waits; unchanged rows give the same objects."""
    context = places.team, places.pool, kinds, {(quota.team_id, quota.pool_id) for quota in quotas}
    last, reader = memo_for("waiting", (*context, lengths.version)), ChoiceReader(*context, memo_for("gangs", context))
    known, telling = last.get("waiting", []), fetches.of_job.keys() | last.get("telling", set())
    before = match_rows(jobs, last.get("jobs", [])).tolist()
    lengths.read({job.pk: job.revision for job, at in zip(jobs, before, strict=True) if at < 0})
    found = []
    for job, at in zip(jobs, before, strict=True):
        if at >= 0 and job.pk not in telling:
            found.append(known[at])
            continue
        records = [(n, row, fetches.with_fetch(job.pk, gang)) for n, row, gang in reader.list_records(job)]
        found.append([_waiting(row, gang, places, lengths.predict(row, job.pk), n) for n, row, gang in records])
    last.update(jobs=jobs, waiting=found, telling={*fetches.of_job})
    return [record for records in found for record in records]


Choice = tuple[int, int | None, bool | None, tuple[Role, ...]]
"""(pool, time limit, whether it may be stopped there: None in jobs of the previous version, gang)."""


@dataclass(frozen=True)
class ChoiceReader:
    """Reads in which pools a job waits. team, pool: indices by id. quotas: {(team, pool)}. gangs: read before."""

    team: dict[int, int]
    pool: dict[int, int]
    kinds: list[Kind]
    quotas: set[tuple[int, int]]
    gangs: dict[str, Any]

    def list_records(self, job: QueuedRow) -> list[tuple[int, QueuedRow, tuple[Role, ...]]]:
        """Return (choice, row, gang) for each pool. One that is gone, or of which the team has no quota, is none."""
        if job.choices == "[]":
            return [(-1, job, self._gang_of(job.gang))]
        choices = [one for one in self._choices_of(job.choices) if self._is_open(job, one[0])]
        if not choices:
            return [(-1, job, self._gang_of(job.gang))]
        return [(place, _enter_pool(job, choice), choice[-1]) for place, choice in enumerate(choices)]

    def _is_open(self, job: QueuedRow, pool_id: int) -> bool:
        return pool_id in self.pool and (job.team_id, pool_id) in self.quotas

    def _gang_of(self, text: str) -> tuple[Role, ...]:
        if text not in self.gangs:
            self.gangs[text] = build_gang(json.loads(text), self.kinds)
        return self.gangs[text]

    def _choices_of(self, text: str) -> list[Choice]:
        if text not in self.gangs:
            self.gangs[text] = [
                (
                    choice["pool"],
                    choice["max_time_s"],
                    choice.get("preemptible"),
                    self._gang_of(json.dumps(choice["gang"])),
                )
                for choice in json.loads(text)
            ]
        return self.gangs[text]


def _enter_pool(job: QueuedRow, choice: Choice) -> QueuedRow:
    """Return the row as it is in one of its pools."""
    pool_id, max_time_s, preemptible, _ = choice
    return job._replace(
        pool_id=pool_id, max_time_s=max_time_s, preemptible=job.preemptible if preemptible is None else preemptible
    )


def build_waiting(
    job: Job,
    *,
    team: int,
    user: int,
    pool: int,
    kinds: list[Kind],
    fetches: CacheLocations,
    reads: Iterable[str],
    lengths: JobLengths,
) -> WaitingJob:
    """Convert a job without a row."""
    since = job.eligible_at.timestamp()
    not_before = job.not_before.timestamp() if job.not_before else None
    times = job.kind, job.preemptible, job.time_s, job.max_time_s
    row = QueuedRow(0, team, user, pool, job.priority, since, since, "", job.held_at is not None, not_before, *times)
    row = row._replace(waits_for=json.dumps(job.waits_for))
    fetch = tuple(fetches.number[key] for key in reads if key in fetches.number)
    gang = fetches.share_with_fetch(fetch, build_gang(job.gang, kinds))
    length = lengths.predict_by(job, read_traits(job))
    return _waiting(row, gang, ArrayIndex({team: team}, {user: user}, {pool: pool}), length)


def build_gang(gang: list[dict], kinds: list[Kind]) -> tuple[Role, ...]:
    asks = [build_request(role["request"], kinds) for role in gang]
    if any(ask.gpus for ask in asks):
        asks = [ask if ask.gpus else replace(ask, beside_cards=True) for ask in asks]
    return tuple(
        Role(role["role"], role["min"], role["max"], ask, PlaceRule(**role["place"]) if "place" in role else None)
        for role, ask in zip(gang, asks, strict=True)
    )


def _waiting(
    job: QueuedRow, gang: tuple[Role, ...], places: ArrayIndex, length: PredictedLength, choice: int = -1
) -> WaitingJob:
    return WaitingJob(
        job=job.pk,
        team=places.team[job.team_id],
        user=places.user[job.user_id],
        pool=places.pool[job.pool_id],
        priority=job.priority,
        submitted_at=job.eligible_at,
        queued_at=job.queued_at,
        gang=gang,
        held=job.held,
        not_before=job.not_before or 0.0,
        after=tuple(json.loads(job.waits_for)) if job.waits_for != "[]" else (),
        time_s=length.expected_s,
        limit_s=get_max_time_s(job),
        latest_s=length.latest_s,
        preemptible=may_be_stopped(job),
        stops=job.stops,
        revision=job.revision,
        choice=choice,
    )


def _policy_of(pool: Pool) -> Policy:
    scores = weigh_scores(
        useful=pool.weight_useful,
        data=pool.weight_data,
        whole=pool.weight_whole,
        full_cards=pool.weight_full_cards,
        links=pool.weight_links,
        full_nodes=pool.weight_full_nodes,
    )
    return Policy(
        ageing_s=pool.ageing_s,
        reservations=pool.reservations,
        preempt=pool.preempt,
        short_first=pool.short_first,
        longest_s=pool.longest_s,
        stop_longer=pool.stop_longer,
        most_stops=pool.most_stops,
        scores=spread_scores(scores) if pool.arrangement == Arrangement.SPREAD else scores,
    )


def build_request(request: dict, kinds: list[Kind]) -> TaskResources:
    """Convert a role's request to integers per card kind."""
    ask = parse_gpu(request["gpu"])
    cpu, memory, rdma = request["cpu_milli"], request["memory_mib"], request.get("rdma", False)
    if ask.count == 0:
        return TaskResources(0, False, (), (), (), (), cpu, memory, rdma=rdma)
    needs = [_need(ask, kind) for kind in kinds]
    mib, percent, milli, preference = zip(*needs, strict=True) if needs else ((), (), (), ())
    return TaskResources(ask.count, not ask.is_slice, mib, percent, milli, preference, cpu, memory, rdma=rdma)


def _build_layouts(nodes: list[NodeRow], gpus: list[GpuRow]) -> tuple[LinkLayout | None, ...]:
    cards: dict[int, list[tuple[int, int | None]]] = {}
    for gpu in gpus:
        cards.setdefault(gpu.node_id, []).append((gpu.number, gpu.numa))
    return tuple(build_node_layout(node.topology, node.numa, tuple(cards.get(node.pk, ()))) for node in nodes)


@lru_cache(maxsize=4096)
def build_node_layout(topology: str, numa: str, cards: tuple[tuple[int, int | None], ...]) -> LinkLayout | None:
    """Return links between a node's cards, None if unknown or for another number of cards.

    cards: (index, NUMA node).
    """
    stored = json.loads(topology)
    links, pcie = stored.get("links") or [], stored.get("pcie") or []
    if not cards or len(links) != len(cards):
        return None
    rows = {card: row for row, card in enumerate(sorted(cards))}
    order = [rows[card] for card in cards]
    socket_of = {place["id"]: place.get("socket") for place in json.loads(numa)}
    return build_link_layout(
        _reordered(links, order),
        _reordered(pcie, order) if len(pcie) == len(links) else (),
        tuple(near for _, near in cards),
        tuple(socket_of.get(near) for _, near in cards),
        tuple(tuple(near.get(str(card), "SYS") for card, _ in cards) for near in _list_hcas(topology)),
    )


@lru_cache(maxsize=4096)
def _list_hcas(topology: str) -> tuple[dict[str, str], ...]:
    """Return how near each RDMA adapter that has a link is to cards: {index: word}."""
    return tuple(hca["near"] for hca in json.loads(topology).get("hcas", ()) if hca["active"])


def build_kind(gpu: GpuRow, pools: list[Pool]) -> Kind:
    pool = next(pool for pool in pools if pool.pk == gpu.pool_id)
    return Kind(gpu.model, gpu.product, gpu.sellable_mib, pool.accepts_watched_only or gpu.enforcement != "watchdog")


def _kind_key(gpu: GpuRow) -> tuple:
    return gpu.model, gpu.product, gpu.enforcement, gpu.sellable_mib, gpu.pool_id


def _need(ask: GpuAsk, kind: Kind) -> tuple[int, int, int, int]:
    """Return (MiB, percent, quota/1000, preference); -1: unacceptable."""
    share, rank = slice_of(ask, kind.sellable_mib), rank_of(ask, kind.model, kind.product)
    if share is None or rank is None or (ask.is_slice and not kind.sliceable):
        return 0, 0, 0, -1
    return share.memory_mib, share.compute_percent, gpu_milli(share, kind.sellable_mib), rank


def _reordered(matrix: list[list[str]], order: list[int]) -> LinkMatrix:
    return tuple(tuple(matrix[i][j] for j in order) for i in order)


def _card_arrays(machines: Machines, holdings: Holdings, places: ArrayIndex) -> dict[str, Any]:
    total = machines.arrays["gpu_total_mib"]
    at = holdings.places_of("gpu", places.gpu, len(total))
    used = holdings.sums(len(total), at)
    return {
        "gpu_free_mib": total - used[:, 3],
        "gpu_free_percent": 100 - used[:, 4],
        "gpu_slices": np.bincount(at, minlength=len(total) + 1)[: len(total)],
    }


def _node_arrays(machines: Machines, holdings: Holdings, places: ArrayIndex) -> dict[str, Any]:
    cpu, memory = machines.arrays["node_cpu_total"], machines.arrays["node_memory_total"]
    used = holdings.sums(len(cpu), holdings.places_of("node", places.node, len(cpu)))
    return {"node_cpu_free": cpu - used[:, 1], "node_memory_free": memory - used[:, 2]}


def build_team_arrays(
    teams: list[Team], pools: list[Pool], rows: list[Quota], holdings: Holdings, places: ArrayIndex
) -> dict[str, Any]:
    """Return what teams hold and may hold. places: of teams and pools."""
    parents = {team.pk: team.parent_id for team in teams}
    chains = [tuple(places.team[pk] for pk in team_chain(team.pk, parents)) for team in teams]
    quotas = {(quota.team_id, quota.pool_id): quota for quota in rows}
    pairs = len(teams) * len(pools)
    at = holdings.places_of("team", places.team, pairs) * len(pools) + holdings.places_of("pool", places.pool, pairs)
    own = holdings.sums(pairs, np.minimum(at, pairs))
    held = np.zeros((len(teams), len(pools), len(RESOURCES)), dtype=np.int64)
    for place, chain in enumerate(chains):
        held[list(chain)] += own.reshape(len(teams), len(pools), own.shape[1])[place, :, : len(RESOURCES)]
    return {
        "team_chain": tuple(chains),
        "held": held,
        "guarantee": _build_cube(teams, pools, lambda t, p: _guarantee(quotas.get((t.pk, p.pk)))),
        "limit": _build_cube(teams, pools, lambda t, p: _limit(quotas.get((t.pk, p.pk)), t.pk in parents.values())),
        "cells": tuple(
            Cell(places.team[quota.team_id], places.pool[quota.pool_id], quota.cell, quota.whole_nodes)
            for quota in quotas.values()
            if quota.whole_nodes
        ),
        "weight": [[_weight(quotas.get((team.pk, pool.pk))) for pool in pools] for team in teams],
        "team_names": tuple(team.name for team in teams),
        "pool_names": tuple(pool.name for pool in pools),
    }


def _user_arrays(user_ids: list[int], holdings: Holdings, places: ArrayIndex) -> dict[str, Any]:
    everyone = get_default_limit()
    rows = {row.user_id: row for row in load_limits(user_ids)}
    usual = everyone.effective(everyone)
    limits = [rows[pk].effective(everyone) if pk in rows else usual for pk in user_ids]
    running = load_active()
    used = holdings.sums(len(user_ids), holdings.places_of("user", places.user, len(user_ids)))
    return {
        "user_held": used[:, : len(RESOURCES)],
        "user_limit": _table([(_open(x["gpu_milli"]), _open(x["cpu_milli"]), _open(x["memory_mib"])) for x in limits]),
        "user_jobs": [running.get(pk, 0) for pk in user_ids],
        "user_jobs_limit": [_open(x["jobs_running"]) for x in limits],
    }


def _guarantee(quota: Quota | None) -> Amounts:
    return quota.guarantees() if quota else NOTHING


def _limit(quota: Quota | None, is_parent: bool) -> Amounts:
    """Return a team's limit; without a quota unlimited for parents, else zero."""
    if quota is None:
        return (UNLIMITED, UNLIMITED, UNLIMITED) if is_parent else NOTHING
    gpu, cpu, memory = quota.limits()
    return _open(gpu), _open(cpu), _open(memory)


def _weight(quota: Quota | None) -> int:
    return quota.weight if quota else 1


def _open(limit: int | None) -> int:
    return UNLIMITED if limit is None else limit


def _build_cube(teams: list[Team], pools: list[Pool], value: Callable[[Team, Pool], Amounts]) -> np.ndarray:
    """Return [T, P, 3]."""
    rows = [[value(team, pool) for pool in pools] for team in teams]
    return np.array(rows, dtype=np.int64).reshape(len(teams), len(pools), 3)


def _table(rows: list[Amounts]) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), 3)


def _places(keys: Iterable[int]) -> dict[int, int]:
    return {key: place for place, key in enumerate(keys)}


def _keys(rows: Iterable[Any]) -> list[int]:
    return [row.pk for row in rows]
