"""`rerun` and `diff`."""

import difflib
import json
from typing import Annotated, Any
from uuid import uuid4

import typer

from cli.commands.jobs.submit import FollowOption, TimeoutOption, WaitOption, follow_new_job
from cli.completing import complete_job_ids
from cli.http.transport import job_path
from cli.naming import find_job_id
from cli.parse_duration import read_duration
from cli.session import Command, Session, new_commands

commands = new_commands()

JobArgument = Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job_ids)]


@commands.command("rerun", cls=Command)
def rerun(
    ctx: typer.Context,
    job_id: JobArgument,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Its file as it was accepted, with the bytes of its image and its code."),
    ] = False,
    follow: FollowOption = False,
    wait: WaitOption = None,
    timeout: TimeoutOption = None,
) -> None:
    """Submit a job's file once more, as a new job.

    Without --exact its image is what the name means now. It starts as soon as it can.
    """
    session: Session = ctx.obj
    within_s = read_duration(timeout)
    client = session.client()
    path = job_path(find_job_id(client, job_id))
    job = client.post(f"{path}:rerun", {"exact": exact}, key=str(uuid4()))
    follow_new_job(session, client, job, follow_it=follow, until=wait, within_s=within_s)


@commands.command("diff", cls=Command)
def diff(ctx: typer.Context, job_id: JobArgument, other_id: JobArgument) -> None:
    """Show what differs between the files of two jobs, field by field."""
    session: Session = ctx.obj
    client = session.client()
    one, other = find_job_id(client, job_id), find_job_id(client, other_id)
    found = client.get(job_path(one, "/diff"), other=other)
    lines = [line for difference in found["differences"] for line in _describe(difference)]
    session.show(found, [difference["field"] for difference in found["differences"]], lines)
    if not lines:
        session.print_note(f"{one} and {other} have the same file.")


def _describe(difference: dict[str, Any]) -> list[str]:
    """Return the lines of one field; of long text only what changed."""
    before, after = (_as_text(difference[side]) for side in ("before", "after"))
    if "\n" not in before + after:
        return [f"{difference['field']}: {before or '-'} -> {after or '-'}"]
    changed = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return [f"{difference['field']}:", *(f"  {line}" for line in list(changed)[2:])]


def _as_text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
