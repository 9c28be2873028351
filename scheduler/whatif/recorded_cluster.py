"""The cluster of a history as arrays, by the code that reads the platform's own rows, and its changes over time."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from accounts.models import Team
from cluster.models import NodeState, Pool, Window, parse_dates
from cluster.windows import AHEAD, spans_of
from monitoring.history.file_format import ChangeLine, History
from quotas.models import Quota, UserLimit
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.model.snapshot import UNLIMITED, Snapshot
from scheduler.core.model.types import RESOURCES, LendingWindow, MaintenanceWindow, Policy
from scheduler.loading.holdings import Holdings
from scheduler.loading.running_jobs import ArrayIndex
from scheduler.loading.snapshots import (
    GpuRow,
    Kind,
    Machines,
    NodeRow,
    build_machines,
    build_policy,
    build_team_arrays,
)

PERSONAL = (*RESOURCES, "jobs_running")


@dataclass
class RecordedCluster:
    """The settings of a history at one moment, which its changes move on.

    pools, teams, machines, people: {name: index}. cards: {(machine, number there): index}.
    """

    history: History
    policies: dict[str, dict] = field(default_factory=dict)
    quotas: dict[tuple[str, str], dict] = field(default_factory=dict)
    limits: dict[str, dict] = field(default_factory=dict)
    windows: dict[str, dict] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    healthy: dict[tuple[str, int], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = self.history
        self.policies = {pool.name: dict(pool.policy) for pool in lines.pools}
        self.quotas = {(quota.team, quota.pool): dict(quota.values) for quota in lines.quotas}
        self.limits = {limit.person: dict(limit.values) for limit in lines.limits}
        self.windows = {str(one.id): {k: v for k, v in vars(one).items() if k != "id"} for one in lines.windows}
        self.states = {machine.name: machine.state for machine in lines.machines}
        self.healthy = {(m.name, card["index"]): card["healthy"] for m in lines.machines for card in m.cards}
        self.pools = {pool.name: place for place, pool in enumerate(lines.pools)}
        self.teams = {team.name: place for place, team in enumerate(lines.teams)}
        self.machines = {machine.name: place for place, machine in enumerate(lines.machines)}
        self.people = {name: place for place, name in enumerate(dict.fromkeys(job.person for job in lines.jobs))}
        cards = [(m.name, card["index"]) for m in lines.machines for card in m.cards]
        self.cards = {card: place for place, card in enumerate(cards)}

    @cached_property
    def _machines(self) -> Machines:
        return build_machines(*self._machine_rows(), self._pool_rows())

    @property
    def kinds(self) -> list[Kind]:
        return self._machines.kinds

    def build_snapshot(self, now: float) -> Snapshot:
        """Build the empty cluster as it was then."""
        arrays = self._machines.arrays
        cards, people = len(self.cards), len(self.people)
        empty = {
            "gpu_free_mib": arrays["gpu_total_mib"],
            "gpu_free_percent": np.full(cards, 100),
            "gpu_slices": np.zeros(cards),
            "node_cpu_free": arrays["node_cpu_total"],
            "node_memory_free": arrays["node_memory_total"],
            "user_held": np.zeros((people, len(RESOURCES))),
            "user_jobs": np.zeros(people),
            "node_rdma": np.ones(len(self.machines)),  # the file does not say which have adapters
        }
        quotas = self._team_arrays()
        settings = {**self._limit_arrays(), **self._open(), **self._timed(now)}
        return Snapshot(
            **(arrays | empty | quotas | settings), kind_names=tuple(kind.model for kind in self.kinds)
        )  # fmt: skip

    def build_policy(self) -> Policy:
        return build_policy(self._pool_rows())

    def list_changes(self) -> Iterator[tuple[float, Any]]:
        """Yield what is done to a simulation and when: each change of the file, and when a maintenance is known."""
        for change in self.history.changes:
            yield change.at, lambda play, change=change: self._apply(change, play)
        begins, ends = self.history.header.begins, self.history.header.ends
        for planned in self.history.maintenances:
            for at in (planned.known_at, planned.over_at):
                if begins < at <= ends:
                    yield at, lambda play: play.change_cluster(closings=self._closings(play.now))
        if self.history.windows or any(change.of == "window" for change in self.history.changes):
            at = begins + timedelta(days=AHEAD - 1).total_seconds()
            while at < ends:  # windows are known for a while ahead
                yield at, lambda play: play.change_cluster(windows=self._windows(play.now))
                at += timedelta(days=AHEAD - 1).total_seconds()

    def _apply(self, change: ChangeLine, play: Simulation) -> None:
        """Make a change of the file to the settings and to the simulation."""
        values, which = change.values, change.which
        if change.of == "pool":
            self.policies[which[0]].update(values or {})
            play.policy = self.build_policy()
            play.change_cluster()
        elif change.of == "quota":
            _put(self.quotas, (which[0], which[1]), values)
            quotas = self._team_arrays()
            wanted = ("guarantee", "limit", "weight")
            play.change_cluster(**{name: quotas[name] for name in wanted}, cells=quotas["cells"])
        elif change.of == "limit":
            _put(self.limits, which[0], values)
            play.change_cluster(**self._limit_arrays())
        elif change.of == "window":
            _put(self.windows, str(which[0]), values)
            play.change_cluster(windows=self._windows(play.now))
        elif change.of == "machine":
            self.states[which[0]] = (values or {}).get("state", "")
            play.change_cluster(**self._open())
        elif (which[0], which[1]) in self.healthy:
            self.healthy[which[0], which[1]] = bool((values or {}).get("healthy"))
            play.change_cluster(**self._open())

    def _pool_rows(self) -> list[Pool]:
        return [Pool(pk=place, name=name, **self.policies[name]) for name, place in self.pools.items()]

    def _machine_rows(self) -> tuple[list[NodeRow], list[GpuRow]]:
        nodes, gpus = [], []
        for place, machine in enumerate(self.history.machines):
            size = machine.cpu_milli, machine.memory_mib
            nodes.append(
                NodeRow(
                    place,
                    machine.name,
                    self.pools[machine.pool],
                    NodeState.READY,
                    *size,
                    "{}",
                    "[]",
                    machine.switch,
                    "{}",
                )
            )
            for card in machine.cards:
                at, enforced = self.cards[machine.name, card["index"]], "device" if card["sliceable"] else "watchdog"
                whose = at, place, self.pools[card["pool"]], card["index"], None, True
                kind = card["model"], card["product"], enforced, True
                gpus.append(GpuRow(*whose, *kind, card["memory_mib"], 0))
        return nodes, gpus

    def _team_arrays(self) -> dict[str, Any]:
        at = self.teams
        teams = [Team(pk=at[t.name], name=t.name, parent_id=at.get(t.parent)) for t in self.history.teams]
        rows = [
            Quota(team_id=at[team], pool_id=self.pools[pool], **values)
            for (team, pool), values in self.quotas.items()
            if team in at and pool in self.pools
        ]
        places = ArrayIndex({pk: pk for pk in at.values()}, {}, {pk: pk for pk in self.pools.values()})
        return build_team_arrays(teams, self._pool_rows(), rows, Holdings(), places)

    def _limit_arrays(self) -> dict[str, Any]:
        everyone = UserLimit(**self.limits.get("", {}))
        rows = [UserLimit(**self.limits.get(person, {})).effective(everyone) for person in self.people]
        table = [[UNLIMITED if row[name] is None else row[name] for name in PERSONAL] for row in rows]
        limits = np.array(table, dtype=np.int64).reshape(len(rows), len(PERSONAL))
        return {"user_limit": limits[:, :-1], "user_jobs_limit": limits[:, -1]}

    def _open(self) -> dict[str, Any]:
        states = [self.states[name] for name in self.machines]
        there = [bool(state) for state in states]
        sound = [self.healthy[card] and there[self.machines[card[0]]] for card in self.cards]
        return {
            "node_open": np.array([state == NodeState.READY for state in states], dtype=bool),
            "gpu_open": np.array(sound, dtype=bool),
            "draining": tuple(place for place, state in enumerate(states) if state == NodeState.DRAINING),
        }

    def _timed(self, now: float) -> dict[str, Any]:
        return {"windows": self._windows(now), "closings": self._closings(now)}

    def _closings(self, now: float) -> tuple[MaintenanceWindow, ...]:
        """Return what was planned at that time and not over."""
        known = [one for one in self.history.maintenances if one.known_at <= now < one.over_at]
        return tuple(
            MaintenanceWindow(
                tuple(sorted(self.machines[name] for name in one.machines)), one.begins_at, one.ends_at, one.stops
            )
            for one in known
            if one.machines
        )

    def _windows(self, now: float) -> tuple[LendingWindow, ...]:
        rows: dict[tuple[str, str], list[Window]] = defaultdict(list)
        for values in self.windows.values():
            if {values["lender"], values["borrower"]} <= self.pools.keys():
                rows[values["lender"], values["borrower"]].append(_window_row(values))
        card_pools = [card["pool"] for machine in self.history.machines for card in machine.cards]
        found = []
        for (lender, borrower), hours in rows.items():
            gpus = tuple(place for place, pool in enumerate(card_pools) if pool == lender)
            spans = spans_of(hours, datetime.fromtimestamp(now, UTC))
            to = self.pools[borrower]
            found += [LendingWindow(gpus, to, b.timestamp(), e.timestamp()) for b, e in spans if gpus]
        return tuple(found)


def _put(settings: dict, key: Any, values: Mapping | None) -> None:
    if values is None:
        settings.pop(key, None)
    else:
        settings[key] = {**settings.get(key, {}), **values}


def _window_row(values: Mapping[str, str]) -> Window:
    parse_dates(values["holidays"])
    hours = {name: time.fromisoformat(values[key]) for name, key in (("begins", "opens"), ("ends", "closes"))}
    return Window(weekdays=values["weekdays"], zone=values["zone"], holidays=values["holidays"], **hours)
