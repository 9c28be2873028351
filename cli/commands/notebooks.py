"""`nb` and `open`."""

import sys
import webbrowser
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated
from urllib.parse import quote
from uuid import uuid4

import typer

from cli.completing import complete_notebook_names
from cli.failures import JOB_FAILED, NOT_FOUND, WAITS, Failure, Refused
from cli.following import WatchOption, show_repeatedly
from cli.http.transport import Client
from cli.output.cells import NONE, format_clock, format_duration, format_expiry, now, parse_time
from cli.output.table import Column
from cli.parse_duration import read_duration
from cli.session import Command, Session, new_commands

commands = new_commands()
nb = new_commands()
commands.add_typer(nb, name="nb", help="Notebooks: start, open, stop, ls, rename; addresses for editors.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Or its id, nb-51.", autocompletion=complete_notebook_names)]
COLUMNS = (Column("ID"), Column("NAME", least=8), Column("STATE"), Column("GPU"), Column("STOPS"), Column("OPENED"))
ADDRESSES = (Column("ID"), Column("NAME", least=8), Column("BEGINS"), Column("LAST USED"), Column("UNTIL"))
PASTE = (
    "It is not shown again. VS Code: Select Kernel, Existing Jupyter Server, paste it. "
    "PyCharm: Settings, Jupyter Servers, Configured Server, paste it."
)
READY, OVER = "running", frozenset({"stopped", "failed"})
PREPARING = "notebooks_preparing"


class In(StrEnum):
    jupyter = "jupyter"
    vscode = "vscode"


@nb.command("ls", cls=Command)
def ls(ctx: typer.Context, watch: WatchOption = False) -> None:
    """List your notebooks."""
    session: Session = ctx.obj
    client = session.client()

    def look() -> None:
        answer = client.get_all("/notebooks")
        found = answer["results"]
        rows = [_row(one) for one in found]
        session.show_table(answer, [one["name"] for one in found], COLUMNS, rows, "You have no notebook yet.")

    show_repeatedly(session, look, watch)


@nb.command("start", cls=Command)
def start(
    ctx: typer.Context,
    name: Name,
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", help="Such as 1/4: of a new one, or this start.")] = None,
    secrets: Annotated[
        list[str] | None,
        typer.Option("--secret", metavar="NAME", help="It gets this secret from now on; NAME:file as a file alone."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it can be opened.")] = False,
    timeout: Annotated[str | None, typer.Option(metavar="TIME", help="With --wait: exit 5 after this time.")] = None,
) -> None:
    """Start a notebook, or make one of this name."""
    session: Session = ctx.obj
    within_s = read_duration(timeout)
    client = session.client()
    try:
        one = find(client, name)
    except Failure as failure:
        if failure.exit_code != NOT_FOUND or name.startswith("nb-"):
            raise
        # A start that is refused leaves none behind.
        wanted = {"name": name, "gpu": gpu or "0", "start": True, **_read_secrets(secrets)}
        one, gpu = client.post("/notebooks", wanted, key=str(uuid4())), None
    else:
        if secrets:
            one = client.patch(_path(one), _read_secrets(secrets))
    ask = partial(client.post, _path(one, ":start"), {"gpu": gpu} if gpu else {}, key=str(uuid4()))
    one = _wait_until_ready(session, client, one, ask, within_s) if wait else _start_now(ask)
    _show(session, one)


@nb.command("stop", cls=Command)
def stop(ctx: typer.Context, name: Name) -> None:
    """Stop a notebook; its files stay."""
    session: Session = ctx.obj
    client = session.client()
    one = client.post(_path(find(client, name), ":stop"))
    state = one["state"] if one["state"] in OVER else "being stopped"
    session.show(one, [one["name"]], [f"{one['name']} ({one['id']}) is {state}."])


@nb.command("rename", cls=Command)
def rename(
    ctx: typer.Context, name: Name, new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")]
) -> None:
    """Give a notebook another name; its folder stays."""
    session: Session = ctx.obj
    client = session.client()
    one = client.patch(_path(find(client, name)), {"name": new})
    line = f"{name} is {one['name']} now ({one['id']}); its files stay in ~/{one['folder']}."
    session.show(one, [one["name"]], [line])


@nb.command("open", cls=Command)
def open_in_browser(ctx: typer.Context, name: Name) -> None:
    """Open a notebook in the browser."""
    _open(ctx.obj, name, In.jupyter)


@nb.command("address", cls=Command)
def make_address(
    ctx: typer.Context,
    name: Name,
    label: Annotated[str, typer.Option("--label", metavar="TEXT", help="What uses it, such as my laptop.")] = "editor",
    days: Annotated[int | None, typer.Option("--days", metavar="N", help="Else until you end it.")] = None,
) -> None:
    """Make an address by which an editor uses a notebook as an existing Jupyter server; it is shown once.

    Whoever has it runs programs as you in this notebook. It opens nothing else.
    """
    session: Session = ctx.obj
    client = session.client()
    made = client.post(_path(find(client, name), "/tokens"), {"name": label, "days": days}, repeat=False)
    session.show(made, [made["url"]], [made["url"]])
    session.print_note(PASTE)


@nb.command("addresses", cls=Command)
def list_addresses(ctx: typer.Context, name: Name) -> None:
    """List a notebook's addresses, without their tokens."""
    session: Session = ctx.obj
    client = session.client()
    found = client.get(_path(find(client, name), "/tokens"))
    rows = [
        [
            str(one["id"]),
            one["name"],
            f"{one['prefix']}…",
            (one["last_used_at"] or "never")[:10],
            format_expiry(one["expires_at"]),
        ]
        for one in found["results"]
    ]
    empty = f"No addresses yet. Make one: tessera nb address {name}"
    session.show_table(found, [row[0] for row in rows], ADDRESSES, rows, empty)


@nb.command("end-address", cls=Command)
def end_address(ctx: typer.Context, name: Name, number: Annotated[int, typer.Argument(metavar="ID", min=1)]) -> None:
    """End an address of a notebook; editors that use it are refused."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(_path(find(client, name), f"/tokens/{number}"))
    session.print_note("The address is ended. Editors that use it are refused from now on.")


@commands.command("open", cls=Command)
def open_it(
    ctx: typer.Context,
    name: Name,
    where: Annotated[In, typer.Option("--in", help="The browser, or VS Code over SSH.")] = In.jupyter,
) -> None:
    """Open a notebook in jupyter or vscode."""
    _open(ctx.obj, name, where)


def find(client: Client, name: str) -> dict:
    """Return the notebook of this name or id. Raises Failure (NOT_FOUND)."""
    for one in client.get_all("/notebooks")["results"]:
        if name in (one["name"], one["id"]):
            return one
    raise Failure(NOT_FOUND, f"You have no notebook {name}. Yours: tessera nb ls")


def _open(session: Session, name: str, where: In) -> None:
    client = session.client()
    one = find(client, name)
    if where is In.vscode:
        address = f"vscode://vscode-remote/ssh-remote+{quote(one['name'])}/"
        session.print_note("VS Code connects by SSH; set it up once: tessera ssh-config --write")
    else:
        address = f"{client.server}/n/{one['id']}/open"
    session.show({"url": address}, [address], [address])
    if sys.stdout.isatty():
        webbrowser.open(address)


def _read_secrets(said: list[str] | None) -> dict[str, dict[str, str]]:
    """Return the field of what is asked for; nothing where nothing is."""
    parts = [text.partition(":") for text in said or []]
    return {"secrets": {name: word.strip() or "variable" for name, _, word in parts}} if parts else {}


def _start_now(ask: Callable[[], dict]) -> dict:
    try:
        return ask()
    except Refused as refused:
        if refused.code == PREPARING:
            refused.lines += ("With --wait it is started as soon as that is done.",)
        raise


def _wait_until_ready(
    session: Session, client: Client, one: dict, ask: Callable[[], dict], within_s: float | None
) -> dict:
    """Start it once JupyterLab is installed, and wait."""
    begun = now()
    found: list[dict] = []

    def look() -> bool:
        try:
            found[:] = [client.get(_path(one)) if found else ask()]
            state = found[0]["state"]
        except Refused as refused:
            if refused.code != PREPARING:
                raise
            state = f"waiting for JupyterLab, which the platform still prepares ({refused.params.get('step')})"
        if within_s is not None and state not in {READY, *OVER} and (now() - begun).total_seconds() >= within_s:
            raise Failure(WAITS, f"{one['name']} is still {state} after {format_duration(within_s)}.")
        session.print_note(f"{one['name']} is {state}.")
        return state in {READY, *OVER}

    show_repeatedly(session, look, True)
    session.watching = False
    if found[0]["state"] != READY:
        raise Failure(JOB_FAILED, f"{one['name']} did not start: it is {found[0]['state']}.")
    return found[0]


def _row(one: dict) -> list[str]:
    at, stops, opened = now(), parse_time(one["stops_at"]), parse_time(one["opened_at"])
    live = one["state"] not in OVER
    times = [format_clock(stops, at) if stops and live else NONE, format_clock(opened, at) if opened else NONE]
    return [one["id"], one["name"], one["state"], str(one["spec"]["gpu"]), *times]


def _show(session: Session, one: dict) -> None:
    session.show(one, [one["name"]], [f"{one['name']} ({one['id']}) is {one['state']}."])


def _path(one: dict, rest: str = "") -> str:
    return f"/notebooks/{one['id']}{rest}"
