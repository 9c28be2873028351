"""`show`, `why` and `eff`: one thing whole, why a job waits, and how well it runs."""

from typing import Annotated
from urllib.parse import quote

import typer

from cli.completing import complete_job_ids, complete_open_job_ids, complete_shown_names
from cli.failures import Refused
from cli.following import WatchOption, show_repeatedly
from cli.http.transport import Client, job_path
from cli.naming import find_anything, find_job_id, load_node
from cli.output.cells import (
    ENDED,
    NONE,
    describe_next,
    draw_bar,
    format_duration,
    format_wait_or_run,
    list_other_pools,
    now,
    parse_time,
)
from cli.output.plan import format_reasons, format_suggestions
from cli.output.whole import describe_array, describe_job, describe_node, describe_notebook
from cli.session import Command, Session, new_commands

commands = new_commands()

UNKNOWN = "?"


@commands.command("show", cls=Command)
def show(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Or an id: job-412, arr-9, arr-9.17, nb-51.", autocompletion=complete_shown_names
        ),
    ],
) -> None:
    """One job, array, notebook or machine whole."""
    session: Session = ctx.obj
    client = session.client()
    kind, found = find_anything(client, name)
    if kind == "node":
        node = load_node(client, found)
        session.show(node, [node["name"]], describe_node(node))
    elif kind == "array":
        array = client.get(job_path(found))
        session.show(array, [array["id"]], describe_array(array))
    elif kind == "notebook":
        one = client.get(f"/notebooks/{quote(found, safe='')}")
        session.show(one, [one["id"]], describe_notebook(one, f"{client.server}/n/{one['id']}/open"))
    else:
        job = client.get(job_path(found))
        told = client.get(job_path(found, "/wait")) if job["state"] not in ENDED else {}
        wait = told if job["state"] == "queued" else None
        length = told.get("length")
        session.show(
            job | {"wait": wait or job["wait"], "length": length}, [job["id"]], describe_job(job, wait, length)
        )


@commands.command("why", cls=Command)
def why(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_open_job_ids)],
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Until it starts.")] = False,
) -> None:
    """Why a job waits, and its place in the queue.

    Of your own also what would let it start sooner, but for --watch.
    """
    session: Session = ctx.obj
    client = session.client()
    job_id = find_job_id(client, job_id)

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
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job_ids)],
    watch: WatchOption = False,
) -> None:
    """How well a job uses what it holds, or used what it held.

    With what to ask for instead. `?` is what is not known; of a job that was hardly seen nothing is said.
    """
    session: Session = ctx.obj
    client = session.client()
    job_id = find_job_id(client, job_id)

    def look() -> bool:
        answer = client.get(job_path(job_id, "/efficiency"))
        session.show(answer, [answer["job"]], _efficiency_lines(answer))
        return not answer["running"]

    show_repeatedly(session, look, watch)


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
    if link := wait.get("decided_by"):
        lines.append(f"  {link['text']}")
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
    whose = answer.get("job") or job_id  # of a chain it is the link that decides
    return [*format_suggestions(answer), *(_describe_change(whose, lever) for lever in answer["levers"][:1])]


def _describe_change(job_id: str, lever: dict) -> str:
    value = str(lever["value"]).lower() if isinstance(lever["value"], bool) else lever["value"]
    return f"To make the first change: tessera change {job_id} {lever['field']}={value}"


def _unless_none(text: str) -> list[str]:
    return [] if text == NONE else [text]
