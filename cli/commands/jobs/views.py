"""`view`: saved views of the list of jobs, which the portal and `tessera ps --view` show."""

import shlex
from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.completing import complete_pools, complete_view_names
from cli.naming import find_view
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
views = new_commands()
commands.add_typer(views, name="view", help="Saved views of the list of jobs: ls, save, rm.")

COLUMNS = (Column("NAME", least=8), Column("SHOWS", least=16), Column("ORDER"))


class Kind(StrEnum):
    BATCH = "batch"
    SERVICE = "service"
    INTERACTIVE = "interactive"


KINDS = {Kind.BATCH: "jobs alone", Kind.SERVICE: "replicas of services", Kind.INTERACTIVE: "starts of notebooks"}
KindOption = Annotated[
    Kind | None, typer.Option("--kind", help="Jobs alone, replicas of services, or starts of notebooks.")
]
View = Annotated[str, typer.Argument(metavar="VIEW", autocompletion=complete_view_names)]


@views.command("ls", cls=Command)
def list_views(ctx: typer.Context) -> None:
    """List your saved views."""
    session: Session = ctx.obj
    found = session.client().get("/me/views")
    rows = [[one["name"], _describe(one), one["sort"]] for one in found["results"]]
    session.show_table(found, [row[0] for row in rows], COLUMNS, rows, "No views yet. Save one: tessera view save NAME")


@views.command("save", cls=Command)
def save_view(
    ctx: typer.Context,
    name: View,
    everybody: Annotated[bool, typer.Option("--all", "-a", help="Of everybody in your teams, not only yours.")] = False,
    state: Annotated[
        str | None,
        typer.Option("--state", "-s", help="Only these, with commas: waiting, active, done, failed, cancelled."),
    ] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Of this pool.", autocompletion=complete_pools)] = None,
    label: Annotated[str | None, typer.Option("--label", help="With this label: exp or exp:a")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Of this person of your teams.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Part of the name, an owner, a team or a label.")] = None,
    days: Annotated[str | None, typer.Option("--days", help="Submitted today, in the last 7d, or 30d.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="DAY", help="Submitted from this day on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="DAY", help="Submitted until this day.")] = None,
    kind: KindOption = None,
    starts: Annotated[bool, typer.Option("--notebooks", help="As --kind interactive.")] = False,
    sort: Annotated[
        str | None,
        typer.Option("--sort", help="By submitted, name, state, pool, owner, ran or ended; with - the other way."),
    ] = None,
) -> None:
    """Save which jobs to list, and their order, under a name. A view of the same name is replaced.

    Such as: tessera view save broken --state failed --pool dev --sort -ended
    """
    session: Session = ctx.obj
    given = {
        "pool": pool, "label": label, "owner": owner, "q": text, "days": days, "since": since, "until": until,
        "sort": sort, "whose": "team" if everybody else None, "kind": kind or (Kind.INTERACTIVE if starts else None),
        "state": [word.strip() for word in state.split(",") if word.strip()] if state else None,
    }  # fmt: skip
    body = {"name": name} | {key: value for key, value in given.items() if value is not None}
    made = session.client().post("/me/views", body)
    lines = [f"{made['name']} shows {_describe(made)}. List them: tessera ps --view {shlex.quote(made['name'])}"]
    session.show(made, [made["name"]], lines)


@views.command("rm", cls=Command)
def remove_view(ctx: typer.Context, name: View) -> None:
    """Delete a saved view. The jobs are left as they are."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(f"/me/views/{find_view(client, name)['id']}")
    session.print_note(f"The view {name} is deleted.")


def _describe(view: dict[str, Any]) -> str:
    """Say which jobs it shows: "failed of everybody, pool dev"."""
    states = ", ".join(view["state"]) or "all"
    whose = view["owner"] or {"mine": "yours", "team": "everybody"}[view["whose"]]
    parts = [f"{states} of {whose}", KINDS.get(view["kind"], "")]
    parts += [f"{name} {view[name]}" for name in ("pool", "label") if view[name]]
    parts += [f"submitted {view['days']}" if view["days"] else ""]
    parts += [f"{name} {view[name]}" for name in ("since", "until") if view[name]]
    parts += [f'"{view["q"]}"' if view["q"] else ""]
    return "; ".join(filter(None, parts))
