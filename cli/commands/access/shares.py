"""`share`: let colleagues enter a running job or notebook."""

from datetime import datetime
from typing import Annotated
from urllib.parse import quote

import typer

from cli.completing import enterable_names
from cli.http.transport import job_path
from cli.naming import find_entered_job_id
from cli.output.cells import format_clock, now, parse_time
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
share = new_commands()
commands.add_typer(share, name="share", help="Let colleagues enter a running job or notebook: add, ls, rm.")

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Or an id: job-412, nb-51.", autocompletion=enterable_names),
]
Person = Annotated[str, typer.Argument(metavar="PERSON", help="The user name of a member or lead of its team.")]
COLUMNS = (Column("PERSON", least=6), Column("SINCE"), Column("LAST VISIT"))


@share.command("add", cls=Command)
def add(ctx: typer.Context, name: Name, person: Person) -> None:
    """Let a colleague in by terminal and SSH, into a notebook by JupyterLab too, until it ends."""
    session: Session = ctx.obj
    client = session.client()
    job_id = find_entered_job_id(client, name)
    made = client.post(job_path(job_id, "/shares"), {"person": person})
    session.show(made, [made["person"]], [f"{made['person']} may enter {name} ({job_id}) as you until it ends."])


@share.command("ls", cls=Command)
def list_shares(ctx: typer.Context, name: Name) -> None:
    """List who is let in, since when, and their last visit."""
    session: Session = ctx.obj
    client = session.client()
    found = client.get(job_path(find_entered_job_id(client, name), "/shares"))
    at = now()
    rows = [
        [one["person"], _format_time(one["created_at"], at), _format_time(one["visited_at"], at)]
        for one in found["results"]
    ]
    empty = f"{name} is open to nobody else. Let somebody in: tessera share add {name} PERSON"
    session.show_table(found, [row[0] for row in rows], COLUMNS, rows, empty)


@share.command("rm", cls=Command)
def remove(ctx: typer.Context, name: Name, person: Person) -> None:
    """End a colleague's share; what they have open is closed."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(job_path(find_entered_job_id(client, name), f"/shares/{quote(person, safe='')}"))
    session.print_note(f"{person} enters {name} no more.")


def _format_time(text: str | None, at: datetime) -> str:
    moment = parse_time(text)
    return format_clock(moment, at) if moment else "never"
