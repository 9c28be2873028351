"""`logs`: print or follow a job's log."""

from typing import Annotated

import typer

from cli import following
from cli.completing import complete_job_ids
from cli.failures import USAGE, Failure
from cli.http.transport import job_path
from cli.session import Command, Session, new_commands

commands = new_commands()


@commands.command("logs", cls=Command)
def logs(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", autocompletion=complete_job_ids)],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it is written, until the job ends.")] = False,
    rank: Annotated[int, typer.Option("--rank", min=0, help="Which task of a job on several nodes.")] = 0,
) -> None:
    """What a job wrote.

    Colours are kept on a terminal; every other escape sequence is taken out.
    """
    session: Session = ctx.obj
    client = session.client()
    job = client.get(job_path(job_id))
    if following.find_task(job, rank) is None:
        most = max((task["rank"] for task in job["tasks"]), default=0)
        raise Failure(USAGE, f"rank: {job['id']} has no task {rank}. The highest is {most}.")
    if not follow:
        following.print_log(session, client, job["id"], rank=rank)
        return
    try:
        job = following.follow(session, client, job, rank)
    except KeyboardInterrupt:
        raise following.build_detached_failure(job["id"]) from None
    raise typer.Exit(following.report_outcome(session, job))
