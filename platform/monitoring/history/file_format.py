"""The file of what happened: JSON lines, gzipped, described in docs/history-file.md. Pure, and read without a database.

Each line is a mapping whose `line` names its class in LINES; the first is the header. Times are seconds since 1970 in
UTC. Amounts of cards are thousandths (milli), of memory MiB.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

VERSION = 1


class BadHistory(ValueError):
    """A file that cannot be read: it says where and what to do."""


@dataclass(frozen=True)
class Header:
    """anonymous: whether names are replaced by numbers."""

    version: int
    begins: float
    ends: float
    anonymous: bool


@dataclass(frozen=True)
class PoolLine:
    """A pool as it was at the beginning. policy: fields of a pool by the names that the API has. lengths_s: of jobs
    that said no time and ended by themselves before, by which the length of others was expected.
    """

    name: str
    policy: dict
    lengths_s: list = field(default_factory=list)


@dataclass(frozen=True)
class TeamLine:
    """parent: the name of the team above, "" if there is none."""

    name: str
    parent: str = ""


@dataclass(frozen=True)
class MachineLine:
    """A machine that was there at some time. state: at the beginning; "" where it came only later.

    cards: [{index, model, product, memory_mib, pool, sliceable, healthy}]; memory_mib is what jobs may have of it.
    switch: "" where it is not known.
    """

    name: str
    pool: str
    cpu_milli: int
    memory_mib: int
    state: str
    cards: list
    switch: str = ""


@dataclass(frozen=True)
class WindowLine:
    """Hours in which a pool lends, at the beginning. opens, closes: HH:MM in the zone. holidays: dates, as text."""

    id: int
    lender: str
    borrower: str
    weekdays: str
    opens: str
    closes: str
    zone: str
    holidays: str


@dataclass(frozen=True)
class MaintenanceLine:
    """known_at: when it was planned. ends_at: as it was planned. over_at: when it really was."""

    known_at: float
    begins_at: float
    ends_at: float
    over_at: float
    machines: list
    stops: bool


@dataclass(frozen=True)
class QuotaLine:
    """A team's quota in a pool at the beginning. values: by the fields of a quota that the API has."""

    team: str
    pool: str
    values: dict


@dataclass(frozen=True)
class LimitLine:
    """What a person may hold, at the beginning. person: "" is everyone without a value of their own."""

    person: str
    values: dict


@dataclass(frozen=True)
class UsualLine:
    """What so many of the newest jobs before the beginning asked for: what placement had learnt from."""

    gang: list
    jobs: int


@dataclass(frozen=True)
class ChangeLine:
    """A change between beginning and end, in order of time. values: fields as they are from then on; null: it is gone.

    of: "pool" (which: [pool]), "quota" ([team, pool]), "limit" ([person]), "window" ([id]), "machine" ([machine], with
    the value state) or "card" ([machine, index], with the value healthy).
    """

    at: float
    of: str
    which: list
    values: dict | None


@dataclass(frozen=True)
class Seat:
    """Where a task was. cards: [[index, MiB, percent of compute, milli]]."""

    role: str
    rank: int
    machine: str
    cards: list
    cpu_milli: int = 0
    memory_mib: int = 0


@dataclass(frozen=True)
class Attempt:
    """A try. queued_at: when it was, its pause not counted. freed_at: when its cards were free again. reason: why it
    ended, "" while it goes on. lost: machines whose failure ended it.
    """

    queued_at: float
    assigned_at: float | None = None
    started_at: float | None = None
    saved_at: float | None = None
    freed_at: float | None = None
    reason: str = ""
    pool: str = ""
    seats: list = field(default_factory=list)
    lost: list = field(default_factory=list)


@dataclass(frozen=True)
class JobLine:
    """A job that waited or ran between beginning and end, with what it asked and all its attempts.

    choices: [{pool, gang, max_time_s, maybe preemptible}], where it may run in its order of preference; a gang is
    [{role, min, max, request: {gpu, cpu_milli, memory_mib}}]. submitted_at: its start_at, if that is later. time_s:
    what was said. retry: {times, when}. name, image: "" if there is none. command: a number that is the same for the
    same command. holds: [[from, to or null]].
    """

    id: int
    team: str
    person: str
    kind: str
    priority: int
    preemptible: bool
    choices: list
    submitted_at: float
    attempts: list
    time_s: int | None = None
    retry: dict = field(default_factory=dict)
    saves: bool = False
    holds: list = field(default_factory=list)
    ended_at: float | None = None
    name: str = ""
    image: str = ""
    command: str = ""


LINES: dict[str, type] = {
    "header": Header,
    "pool": PoolLine,
    "team": TeamLine,
    "machine": MachineLine,
    "window": WindowLine,
    "maintenance": MaintenanceLine,
    "quota": QuotaLine,
    "limit": LimitLine,
    "usual": UsualLine,
    "change": ChangeLine,
    "job": JobLine,
}
NAMES = {kind: name for name, kind in LINES.items()}


@dataclass(frozen=True)
class History:
    """A file that was read."""

    header: Header
    pools: tuple[PoolLine, ...] = ()
    teams: tuple[TeamLine, ...] = ()
    machines: tuple[MachineLine, ...] = ()
    windows: tuple[WindowLine, ...] = ()
    maintenances: tuple[MaintenanceLine, ...] = ()
    quotas: tuple[QuotaLine, ...] = ()
    limits: tuple[LimitLine, ...] = ()
    usuals: tuple[UsualLine, ...] = ()
    changes: tuple[ChangeLine, ...] = ()
    jobs: tuple[JobLine, ...] = ()


def write_line(line: Any) -> bytes:
    return json.dumps({"line": NAMES[type(line)], **asdict(line)}, separators=(",", ":")).encode() + b"\n"


def compress_lines(lines: Iterable[Any]) -> Iterator[bytes]:
    """Yield the file piece by piece; nothing but the present piece is kept."""
    buffer = _Collected()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:  # type: ignore[call-overload]  # it only writes
        for line in lines:
            file.write(write_line(line))
            if piece := buffer.take(64 * 1024):
                yield piece
    yield buffer.take(0)


def read_history(path: Path) -> History:
    """Read a file, gzipped or not. Raises BadHistory, which names the line, and OSError."""
    raw = path.read_bytes()
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError):
        raise BadHistory(f"{path.name} is damaged or no history. Export it again: tessera history export") from None
    found: dict[str, list] = {name: [] for name in LINES}
    for number, line in enumerate(text.splitlines(), start=1):
        name, row = _parse_line(line, f"{path.name}, line {number}")
        if (number == 1) != (name == "header"):
            raise BadHistory(f"{path.name}, line {number}: the header is the first line, and no other")
        found[name].append(row)
    if not found["header"]:
        raise BadHistory(f"{path.name} is empty. Export it again: tessera history export")
    lists = {f"{name}s": tuple(rows) for name, rows in found.items() if name != "header"}
    history = History(found["header"][0], **lists)
    _check_named(history, path.name)
    return history


class _Collected:
    """What a compressor wrote and nobody has taken yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        self._size += len(piece)
        return len(piece)

    def flush(self) -> None:
        pass

    def take(self, least: int) -> bytes:
        """Take all, where it is at least so much."""
        if self._size < least:
            return b""
        taken, self._pieces, self._size = b"".join(self._pieces), [], 0
        return taken


def _parse_line(text: str, where: str) -> tuple[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        raise BadHistory(f"{where} is no JSON. Export the file again: tessera history export") from None
    name = data.pop("line", None) if isinstance(data, dict) else None
    if name not in LINES:
        raise BadHistory(f"{where}: line is none of {', '.join(LINES)}: {name!r}")
    if name == "header":
        _check_version(data.get("version"), where)
    row = _build(LINES[name], data, where)
    if name == "job":
        attempts = [_build(Attempt, one, f"{where}, attempts[{n}]") for n, one in enumerate(row.attempts)]
        for one in attempts:
            one.seats[:] = [_build(Seat, seat, f"{where}, seats") for seat in one.seats]
        row.attempts[:] = attempts
    return name, row


def _check_version(version: Any, where: str) -> None:
    if isinstance(version, int) and version > VERSION:
        raise BadHistory(f"{where}: the file is of version {version}, and this Tessera reads {VERSION}: update it")
    if version != VERSION:
        raise BadHistory(f"{where}: version is {VERSION}: {version!r}")


KINDS: dict[Any, tuple[type, ...]] = {
    float: (int, float),
    int: (int,),
    str: (str,),
    bool: (bool,),
    dict: (dict,),
    list: (list,),
    float | None: (int, float, type(None)),
    int | None: (int, type(None)),
    dict | None: (dict, type(None)),
}


def _build(kind: type, data: Any, where: str) -> Any:
    """Build a line of known keys, each of its kind."""
    if not isinstance(data, dict):
        raise BadHistory(f"{where} is not a mapping")
    known = {one.name: one for one in fields(kind)}
    if unknown := sorted(data.keys() - known.keys()):
        raise BadHistory(f"{where}: unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    needed = [name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING]
    if missing := [name for name in needed if name not in data]:
        raise BadHistory(f"{where} lacks {', '.join(missing)}")
    for name, value in data.items():
        wanted: Any = known[name].type
        if not isinstance(value, KINDS[wanted]) or (isinstance(value, bool) and wanted is not bool):
            raise BadHistory(f"{where}: {name} is no {getattr(wanted, '__name__', wanted)}: {value!r}")
    return kind(**data)


def _check_named(history: History, file: str) -> None:
    """Check that teams, pools and machines that lines name are there, so that nothing fails later."""
    pools, teams = {pool.name for pool in history.pools}, {team.name for team in history.teams}
    machines = {machine.name for machine in history.machines}
    named = [
        ("pool", {machine.pool for machine in history.machines}, pools),
        ("pool", {card["pool"] for machine in history.machines for card in machine.cards}, pools),
        ("pool", {quota.pool for quota in history.quotas}, pools),
        ("pool", {choice["pool"] for job in history.jobs for choice in job.choices}, pools),
        ("pool", {pool for window in history.windows for pool in (window.lender, window.borrower)}, pools),
        ("team", {team.parent for team in history.teams} - {""}, teams),
        ("team", {quota.team for quota in history.quotas} | {job.team for job in history.jobs}, teams),
        ("machine", {name for planned in history.maintenances for name in planned.machines}, machines),
    ]
    for what, names, known in named:
        if unknown := sorted(names - known):
            raise BadHistory(f"{file} names the {what} {unknown[0]}, of which it has no line")
