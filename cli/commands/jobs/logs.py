"""`logs`: print or follow a job's log."""

from typing import Annotated

import typer

from cli import following
from cli.completing import complete_job_ids
from cli.failures import USAGE, Failure
from cli.http.transport import job_path
from cli.naming import find_job_task
from cli.session import Command, Session, new_commands

commands = new_commands()


@commands.command("logs", cls=Command)
def logs(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="JOB", help="Or one of its tasks: job-412.main.1, train.main.1", autocompletion=complete_job_ids
        ),
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it is written, until the job ends.")] = False,
    rank: Annotated[
        int | None, typer.Option("--rank", min=0, help="Which task of a job on several nodes, if not the first.")
    ] = None,
    grep: Annotated[str, typer.Option("--grep", metavar="TEXT", help="Only lines with this text, in any case.")] = "",
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="When each line was written (UTC), or - where that is not known.")
    ] = False,
) -> None:
    """What a job wrote.

    Colours are kept on a terminal; every other escape sequence is taken out.
    """
    session: Session = ctx.obj
    if follow and (grep or timestamps):
        raise Failure(USAGE, "--follow shows the whole log as it is written. Leave it out, or --grep and --timestamps.")
    client = session.client()
    meant = find_job_task(client, name)
    if meant.role and rank is not None:
        raise Failure(USAGE, f"{name} names its task already. Leave --rank out.")
    rank = rank or meant.rank
    job = client.get(job_path(meant.job_id))
    task = following.find_task(job, rank, meant.role)
    if task is None:
        raise Failure(USAGE, _describe_missing(job, rank, meant.role))
    which = {"task": task["uuid"]} if meant.role else {"rank": rank}
    if grep or timestamps:
        selects = {"search": grep or None, "timestamps": 1 if timestamps else None}
        following.print_lines(client, job["id"], **which, **selects)
        return
    if not follow:
        following.print_log(session, client, job["id"], **which)
        return
    try:
        job = following.follow(session, client, job, rank, meant.role)
    except KeyboardInterrupt:
        raise following.build_detached_failure(job["id"]) from None
    raise typer.Exit(following.report_outcome(session, job))


def _describe_missing(job: dict, rank: int, role: str) -> str:
    if role:
        known = ", ".join(f"{task['role']}.{task['rank']}" for task in job["tasks"])
        return f"{job['id']} has no task {role}.{rank}. It has: {known or 'none yet'}"
    most = max((task["rank"] for task in job["tasks"]), default=0)
    return f"rank: {job['id']} has no task {rank}. The highest is {most}."
