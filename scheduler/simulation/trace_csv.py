"""CSV traces: one row is one job, or `tasks` equal tasks that start together."""

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

PRIORITIES = ("low", "normal", "high", "urgent")

TRACE_HELP = """
Columns of a trace (CSV, also gzipped; seconds count from Monday 00:00):

  submit_s      when it comes (must be there)
  duration_s    how long it really runs (must be there)
  gpus          whole cards of one task, 0 for none; more than a machine has make several equal tasks (1)
  tasks         how many tasks start together, each on one machine (1)
  memory_mib    instead of whole cards: a slice of one card with so much memory
  model         the only model of card that it takes (any)
  team, user    for whom, also "vc" for the team ("everybody"; a user of the team's name)
  pool          where (the first pool)
  priority      low, normal, high or urgent (normal)
  time_s        how long it says that it runs (duration_s; "inf": it says nothing)
  preemptible   1 where it may be stopped for others, 0 where not (as its pool says)
"""


@dataclass(frozen=True)
class JobRequest:
    """A job in a scenario or trace. memory_mib: None for whole cards. tasks_max 0: as `tasks`. Empty strings: any.

    preemptible: None is as its pool says.
    """

    submit_s: float
    duration_s: float
    gpus: int = 1
    tasks: int = 1
    tasks_max: int = 0
    team: str = "everybody"
    user: str = ""
    pool: str = ""
    priority: str = "normal"
    memory_mib: int | None = None
    model: str = ""
    time_s: float = inf
    preemptible: bool | None = None


COLUMN_READERS: dict[str, Callable[[str], Any]] = {
    "submit_s": float,
    "duration_s": float,
    "gpus": int,
    "tasks": int,
    "memory_mib": int,
    "time_s": float,
    "preemptible": lambda text: text.lower() in ("1", "true", "yes"),
    "vc": str,
    "team": str,
    "user": str,
    "pool": str,
    "priority": str,
    "model": str,
}
COLUMN_ALIASES = {"vc": "team"}
REQUIRED_COLUMNS = ("submit_s", "duration_s")


def load_trace_jobs(path: Path) -> list[JobRequest]:
    """Load a trace in file order; other columns are ignored. Raises ValueError with the line, OSError."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    table = csv.DictReader(text.splitlines())
    if missing := set(REQUIRED_COLUMNS) - set(table.fieldnames or ()):
        raise ValueError(f"{path.name} lacks the columns {', '.join(sorted(missing))}")
    return [_parse_row(row, f"{path.name}, line {line}") for line, row in enumerate(table, start=2)]


def _parse_row(row: dict, where: str) -> JobRequest:
    try:
        found = {
            COLUMN_ALIASES.get(name, name): COLUMN_READERS[name](row[name]) for name in COLUMN_READERS if row.get(name)
        }
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    wish = JobRequest(**{"time_s": found.get("duration_s"), **found})
    if not (wish.submit_s >= 0 and wish.duration_s >= 0 and wish.gpus >= 0 and wish.tasks >= 1):
        raise ValueError(f"{where}: a number is negative")
    if wish.priority not in PRIORITIES:
        raise ValueError(f"{where}: priority is none of {', '.join(PRIORITIES)}")
    return wish
