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
METERED = (("kwh", 2), ("mean_w", 0))
"""Of the energy report, with the digits that are shown."""
DAY_PARTS = ("capacity", "held", "active", "idle", "unknown")
USAGE_PARTS = ("held", "active", "paused", "idle", "unknown")


class Report(StrEnum):
    usage = "usage"
    waits = "waits"
    idle = "idle"
    failures = "failures"
    energy = "energy"
    eta = "eta"


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
        return _print_csv(client, table.path, query)
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


def show_day(session: Session, client: Client, query: dict[str, Any]) -> None:
    """Show how many cards were held and active over a day. query: day, pool."""
    if session.output is Output.csv:
        return _print_csv(client, "/reports/day", query)
    answer = client.get("/reports/day", **query)
    slots = answer["slots"]
    rows = [[slot["begins"][11:16], *(_show_mean(slot[name]) for name in DAY_PARTS)] for slot in slots]
    columns = (Column("FROM"), *(Column(name.upper(), right=True) for name in DAY_PARTS))
    session.show_table(answer, [slot["begins"] for slot in slots], columns, rows, "The day has not begun.")
    held, active = (_show_percent(answer[f"{name}_percent"]) for name in ("held", "active"))
    known = _show_percent(answer["known_percent"])
    session.print_note(f"{answer['day']}, UTC: held {held} of the time, active {active}; {known} of the day known")
    if answer["simulated"]:
        session.print_note("Some of the cards are simulated.")


def _print_csv(client: Client, path: str, query: dict[str, Any]) -> None:
    with client.stream(path, headers={"Accept": "text/csv"}, **query) as (_, pieces):
        print(b"".join(pieces).decode().replace("\r\n", "\n"), end="")


def _show_mean(cards: float | None) -> str:
    return UNKNOWN if cards is None else f"{cards:.1f}"


def _show_percent(percent: float | None) -> str:
    return UNKNOWN if percent is None else f"{percent:.0f} %"


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


def _list_energy(one: dict[str, Any]) -> list[str]:
    kwh, watts = (UNKNOWN if one[name] is None else f"{one[name]:.{digits}f}" for name, digits in METERED)
    return [kwh, watts, f"{one['held_gpu_hours']:.2f}", f"{one['unknown_gpu_hours']:.2f}"]


def _list_accuracy(one: dict[str, Any]) -> list[str]:
    ranges = one["within"] + one["sooner"] + one["later"]
    held = f"{100 * one['within'] / ranges:.0f} %" if ranges else NONE
    wrong = (_show_wait(one[name]) for name in ("wrong_p50_s", "wrong_p90_s"))
    return [str(one["starts"]), held, str(one["sooner"] or NONE), str(one["later"] or NONE), *wrong]


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
    Report.energy: Table(
        "/reports/energy",
        ("KWH", "MEAN W", "HELD H", "UNKNOWN H"),
        _list_energy,
        "What held cards drew; hours are GPU-hours",
        "Nothing was held in this time.",
    ),
    Report.eta: Table(
        "/reports/eta",
        ("STARTS", "HELD", "SOONER", "LATER", "HALF WRONG BY", "90 % BY"),
        _list_accuracy,
        "Starts that were told before, and how often the first told range held",
        "No job started in this time that had been told when.",
    ),
}
