"""`volumes`: storage of the site that jobs may name."""

from typing import Annotated

import typer

from cli.failures import NOT_FOUND, USAGE, Failure
from cli.http.transport import Client
from cli.output.cells import NONE
from cli.output.safe_text import plain
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
volumes = new_commands()
commands.add_typer(volumes, name="volumes", help="Storage of the site that jobs may name: ls, add, set, rm.")

COLUMNS = (
    Column("NAME", least=6),
    Column("LIES AT", least=12),
    Column("TEAM"),
    Column("RIGHTS"),
    Column("IS", least=8),
)
Name = Annotated[str, typer.Argument(metavar="NAME")]
Team = Annotated[str | None, typer.Option("--team", help="Of this team alone; else everybody's.")]
Description = Annotated[str | None, typer.Option("--description", help="A few words for those who choose.")]
ReadOnly = Annotated[
    bool | None, typer.Option("--read-only/--writable", help="Writable: jobs write where its files allow it.")
]


@volumes.command("ls", cls=Command)
def list_volumes(ctx: typer.Context) -> None:
    """What a job file may name in `data`, as volume:NAME/path."""
    session: Session = ctx.obj
    found = session.client().get("/volumes")
    rows = [
        [one["name"], one["source"], one["team"] or "all", _rights(one), one["description"] or NONE]
        for one in found["results"]
    ]
    names = [one["name"] for one in found["results"]]
    session.show_table(found, names, COLUMNS, rows, "No volumes. For admins: tessera volumes add NAME FOLDER")


@volumes.command("add", cls=Command)
def add_volume(
    ctx: typer.Context,
    name: Name,
    source: Annotated[str, typer.Argument(metavar="FOLDER|CLAIM", help="Of the machines; on a cluster, a claim.")],
    team: Team = None,
    description: Description = None,
    read_only: ReadOnly = None,
) -> None:
    """For administrators: give storage that the site has a name for jobs."""
    session: Session = ctx.obj
    body = {"name": name, "source": source, "team": team, "description": description or ""}
    made = session.client().post("/volumes", body | {"read_only": read_only is not False}, repeat=False)
    session.show(made, [made["name"]], [_describe(made)])


@volumes.command("set", cls=Command)
def change_volume(
    ctx: typer.Context,
    name: Name,
    source: Annotated[str | None, typer.Argument(metavar="[FOLDER|CLAIM]")] = None,
    team: Team = None,
    description: Description = None,
    read_only: ReadOnly = None,
) -> None:
    """For administrators: let a name stand for other storage. Jobs have it as it is when they start."""
    session: Session = ctx.obj
    options = {"source": source, "description": description, "read_only": read_only}
    wanted = {key: value for key, value in options.items() if value is not None}
    if not wanted:
        raise Failure(USAGE, "Say what it shall be: a FOLDER, --description, --read-only or --writable.")
    client = session.client()
    changed = client.patch(f"/volumes/{_find(client, name, team)}", wanted)
    session.show(changed, [changed["name"]], [_describe(changed)])


@volumes.command("rm", cls=Command)
def remove_volume(ctx: typer.Context, name: Name, team: Team = None) -> None:
    """For administrators: forget a volume that no open job names. Its files stay."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(f"/volumes/{_find(client, name, team)}")
    session.print_note(f"No new job can name {plain(name)}. Its files stay.")


def _find(client: Client, name: str, team: str | None) -> int:
    found = [one for one in client.get("/volumes")["results"] if one["name"] == name]
    meant = [one for one in found if one["team"] == team] or (found if team is None and len(found) == 1 else [])
    if not meant:
        raise Failure(NOT_FOUND, f"There is no volume {plain(name)} of {plain(team or 'everybody')}.")
    return meant[0]["id"]


def _rights(one: dict) -> str:
    return "read-only" if one["read_only"] else "writable"


def _describe(one: dict) -> str:
    return f"volume:{one['name']} is {one['source']}, {_rights(one)}, for {one['team'] or 'all'}."
