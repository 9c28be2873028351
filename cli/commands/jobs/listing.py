"""`ps`: which jobs there are."""

from typing import Annotated, Any

import typer

from cli.commands.jobs.views import KindOption
from cli.completing import complete_view_names
from cli.failures import USAGE, Failure
from cli.following import WatchOption, show_repeatedly
from cli.http.transport import Client
from cli.naming import find_view
from cli.output.cells import (
    ENDED,
    OPEN,
    describe_next,
    format_gpus,
    format_place,
    format_wait_or_run,
    now,
    parse_time,
)
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
USUAL_SORT = "-submitted"


@commands.command("ps", cls=Command)
def ps(
    ctx: typer.Context,
    everybody: Annotated[bool, typer.Option("--all", "-a", help="Of everybody in your teams, not only yours.")] = False,
    state: Annotated[
        str | None, typer.Option("--state", "-s", help="Only these, with commas: queued, running, failed, ...")
    ] = None,
    kind: KindOption = None,
    view: Annotated[
        str | None,
        typer.Option("--view", metavar="NAME", help="What a saved view shows.", autocompletion=complete_view_names),
    ] = None,
    last: Annotated[int, typer.Option("--last", min=0, max=500, help="How many of those that ended.")] = 5,
    watch: WatchOption = False,
) -> None:
    """List jobs.

    Your open jobs and the last that ended, the newest first; or what a saved view shows, in its order.
    """
    session: Session = ctx.obj
    if view is not None and (everybody or state or kind):
        raise Failure(USAGE, "--view says which jobs. Leave it out, or --all, --state and --kind.")
    client = session.client()
    if view is None:
        asked = {"owner": None if everybody else "me", "state": state, "kind": kind}
        show_repeatedly(session, lambda: _list(session, client, asked, last), watch)
    else:
        show_repeatedly(session, lambda: _list_view(session, client, view, last), watch)


def _list_view(session: Session, client: Client, name: str, last: int) -> None:
    """List what a view shows, read anew at each look: its spans move, and it may be replaced meanwhile."""
    view = find_view(client, name)
    _list(session, client, view["jobs"], last, view["sort"])


def _list(session: Session, client: Client, asked: dict[str, Any], last: int, sort: str = USUAL_SORT) -> None:
    answer = _load_jobs(client, asked, last)
    if sort != USUAL_SORT:
        answer["results"] = _sort(answer["results"], sort)
    jobs = answer["results"]
    with_owner = asked.get("owner") != "me"
    columns = (*COLUMNS[:2], OWNER, *COLUMNS[2:]) if with_owner else COLUMNS
    rows = [_row(job, with_owner) for job in jobs]
    session.show_table(answer, [job["id"] for job in jobs], columns, rows, "There are no such jobs.")


def _load_jobs(client: Client, asked: dict[str, Any], last: int) -> dict[str, Any]:
    """Load jobs of the states that are asked for; else those that are open and the last that ended."""
    if asked.get("state"):
        return client.get_all("/jobs", **asked)
    answer = client.get_all("/jobs", **asked | {"state": ",".join(OPEN)})
    ended = client.get_all("/jobs", most=last, **asked | {"state": ",".join(ENDED)}) if last else {"results": []}
    known = {job["id"] for job in answer["results"]}  # one may end between the requests
    answer["results"] += [job for job in ended["results"] if job["id"] not in known]
    return answer


def _row(job: dict[str, Any], with_owner: bool) -> list[str]:
    at = now()
    row = [
        job["id"], job["name"], job["state"], format_gpus(job), format_place(job), format_wait_or_run(job, at),
        describe_next(job, at),
    ]  # fmt: skip
    return [*row[:2], job["owner"], *row[2:]] if with_owner else row


def _sort(jobs: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """Sort as the portal does: the newest first among equals, and last what has no such value."""
    column, down = sort.removeprefix("-"), sort.startswith("-")
    newest = sorted(jobs, key=_number, reverse=True)
    known = [job for job in newest if _sort_value(job, column) is not None]
    known.sort(key=lambda job: _sort_value(job, column), reverse=down)
    return known + [job for job in newest if _sort_value(job, column) is None]


def _sort_value(job: dict[str, Any], column: str) -> Any:
    if column == "submitted":
        return _number(job)
    if column == "ended":
        return job["ended_at"]
    if column == "ran":
        begin = parse_time(job["started_at"])
        return begin and (parse_time(job["ended_at"]) or now()) - begin
    return job[column]


def _number(job: dict[str, Any]) -> int:
    return int(job["id"].removeprefix("job-"))
