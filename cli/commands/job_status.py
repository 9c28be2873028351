"""`ps`, `why` and `eff`: which jobs there are, why one waits, and how well one uses what it holds."""

from typing import Annotated

import typer

from cli.completing import complete_job_ids, complete_open_job_ids
from cli.failures import Refused
from cli.following import WatchOption, show_repeatedly
from cli.http.transport import Client, job_path
from cli.output.cells import (
    ENDED,
    NONE,
    OPEN,
    describe_next,
    draw_bar,
    format_duration,
    format_gpus,
    format_place,
    format_wait_or_run,
    list_other_pools,
    now,
    parse_time,
)
from cli.output.plan import format_reasons, format_suggestions
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()

COLUMNS = (
    Column("ID"),
    Column("NAME", least=8),
    Column("STATE"),
    Column("GPUS", least=5),
    Column("WHERE", least=6),
    Column("WAIT/RAN"),
    Column("NEXT", least=14),
)
OWNER = Column("OWNER", least=6)
UNKNOWN = "?"


@commands.command("ps", cls=Command)
def ps(
    ctx: typer.Context,
    everybody: Annotated[bool, typer.Option("--all", "-a", help="Of everybody in your teams, not only yours.")] = False,
    state: Annotated[
        str | None, typer.Option("--state", "-s", help="Only these, with commas: queued, running, failed, ...")
    ] = None,
    last: Annotated[int, typer.Option("--last", min=0, max=500, help="How many of those that ended.")] = 5,
    watch: WatchOption = False,
) -> None:
    """List jobs.

    Your open jobs and the last that ended, the newest first.
    """
    session: Session = ctx.obj
    client = session.client()
    show_repeatedly(session, lambda: _list(session, client, everybody, state, last), watch)


@commands.command("why", cls=Command)
def why(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", autocompletion=complete_open_job_ids)],
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Until it starts.")] = False,
) -> None:
    """Why a job waits, and its place in the queue.

    Of your own also what would let it start sooner, but for --watch.
    """
    session: Session = ctx.obj
    client = session.client()

    def look() -> bool:
        job = client.get(job_path(job_id))
        waits = session.wants_data or job["state"] == "queued"
        wait = client.get(job_path(job_id, "/wait")) if waits else None
        levers = [] if watch or session.wants_data or job["state"] != "queued" else _load_suggestions(client, job["id"])
        session.show(wait, [job["id"]], _wait_lines(job, wait) + levers)
        return job["state"] != "queued"

    show_repeatedly(session, look, watch)


@commands.command("eff", cls=Command)
def eff(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", autocompletion=complete_job_ids)],
    watch: WatchOption = False,
) -> None:
    """How well a job uses what it holds, or used what it held.

    With what to ask for instead. `?` is what is not known; of a job that was hardly seen nothing is said.
    """
    session: Session = ctx.obj
    client = session.client()

    def look() -> bool:
        answer = client.get(job_path(job_id, "/efficiency"))
        session.show(answer, [answer["job"]], _efficiency_lines(answer))
        return not answer["running"]

    show_repeatedly(session, look, watch)


def _list(session: Session, client: Client, everybody: bool, state: str | None, last: int) -> None:
    owner = None if everybody else "me"
    if state:
        answer = client.get_all("/jobs", owner=owner, state=state)
    else:
        answer = client.get_all("/jobs", owner=owner, state=",".join(OPEN))
        ended = client.get_all("/jobs", most=last, owner=owner, state=",".join(ENDED)) if last else {"results": []}
        known = {job["id"] for job in answer["results"]}  # one may end between the requests
        answer["results"] += [job for job in ended["results"] if job["id"] not in known]
    jobs = answer["results"]
    columns = (*COLUMNS[:2], OWNER, *COLUMNS[2:]) if everybody else COLUMNS
    rows = [_row(job, everybody) for job in jobs]
    session.show_table(answer, [job["id"] for job in jobs], columns, rows, "There are no such jobs.")


def _row(job: dict, with_owner: bool) -> list[str]:
    at = now()
    row = [
        job["id"], job["name"], job["state"], format_gpus(job), format_place(job), format_wait_or_run(job, at),
        describe_next(job, at),
    ]  # fmt: skip
    return [*row[:2], job["owner"], *row[2:]] if with_owner else row


def _wait_lines(job: dict, wait: dict | None) -> list[str]:
    at = now()
    head = f"{job['id']} {job['name']}".rstrip()
    if job["state"] != "queued" or wait is None:
        return [f"{head} does not wait: it is {job['state']}.", *_unless_none(describe_next(job, at))]
    place = f", number {wait['position']} of {wait['of']} in pool {job['pool']}" if wait["position"] else ""
    lines = [f"{head} has waited {format_wait_or_run(job, at)}{place}."]
    held = any(reason["code"] == "held" for reason in wait["reasons"])
    if not held and (others := list_other_pools(job)):
        lines.append(f"It also waits in {', '.join(others)}, and starts in the first with room.")
    if job["held"]:
        lines.append(f"It is held by {job['held_by']}. To let it start: tessera release {job['id']}")
    if start := wait.get("start"):
        lines.append(f"It will start: {start['text']}.")
    lines += format_reasons(wait["reasons"])
    if looked := parse_time(wait["as_of"]):
        lines.append(f"as of {looked.astimezone():%H:%M:%S}")
    return lines


def _efficiency_lines(eff: dict) -> list[str]:
    lines = [] if eff["gpu_memory"]["value"] is None else _gpu_lines(eff)
    cpu, memory = eff["cpu_percent"], eff["memory_peak"]
    of_cpu = UNKNOWN if cpu is None else f"{cpu:.0f} % of {eff['cpu']['text']}"
    lines += [_draw_line("CPU", cpu, of_cpu), _draw_line("Memory peak", *_measure(memory, eff["memory"]))]
    if eff["max_time_s"]:
        ran = f"{format_duration(eff['ran_s'])} of {format_duration(eff['max_time_s'])}"
        lines.append(_draw_line("Time limit", 100 * eff["ran_s"] / eff["max_time_s"], ran))
    seen, hours = eff["coverage_percent"], eff["gpu_hours"]
    told = f"Seen {UNKNOWN if seen is None else f'{seen:.0f} %'} of the time"
    if hours["held"]:
        names = ("active", "idle", "unknown")
        parts = ", ".join(f"{name} {hours[name]:.2f}" for name in names)
        told += f"; held {hours['held']:.2f} GPU-hours: {parts}"
    lines.append(f"{told}{' (simulated)' if eff['simulated'] else ''}.")
    for verdict in eff["verdicts"]:
        cost = f" ({verdict['gpu_hours']:.2f} GPU-hours)" if verdict["gpu_hours"] else ""
        lines.append(f"{verdict['text']}{cost}")
        if verdict["advice"]:
            lines.append(f"→ {verdict['advice']['text']}")
    return lines


def _gpu_lines(eff: dict) -> list[str]:
    busy = eff["gpu_busy_percent"]
    return [
        _draw_line("GPU busy", busy, UNKNOWN if busy is None else f"{busy:.0f} %"),
        _draw_line("GPU memory peak", *_measure(eff["gpu_memory_peak"], eff["gpu_memory"])),
    ]


def _measure(peak: dict, held: dict) -> tuple[float | None, str]:
    if peak["value"] is None or not held["value"]:
        return None, UNKNOWN
    return 100 * peak["value"] / held["value"], f"{peak['text']} of {held['text']}"


def _draw_line(words: str, percent: float | None, value: str) -> str:
    return f"{words:<16}{draw_bar(percent)} {value}"


def _load_suggestions(client: Client, job_id: str) -> list[str]:
    try:
        answer = client.get(job_path(job_id, "/levers"))
    except Refused:
        return []
    return [*format_suggestions(answer), *(_describe_change(job_id, lever) for lever in answer["levers"][:1])]


def _describe_change(job_id: str, lever: dict) -> str:
    value = str(lever["value"]).lower() if isinstance(lever["value"], bool) else lever["value"]
    return f"To make the first change: tessera change {job_id} {lever['field']}={value}"


def _unless_none(text: str) -> list[str]:
    return [] if text == NONE else [text]
