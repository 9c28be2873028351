"""Tick of this machine: what each card and task has used, as totals since the run of ticks began.

Many processes may take ticks in turn: the totals are kept in a file. Simulated cards follow their tasks' traces
(simulated_load.py); how busy real ones were comes from the samples that their driver keeps.
"""

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from agent.gpu.busy_total import MEASURED, BusyTotal
from agent.gpu.counters.gpm import GpmReader
from agent.gpu.meter import SIMULATED, build_card, tell_worked
from agent.gpu.samples import Sample, take_samples
from agent.gpu.share_busy import CardShares, add_shares
from agent.usage.machine import MachineReader
from runtimes.local.gpm_totals import follow_means
from runtimes.local.processes import list_descendants, list_processes, read_boot_id
from runtimes.local.runtime import LocalRuntime
from runtimes.local.simulated_load import COOL_C, build_load
from runtimes.local.taskdir import TaskDir, list_tasks
from runtimes.storage.file_lock import hold_file_lock

IDLE_W, FULL_W = 45, 290
"""Power of a simulated card."""
COMPUTES = 0.05
"""Of a core: a program that uses less is not at work."""
NVML_PATIENCE_S = 5.0


class MayBeSimulated(Protocol):
    """A card, as a runtime or a row of the platform tells it."""

    @property
    def simulated(self) -> bool: ...


@dataclass(frozen=True)
class TaskLook:
    """A running task. shares: of its cards, as in spec.json. counted_s: when its counters were read. pid: its shim."""

    uuid: str
    started_s: float
    trace: str
    shares: tuple[dict, ...]
    counters: dict = field(default_factory=dict)
    counted_s: float | None = None
    gpu_use: dict = field(default_factory=dict)
    pid: int = 0


@dataclass
class Totals:
    """What the next tick goes on from. cards: simulated ones, in ms of activity; real: the others. ran_s: how long each
    task's traces were followed. busy: by task and card. real_shares: of tasks in real cards, by card. worked: what
    GPM tells of real cards. cpu: when the CPU time of a task was counted, that time, and whether it computed until
    then.
    """

    run: str
    began_s: float
    seq: int = 0
    cards: dict[str, float] = field(default_factory=dict)
    real: dict[str, BusyTotal] = field(default_factory=dict)
    real_shares: dict[str, CardShares] = field(default_factory=dict)
    worked: dict[str, dict[str, float]] = field(default_factory=dict)
    ran_s: dict[str, float] = field(default_factory=dict)
    busy: dict[str, dict[str, float]] = field(default_factory=dict)
    cpu: dict[str, tuple[float, int, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """A task's part in a simulated card. active: of the whole card, now, 1 at most."""

    uuid: str
    busy_ms: float
    used_mib: int
    active: float
    heat_c: int

    def tell(self) -> dict:
        return {"uuid": self.uuid, "busy_ms": int(self.busy_ms), "used_mib": self.used_mib, "source": SIMULATED}


class LocalSampler:
    def __init__(self, runtime: LocalRuntime):
        self.runtime = runtime
        self.node_name = runtime.config.node_name
        self.file = runtime.config.data_dir / "samples"
        self._driver = DriverLook()
        config = runtime.config
        self._machine = MachineReader([Path("/"), config.data_dir, config.log_dir, config.areas_dir])

    def take(self) -> dict:
        """Return a body of one tick (monitoring/samples/wire.py). Raises Unavailable, OSError."""
        cards = self.runtime.machine.cards
        measured = {} if all(card.simulated for card in cards.values()) else self._driver.look()
        with hold_file_lock(f"{self.file}.lock"):
            now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            looks = [look for task in list_tasks(self.runtime.config.tasks_dir) if (look := look_at_task(task))]
            totals = read_totals(self.file, read_boot_id(), now_s)
            count_real_shares(looks, measured, totals, time.time())
            tick = build_tick(looks, cards, measured, totals, now_s) | {"node": self._machine.read()}
            write_totals(self.file, totals)
        return {"run": totals.run, "first": tick["seq"], "ticks": [tick]}


class DriverLook:
    """NVML's look at real cards, in a thread of its own: a driver that hangs costs their values, never the tick."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._found: dict[str, Sample] = {}
        self._gpm = GpmReader()

    def look(self) -> dict[str, Sample]:
        if self._thread is None or not self._thread.is_alive():
            self._found = {}
            self._thread = threading.Thread(target=self._take, daemon=True)
            self._thread.start()
        self._thread.join(NVML_PATIENCE_S)
        return {} if self._thread.is_alive() else self._found

    def _take(self) -> None:
        self._found = {str(sample["uuid"]): sample for sample in take_samples(self._gpm)}


def look_at_task(task: TaskDir) -> TaskLook | None:
    """Return what is known of a task, None unless it runs."""
    try:
        record, started, ended = (task.read(name) for name in ("spec.json", "started", "exit"))
        if record is None or started is None or ended is not None:
            return None
        use, gpu, resized = (task.read(name) or {} for name in ("use", "gpu", "resize"))
    except OSError:
        return None
    limits = resized.get("limits_mib", {})
    return TaskLook(
        task.uuid,
        started["start"] / os.sysconf("SC_CLK_TCK"),
        record["spec"].get("simulated_trace", ""),
        tuple(
            share | {"memory_mib": limits.get(share["uuid"], share["memory_mib"])} for share in record["spec"]["gpus"]
        ),
        use.get("counters", {}),
        use.get("at_s"),
        gpu.get("cards", {}),
        started.get("pid", 0),
    )


def build_tick(
    looks: list[TaskLook],
    cards: Mapping[str, MayBeSimulated],
    measured: Mapping[str, Sample],
    totals: Totals,
    now_s: float,
) -> dict:
    """Return the next tick and move the totals on to it."""
    totals.seq += 1
    totals.ran_s = {look.uuid: totals.ran_s[look.uuid] for look in looks if look.uuid in totals.ran_s}
    totals.busy = {look.uuid: totals.busy.get(look.uuid, {}) for look in looks}
    totals.cpu = {look.uuid: totals.cpu[look.uuid] for look in looks if look.uuid in totals.cpu}
    parts: dict[str, list[Part]] = {uuid: [] for uuid, card in cards.items() if card.simulated}
    real_cards = {uuid: move_real_card(sample, totals, now_s) for uuid, sample in measured.items() if uuid in cards}
    tasks = []
    for look in looks:
        simulated = follow_trace(look, [share for share in look.shares if share["uuid"] in parts], totals, now_s)
        for part in simulated:
            parts[part.uuid].append(part)
        real = [
            tell_real_share(look, share, real_cards.get(share["uuid"], {}), totals)
            for share in look.shares
            if share["uuid"] in cards and share["uuid"] not in parts
        ]
        counted = {} if look.counted_s is None else {"age_ms": max(round(1000 * (now_s - look.counted_s)), 0)}
        shares = [*(part.tell() for part in simulated), *real]
        tasks.append({"task": look.uuid, **counted, **look.counters, "shares": [share for share in shares if share]})
    up_ms = round(1000 * (now_s - totals.began_s))
    told = [simulate_card(uuid, totals.cards.get(uuid, 0.0), found, up_ms) for uuid, found in parts.items()]
    told += real_cards.values()
    return {"seq": totals.seq, "age_ms": 0, "up_ms": up_ms, "cards": told, "tasks": tasks}


def follow_trace(look: TaskLook, shares: list[dict], totals: Totals, now_s: float) -> list[Part]:
    """Return what a task does with its simulated cards, and move its totals on to now."""
    load, ran_s, computes = build_load(look.trace, look.uuid), max(now_s - look.started_s, 0.0), True
    followed_s = totals.ran_s.get(look.uuid, max(totals.began_s - look.started_s, 0.0))
    if load.with_cpu and look.counted_s is not None and "cpu_ms" in look.counters:
        followed_s = totals.ran_s.get(look.uuid, 0.0)
        computed_s, computes = count_computing(look.uuid, look.counted_s, look.counters["cpu_ms"], totals)
        ran_s = followed_s + computed_s
    worked_ms = max(load.count_busy_ms(ran_s) - load.count_busy_ms(followed_s), 0.0)
    totals.ran_s[look.uuid] = ran_s
    busy, parts = totals.busy[look.uuid], []
    for share in shares:
        uuid, of_card = share["uuid"], share["compute_percent"] / 100
        busy[uuid] = busy.get(uuid, 0.0) + worked_ms * of_card
        totals.cards[uuid] = totals.cards.get(uuid, 0.0) + worked_ms * of_card
        used_mib = load.read_memory_mib(ran_s, share["memory_mib"])
        active = load.read_activity(ran_s) / 100 * of_card if computes else 0.0
        parts.append(Part(uuid, busy[uuid], used_mib, active, load.heat_c))
    return parts


def count_computing(task: str, counted_s: float, cpu_ms: int, totals: Totals) -> tuple[float, bool]:
    """Return for how many seconds a task has computed since its CPU time was counted last, and whether it does."""
    before_s, before_ms, computes = totals.cpu.get(task, (counted_s, cpu_ms, False))
    since_s = max(counted_s - before_s, 0.0)
    if since_s > 0:
        computes = cpu_ms - before_ms >= COMPUTES * 1000 * since_s
    totals.cpu[task] = counted_s, cpu_ms, computes
    return since_s if computes else 0.0, computes


def simulate_card(uuid: str, busy_ms: float, parts: list[Part], up_ms: int) -> dict:
    """Return a simulated card with what its tasks make of it now. It draws its watts since the run began."""
    return {
        "uuid": uuid,
        "busy_ms": int(busy_ms),
        "used_mib": sum(part.used_mib for part in parts),
        "temperature_c": round(COOL_C + sum(part.active * part.heat_c for part in parts)),
        "power_w": round(IDLE_W + (FULL_W - IDLE_W) * sum(part.active for part in parts)),
        "energy_mj": IDLE_W * up_ms + int((FULL_W - IDLE_W) * busy_ms),
        "source": SIMULATED,
    }


def count_real_shares(looks: list[TaskLook], measured: Mapping[str, Sample], totals: Totals, now_s: float) -> None:
    """Move the totals of tasks in real cards on, by what the driver sampled of their processes."""
    now_us, living = round(now_s * 1e6), list_processes() if measured else []
    families = {look.uuid: {each.pid for each in list_descendants({look.pid}, living)} for look in looks if look.pid}
    owners = {pid: uuid for uuid, pids in families.items() for pid in pids}
    for uuid, sample in measured.items():
        samples, card = sample.get("processes"), totals.real_shares.get(uuid)
        if samples is None:
            totals.real_shares.pop(uuid, None)
        elif card is None:
            totals.real_shares[uuid] = CardShares(now_us)
        else:
            there = {-number: look.uuid for number, look in enumerate(looks, 1)}  # also those without a process there
            add_shares(card, samples, owners | there, now_us)
            card.busy_ms = {task: busy for task, busy in card.busy_ms.items() if task in families}


def tell_real_share(look: TaskLook, share: dict, card: dict, totals: Totals) -> dict:
    """Return a task's share of a real card; empty if nothing is known. Who holds the card alone takes all its time."""
    uuid, use = share["uuid"], look.gpu_use.get(share["uuid"], {})
    told = {"used_mib": use["used_mib"]} if "used_mib" in use else {}
    counted, source = totals.real_shares.get(uuid), MEASURED
    if share.get("whole"):
        told |= {name: card[name] for name in ("busy_ms", "used_mib") if name in card and name not in told}
        source = card.get("source", MEASURED)
    elif counted is not None and look.uuid in counted.busy_ms:
        told["busy_ms"], source = int(counted.busy_ms[look.uuid]), counted.source
    return {"uuid": uuid, **told, "source": source} if told else {}


def move_real_card(sample: Sample, totals: Totals, now_s: float) -> dict:
    """Return a real card, and move its total on to its newest sample."""
    uuid = str(sample["uuid"])
    card, total = build_card(sample, totals.real.get(uuid))
    if total is not None:
        totals.real[uuid] = total
    totals.worked[uuid], known = follow_means(totals.worked.get(uuid, {}), sample.get("means"), now_s)
    return card | tell_worked(sample, totals.worked[uuid], known)


def read_totals(file: Path, boot_id: str, now_s: float) -> Totals:
    """Return the totals of the last tick, or those of a new run if there was none since the machine started."""
    try:
        kept = json.loads(file.read_text())
        real = {uuid: BusyTotal(**known) for uuid, known in kept.pop("real", {}).items()}
        shares = {uuid: CardShares(**known) for uuid, known in kept.pop("real_shares", {}).items()}
        totals = Totals(**kept, real=real, real_shares=shares)
    except (OSError, ValueError, TypeError, AttributeError):
        totals = None
    if totals is None or not totals.run.startswith(f"{boot_id}/") or totals.began_s > now_s:
        return Totals(f"{boot_id}/{uuid4().hex[:8]}", now_s)
    return totals


def write_totals(file: Path, totals: Totals) -> None:
    """Write atomically. Raises OSError."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_text(json.dumps(asdict(totals)))
    temporary.rename(file)
