"""Reports of one's teams as tables, or as the CSV that the platform writes."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cli.http.transport import Client
from cli.output.cells import NONE, format_duration, parse_time
from cli.output.safe_text import plain
from cli.output.table import Column
from cli.session import Output, Session

UNKNOWN = "?"
USAGE_PARTS = ("held", "active", "paused", "idle", "unknown")


class Report(StrEnum):
    usage = "usage"
    waits = "waits"
    idle = "idle"
    failures = "failures"


class Grouping(StrEnum):
    team = "team"
    user = "user"
    pool = "pool"
    model = "model"
    job = "job"
    size = "size"
    kind = "kind"
    reason = "reason"
    node = "node"


@dataclass(frozen=True)
class Table:
    """How a report is shown. headings, row: of the figures of one of its results, and their cells."""

    path: str
    headings: tuple[str, ...]
    row: Callable[[dict[str, Any]], list[str]]
    unit: str
    empty: str


def show_report(session: Session, client: Client, report: Report, query: dict[str, Any]) -> None:
    """Show a report as the session asks for it. query: by, from, to; None is as usual."""
    table = TABLES[report]
    if session.output is Output.csv:
        with client.stream(table.path, headers={"Accept": "text/csv"}, **query) as (_, pieces):
            print(b"".join(pieces).decode().replace("\r\n", "\n"), end="")
        return
    answer = client.get(table.path, **query)
    groups = answer["results"]
    rows = [[plain(one["group"]), *table.row(one)] for one in groups]
    rows += [["others", *table.row(answer["rest"])]] if answer.get("rest") else []
    rows += [["all", *table.row(answer["total"])]] if len(rows) > 1 else []
    columns = (Column(answer["by"].upper(), least=6), *(Column(heading, right=True) for heading in table.headings))
    session.show_table(answer, [one["group"] for one in groups], columns, rows, table.empty)
    if answer.get("left_out"):
        session.print_note(f"and {answer['left_out']} more")
    complete = parse_time(answer["complete_to"])
    session.print_note(f"{table.unit}, complete up to {complete:%Y-%m-%d %H:%M} UTC")
    if answer["total"].get("simulated"):
        session.print_note("Some of the cards are simulated.")


def _list_usage(one: dict[str, Any]) -> list[str]:
    hours = one["gpu_hours"]
    held, active, paused, idle, unknown = (f"{hours[name]:.2f}" for name in USAGE_PARTS)
    percent = f"{100 * hours['active'] / hours['held']:.0f} %" if hours["held"] else NONE
    if hours["held"] and hours["unknown"] >= hours["held"]:  # nobody saw what it did
        active = percent = paused = idle = UNKNOWN
    return [held, active, percent, paused, idle, unknown, str(one["tasks"])]


def _list_waits(one: dict[str, Any]) -> list[str]:
    started, again, waiting = one["started"], one["again"], one["waiting"]
    times = [_show_wait(started[name]) for name in ("p50_s", "p90_s", "longest_s")]
    counts = (started["jobs"], again["jobs"], waiting["jobs"], one["gave_up"]["jobs"])
    jobs, tries, wait, gave_up = (str(count) if count else NONE for count in counts)
    return [jobs, *times, tries, wait, _show_wait(waiting["longest_s"]), gave_up]


def _list_idle(one: dict[str, Any]) -> list[str]:
    hours = one["gpu_hours"]
    held, idle, unknown, returned = (f"{hours[name]:.2f}" for name in ("held", "idle", "unknown", "returned"))
    told = (str(one[name] or NONE) for name in ("notes", "reminders", "warnings", "acts"))
    return [held, UNKNOWN if hours["held"] and hours["unknown"] >= hours["held"] else idle, unknown, returned, *told]


def _list_failures(one: dict[str, Any]) -> list[str]:
    cells = []
    for losses in (one["failed"], one["made_room"]):
        lost, unsaved = (f"{losses['gpu_hours'][name]:.2f}" for name in ("lost", "unsaved"))
        cells += [str(losses["tries"]), lost, unsaved] if losses["tries"] else [NONE, NONE, NONE]
    return cells


def _show_wait(seconds: float | None) -> str:
    return NONE if seconds is None else format_duration(round(seconds))


TABLES = {
    Report.usage: Table(
        "/usage",
        ("HELD", "ACTIVE", "ACTIVE %", "PAUSED", "IDLE", "UNKNOWN", "TASKS"),
        _list_usage,
        "GPU-hours",
        "Nothing was held in this time.",
    ),
    Report.waits: Table(
        "/reports/waits",
        ("STARTED", "HALF", "90 %", "LONGEST", "AGAIN", "WAIT NOW", "SO FAR", "GAVE UP"),
        _list_waits,
        "Waits from submit to start",
        "No job started or waited in this time.",
    ),
    Report.idle: Table(
        "/reports/idle",
        ("HELD", "IDLE", "UNKNOWN", "RETURNED", "NOTICES", "REMINDERS", "WARNINGS", "RELEASED"),
        _list_idle,
        "GPU-hours held and idle",
        "Nothing was held in this time.",
    ),
    Report.failures: Table(
        "/reports/failures",
        ("FAILED", "LOST H", "UNSAVED", "MADE ROOM", "LOST H", "UNSAVED"),
        _list_failures,
        "Tries that ended before their time, with lost GPU-hours",
        "Nothing failed in this time.",
    ),
}
