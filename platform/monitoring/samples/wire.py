"""What samplers send, read value by value: one that is no sense is dropped and counted, the rest is taken. Pure.

    {"run": "boot-id/1732", "first": 4711, "ticks": [{"seq": 4711, "age_ms": 870, "up_ms": 91000,
     "cards": [{"uuid": "GPU-…", "source": "measured", "busy_ms": 81234, "used_mib": 30100, "temperature_c": 61,
                "power_w": 240, "clock_mhz": 1410, "energy_mj": 91234567, "sm_ms": 40012, "pcie_rx_kib": 7340032, …}],
     "tasks": [{"task": "hex", "age_ms": 1200, "cpu_ms": 7, "memory_mib": 512, "peak_mib": 600, "processes": 3,
                "read_kib": 12, "write_kib": 4, "net_rx_kib": 80, "net_tx_kib": 9,
                "shares": [{"uuid": "GPU-…", "source": "measured", "busy_ms": 3, "used_mib": 900}]}],
     "node": {"cpu_ms": 912000, "cores": 64, "memory_mib": 81000, …,
              "disks": [{"path": "/var/lib", "used_mib": 5, "all_mib": 9, "read_only": false, …}]}}]}

checks, where they were made since the body before: [{"name": "gpu_xid", "card": "GPU-…", "state": "fail", "words": "…",
"count": 1}], all of the machine; state is ok, warn, fail or unknown, without a card it is the machine's.

run: changes when the sampler starts anew, and the totals of cards and shares with it; those of a task begin with the
task. seq: grows with each tick. age_ms: how long ago it
was, so that no clock is compared; of a task, since its counters were read. up_ms: how long the run had lasted.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from monitoring.samples.card_counters import COUNTERS

SOURCES = frozenset({"measured", "estimated", "simulated"})
STATES = frozenset({"ok", "warn", "fail", "unknown"})
CHECK = re.compile(r"[a-z][a-z0-9_]{0,39}")
MOST_CHECKS, MOST_WORDS = 4096, 300
TASK = re.compile(r"[0-9a-f]{32}")
MOST_TICKS, MOST_CARDS, MOST_TASKS, MOST_NAME = 360, 1024, 4096, 100
MOST = 2**53
"""Of totals: what survives JSON everywhere."""
MOST_AGE_MS = 30 * 60_000
CARD_VALUES: dict[str, int] = {
    "busy_ms": MOST,
    "energy_mj": MOST,
    "used_mib": 2**31 - 1,
    "temperature_c": 250,
    "power_w": 100_000,
    "clock_mhz": 100_000,
}
CARD_VALUES |= dict.fromkeys(COUNTERS, MOST)
SHARE_VALUES = {"busy_ms": MOST, "used_mib": 2**31 - 1}
TASK_VALUES = {
    "cpu_ms": MOST,
    "memory_mib": 2**31 - 1,
    "peak_mib": 2**31 - 1,
    "processes": 2**31 - 1,
    "read_kib": MOST,
    "write_kib": MOST,
    "net_rx_kib": MOST,
    "net_tx_kib": MOST,
}
NODE_VALUES = {
    "cpu_ms": MOST,
    "cores": 2**20,
    "memory_mib": 2**31 - 1,
    "memory_all_mib": 2**31 - 1,
    "swap_mib": 2**31 - 1,
    "swap_all_mib": 2**31 - 1,
    "load_centi": 2**31 - 1,
    "net_rx_kib": MOST,
    "net_tx_kib": MOST,
    "agent_cpu_ms": MOST,
    "agent_mib": 2**31 - 1,
}
DISK_VALUES = {"used_mib": MOST, "all_mib": MOST, "inodes": MOST, "all_inodes": MOST}
MOST_DISKS = 32

Values = dict[str, int]


@dataclass(frozen=True)
class Sampled:
    """Values of a card, or of a task's share of one."""

    source: str
    values: Values


@dataclass(frozen=True)
class TaskSampled:
    age_ms: int
    values: Values
    shares: dict[str, Sampled]


@dataclass(frozen=True)
class NodeSampled:
    """disks: by path; `read_only` is 0 or 1 there."""

    values: Values
    disks: dict[str, Values]


@dataclass(frozen=True)
class Tick:
    """node: None where nothing was told of the machine itself."""

    seq: int
    age_ms: int
    up_ms: int
    cards: dict[str, Sampled]
    tasks: dict[UUID, TaskSampled]
    node: NodeSampled | None = None


@dataclass(frozen=True)
class Checked:
    """What a check of the machine, or of a card of it, says. card: "" for the machine."""

    name: str
    card: str
    state: str
    words: str
    count: int


@dataclass
class Body:
    """run: "" if the body cannot be used at all. checks: None if none were made. refused: dropped values and parts, by
    what is wrong.
    """

    run: str = ""
    ticks: list[Tick] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    checks: list[Checked] | None = None


def read_body(sent: Any) -> Body:
    body = Body()
    run = sent.get("run") if isinstance(sent, dict) else None
    if not isinstance(run, str) or not run.strip() or len(run) > MOST_NAME or "\0" in run:
        body.refused["run"] += 1
        return body
    body.run = run
    for part in _read_list(sent, "ticks", MOST_TICKS, body.refused):
        if (tick := _read_tick(part, body.refused)) is not None:
            body.ticks.append(tick)
    body.ticks.sort(key=lambda tick: tick.seq)
    if "checks" in sent:
        parts = _read_list(sent, "checks", MOST_CHECKS, body.refused)
        body.checks = [check for part in parts if (check := _read_check(part, body.refused)) is not None]
    return body


def _read_tick(part: dict, refused: Counter[str]) -> Tick | None:
    marks = {"seq": MOST, "age_ms": MOST_AGE_MS, "up_ms": MOST}
    found = _read_values(part, marks, refused)
    if found.keys() != marks.keys():
        refused["tick"] += 1
        return None
    cards = _read_named(part, "cards", MOST_CARDS, _read_uuid, _read_sampled(CARD_VALUES), refused)
    tasks = _read_named(part, "tasks", MOST_TASKS, _read_task_uuid, _read_task, refused)
    return Tick(**found, cards=cards, tasks=tasks, node=_read_node(part, refused))


def _read_node(part: dict, refused: Counter[str]) -> NodeSampled | None:
    told = part.get("node")
    if not told or not isinstance(told, dict):
        refused.update({} if told is None or told == {} else {"node": 1})
        return None
    disks = _read_named(told, "disks", MOST_DISKS, _read_path, _read_disk, refused)
    return NodeSampled(_read_values(told, NODE_VALUES, refused), disks)


def _read_disk(part: dict, refused: Counter[str]) -> Values:
    read_only = part.get("read_only")
    if read_only is not None and type(read_only) is not bool:
        refused["read_only"] += 1
        read_only = None
    return _read_values(part, DISK_VALUES, refused) | ({} if read_only is None else {"read_only": int(read_only)})


def _read_check(part: dict, refused: Counter[str]) -> Checked | None:
    name, card, state, words = (part.get(key, "") for key in ("name", "card", "state", "words"))
    count = _read_values(part, {"count": MOST}, refused).get("count", 0)
    texts = all(isinstance(text, str) and "\0" not in text for text in (card, words))
    if not (isinstance(name, str) and CHECK.fullmatch(name) and texts and len(card) <= MOST_NAME):
        refused["check"] += 1
        return None
    if not isinstance(state, str) or state not in STATES:
        refused["state"] += 1
        return None
    return Checked(name, card, state, words[:MOST_WORDS], count)


def _read_task(part: dict, refused: Counter[str]) -> TaskSampled:
    shares = _read_named(part, "shares", MOST_CARDS, _read_uuid, _read_sampled(SHARE_VALUES), refused)
    age = _read_values(part, {"age_ms": MOST_AGE_MS}, refused).get("age_ms")
    values = _read_values(part, TASK_VALUES, refused)
    if age is None and values:  # as of when is not known, so their growth would not be, either
        refused["age_ms"] += 1
        values = {}
    return TaskSampled(age or 0, values, shares)


def _read_sampled(known: Mapping[str, int]) -> Callable[[dict, Counter[str]], Sampled | None]:
    def read(part: dict, refused: Counter[str]) -> Sampled | None:
        source = part.get("source")
        if not isinstance(source, str) or source not in SOURCES:
            refused["source"] += 1
            return None
        return Sampled(source, _read_values(part, known, refused))

    return read


def _read_named(
    part: dict, name: str, most: int, read_key: Callable[[dict], Any], read: Callable, refused: Counter[str]
) -> dict:
    """Read a list of parts by what they are of; of several of the same, the first."""
    found: dict = {}
    for one in _read_list(part, name, most, refused):
        key = read_key(one)
        if key is None or key in found:
            refused[name] += 1
        elif (values := read(one, refused)) is not None:
            found[key] = values
    return found


def _read_list(part: dict, name: str, most: int, refused: Counter[str]) -> list[dict]:
    """Read a list of objects; what is none, and what is too much, is refused."""
    found = part.get(name, [])
    if not isinstance(found, list):
        refused[name] += 1
        return []
    taken = [one for one in found[:most] if isinstance(one, dict)]
    if len(taken) < len(found):
        refused[name] += len(found) - len(taken)
    return taken


def _read_values(part: dict, known: Mapping[str, int], refused: Counter[str]) -> Values:
    """Read whole numbers from 0 to the most of each. null is as good as absent."""
    values = {}
    for name, most in known.items():
        value = part.get(name)
        if type(value) is int and 0 <= value <= most:
            values[name] = value
        elif value is not None:
            refused[name] += 1
    return values


def _read_uuid(part: dict) -> str | None:
    return _read_name(part, "uuid")


def _read_path(part: dict) -> str | None:
    return _read_name(part, "path")


def _read_name(part: dict, name: str) -> str | None:
    found = part.get(name)
    return found if isinstance(found, str) and 0 < len(found) <= MOST_NAME and "\0" not in found else None


def _read_task_uuid(part: dict) -> UUID | None:
    uuid = part.get("task")
    return UUID(uuid) if isinstance(uuid, str) and TASK.fullmatch(uuid) else None
