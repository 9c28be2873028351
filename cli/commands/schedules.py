"""`schedules`: jobs that are submitted at the times of a cron line."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import uuid4

import typer

from cli.code_upload import read_job_file, upload_code_of
from cli.completing import complete_schedule_names
from cli.failures import JOB_FAILED
from cli.http.transport import Client
from cli.naming import find_schedule
from cli.output.cells import NONE, format_clock, now, parse_time
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
schedules = new_commands()
commands.add_typer(
    schedules,
    name="schedules",
    help="Jobs at the times of a cron line: ls, create, show, set, suspend, resume, run, rm.",
)

COLUMNS = (
    Column("ID"),
    Column("NAME", least=8),
    Column("STATE"),
    Column("CRON", least=9),
    Column("ZONE", least=6),
    Column("NEXT"),
    Column("LAST"),
)
RUNS = 10
"""How many `show` lists."""


class Overlap(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class Missed(StrEnum):
    RUN_ONCE = "run_once"
    SKIP = "skip"


Name = Annotated[str, typer.Argument(metavar="NAME", help="Or its id, sch-7.", autocompletion=complete_schedule_names)]
Cron = Annotated[str, typer.Option("--cron", metavar="LINE", help="Five fields, such as '30 2 * * 1-5'.")]
NewCron = Annotated[str | None, typer.Option("--cron", metavar="LINE", help="Five fields, such as '30 2 * * 1-5'.")]
Zone = Annotated[str | None, typer.Option("--zone", help="Such as Asia/Shanghai; else your own time zone.")]
NewZone = Annotated[str | None, typer.Option("--zone", help="Such as Asia/Shanghai.")]
OverlapOption = Annotated[
    Overlap | None,
    typer.Option("--overlap", help="While the job of an earlier run is open: leave it out, wait for it, or stop it."),
]
MissedOption = Annotated[
    Missed | None, typer.Option("--missed", help="Times at which the platform was down: run once, or leave them out.")
]
NotebookOption = Annotated[
    str | None, typer.Option("--notebook", metavar="NAME", help="Start this notebook of yours, instead of a job.")
]
StopAt = Annotated[str | None, typer.Option("--stop-at", metavar="HH:MM", help="When the notebook stops again.")]
Until = Annotated[
    datetime | None,
    typer.Option("--until", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"], help="No run after this, by this machine's clock."),
]
Keep = Annotated[int | None, typer.Option("--keep", min=1, help="How many ended runs are kept.")]


@schedules.command("ls", cls=Command)
def list_schedules(
    ctx: typer.Context,
    everybody: Annotated[bool, typer.Option("--all", "-a", help="Of everybody in your teams, not only yours.")] = False,
) -> None:
    """List your schedules, with their next times by this machine's clock."""
    session: Session = ctx.obj
    found = session.client().get_all("/schedules", owner=None if everybody else "me")
    rows = [_row(one) for one in found["results"]]
    empty = "No schedules yet. Make one: tessera schedules create NAME --cron LINE FILE"
    session.show_table(found, [one["name"] for one in found["results"]], COLUMNS, rows, empty)


@schedules.command("create", cls=Command)
def create_schedule(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    cron: Cron,
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="A job file; - reads standard input.")] = None,
    notebook: NotebookOption = None,
    stop_at: StopAt = None,
    zone: Zone = None,
    overlap: OverlapOption = None,
    missed: MissedOption = None,
    until: Until = None,
    keep: Keep = None,
) -> None:
    """Make a schedule of a job file, whose code is sent as `submit` sends it, or of a notebook.

    Such as: tessera schedules create nightly --cron '30 2 * * 1-5' job.yaml, or tessera schedules create days --cron
    '45 8 * * 1-5' --notebook explore --stop-at 19:30
    """
    if (file is None) == (notebook is None):
        raise typer.BadParameter("Name a job file, or a notebook with --notebook.")
    session: Session = ctx.obj
    client = session.client()
    given = _collect(
        zone=zone, overlap=overlap, missed=missed, until=until, keep=keep, notebook=notebook, stop_at=stop_at
    )
    if file is not None:
        given["job_file"] = upload_code_of(session, client, read_job_file(file), file)
    made = client.post("/schedules", {"name": name, "cron": cron, **given}, key=str(uuid4()))
    _show(session, made)


@schedules.command("show", cls=Command)
def show_schedule(ctx: typer.Context, name: Name) -> None:
    """Show a schedule and what came of its last times."""
    session: Session = ctx.obj
    client = session.client()
    one = find_schedule(client, name)
    runs = client.get(_path(one, "/runs"), limit=RUNS)["results"]
    lines = [_describe(one), f"cron    {one['cron']} ({one['zone']})"]
    if one.get("notebook"):
        stops = f", stopped at {one['stop_at']}" if one["stop_at"] else ""
        lines.append(f"starts  {one['notebook']}{stops}")
    lines += [f"team    {one['team']}, owner {one['owner']}", f"overlap {one['overlap']}, missed {one['missed']}"]
    lines += [_describe_run(run) for run in runs]
    session.show({**one, "runs": runs}, [one["name"]], lines)


@schedules.command("set", cls=Command)
def change_schedule(
    ctx: typer.Context,
    name: Name,
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="Another job file.")] = None,
    notebook: NotebookOption = None,
    stop_at: StopAt = None,
    cron: NewCron = None,
    zone: NewZone = None,
    overlap: OverlapOption = None,
    missed: MissedOption = None,
    until: Until = None,
    keep: Keep = None,
) -> None:
    """Change a schedule, for the runs that come."""
    session: Session = ctx.obj
    client = session.client()
    one = find_schedule(client, name)
    what = {"notebook": notebook, "stop_at": stop_at}
    given = _collect(cron=cron, zone=zone, overlap=overlap, missed=missed, until=until, keep=keep, **what)
    if file is not None:
        given["job_file"] = upload_code_of(session, client, read_job_file(file), file)
    _show(session, client.patch(_path(one), given))


@schedules.command("suspend", cls=Command)
def suspend_schedule(ctx: typer.Context, name: Name) -> None:
    """Let nothing run of a schedule until it is resumed. Its jobs go on."""
    _act(ctx.obj, name, "suspend")


@schedules.command("resume", cls=Command)
def resume_schedule(ctx: typer.Context, name: Name) -> None:
    """Let a suspended schedule go on with its next time."""
    _act(ctx.obj, name, "resume")


@schedules.command("run", cls=Command)
def run_schedule(ctx: typer.Context, name: Name) -> None:
    """Submit a schedule's job now, besides its times; exit 1 if it was refused or left out."""
    session: Session = ctx.obj
    client = session.client()
    run = client.post(_path(find_schedule(client, name), ":run"), key=str(uuid4()))
    session.show(run, [run["job"] or ""], [_describe_run(run)])
    if run["outcome"] in ("refused", "skipped"):
        raise typer.Exit(JOB_FAILED)


@schedules.command("rm", cls=Command)
def remove_schedule(ctx: typer.Context, name: Name) -> None:
    """Delete a schedule and the list of its runs. Its jobs are left as they are."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(_path(find_schedule(client, name)))
    session.print_note(f"The schedule {name} is deleted.")


def _act(session: Session, name: str, verb: str) -> None:
    client: Client = session.client()
    _show(session, client.post(_path(find_schedule(client, name), f":{verb}")))


def _collect(*, until: datetime | None, **given: Any) -> dict[str, Any]:
    """Return what was given, as JSON."""
    said = {key: value for key, value in given.items() if value is not None}
    return said | ({"until": until.astimezone().isoformat()} if until else {})


def _show(session: Session, one: dict) -> None:
    session.show(one, [one["name"]], [_describe(one)])


def _describe(one: dict) -> str:
    at = parse_time(one["next_at"])
    state = f"{one['name']} ({one['id']}) is {one['state']}"
    if one["suspended_why"] == "refused":
        return f"{state}: its job was refused too often. Mend it, then: tessera schedules resume {one['id']}"
    return f"{state}. Next: {format_clock(at, now())}." if at else f"{state}."


def _describe_run(run: dict) -> str:
    at = parse_time(run["tick_at"])
    clock = format_clock(at, now()) if at else NONE
    words = "left out" if run["outcome"] == "skipped" else run["outcome"]
    return (
        f"{clock}  {words}"
        + (f" as {run['job']}" if run["job"] else "")
        + (f": {run['detail']}" if run["detail"] else "")
    )


def _row(one: dict) -> list[str]:
    at, next_at, last = now(), parse_time(one["next_at"]), one["last_run"]
    told = (last["job"] or last["outcome"]) if last else NONE
    clock = format_clock(next_at, at) if next_at else NONE
    return [one["id"], one["name"], one["state"], one["cron"], one["zone"], clock, told]


def _path(one: dict, rest: str = "") -> str:
    return f"/schedules/{one['id']}{rest}"
