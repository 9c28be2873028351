"""`images` and `registries`."""

import sys
from typing import Annotated, Any

import typer

from cli.completing import complete_image_names, complete_registry_names
from cli.failures import NOT_FOUND, USAGE, Failure
from cli.http.transport import Client
from cli.naming import describe_ambiguous, suggest
from cli.output.cells import NONE
from cli.output.safe_text import plain
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
images = new_commands()
registries = new_commands()
commands.add_typer(images, name="images", help="Images by name: ls, add, set, rm.")
commands.add_typer(registries, name="registries", help="Logins at image registries: ls, add, set, rm.")

Alias = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_image_names)]
Team = Annotated[str | None, typer.Option("--team", help="Of this team alone; else everybody's.")]
Description = Annotated[str | None, typer.Option("--description", help="A few words for those who choose.")]
Ahead = Annotated[bool | None, typer.Option("--ahead/--no-ahead", help="Machines fetch it before a job asks for it.")]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]

IMAGES = (
    Column("NAME", least=6),
    Column("IMAGE", least=12),
    Column("DIGEST"),
    Column("TEAM"),
    Column("ON NODES", right=True),
    Column("TROUBLE", least=8),
)
REGISTRIES = (Column("ID", right=True), Column("REGISTRY", least=8), Column("USER", least=6), Column("TEAM"))
SHORT_DIGEST = 19
LoginName = Annotated[
    str, typer.Argument(metavar="ID|HOST", help="Or its registry's name.", autocompletion=complete_registry_names)
]


@images.command("ls", cls=Command)
def list_images(ctx: typer.Context) -> None:
    """What a job file may name under `image`, and how many machines hold it already."""
    session: Session = ctx.obj
    found = session.client().get("/images")
    rows = [_image_row(image) for image in found["results"]]
    aliases = [image["alias"] for image in found["results"]]
    session.show_table(found, aliases, IMAGES, rows, "The catalogue is empty. Add to it: tessera images add NAME IMAGE")


@images.command("add", cls=Command)
def add_image(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    image: Annotated[str, typer.Argument(metavar="IMAGE")],
    team: Team = None,
    description: Description = None,
    ahead: Ahead = None,
) -> None:
    """Give an image a name."""
    session: Session = ctx.obj
    body = {"alias": name, "reference": image, "team": team, "description": description or "", "prepull": bool(ahead)}
    made = session.client().post("/images", body, repeat=False)
    session.show(made, [made["alias"]], _image_lines(made))


@images.command("set", cls=Command)
def change_image(
    ctx: typer.Context,
    name: Alias,
    image: Annotated[str | None, typer.Argument(metavar="[IMAGE]")] = None,
    team: Team = None,
    description: Description = None,
    ahead: Ahead = None,
) -> None:
    """Let a name stand for another image. Jobs that were submitted keep what they run."""
    session: Session = ctx.obj
    options = {"reference": image, "description": description, "prepull": ahead}
    wanted = {key: value for key, value in options.items() if value is not None}
    if not wanted:
        raise Failure(USAGE, "Say what it shall be: an IMAGE, --description, --ahead or --no-ahead.")
    client = session.client()
    changed = client.patch(f"/images/{_find_image(client, name, team)}", wanted)
    session.show(changed, [changed["alias"]], _image_lines(changed))


@images.command("rm", cls=Command)
def remove_image(ctx: typer.Context, name: Alias, team: Team = None) -> None:
    """Take a name out of the catalogue. Jobs that were submitted keep what they run."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(f"/images/{_find_image(client, name, team)}")
    session.print_note(f"{plain(name)} names no image any more.")


@registries.command("ls", cls=Command)
def list_registries(ctx: typer.Context) -> None:
    """Logins that jobs' images are fetched with: of the teams that you lead."""
    session: Session = ctx.obj
    found = session.client().get("/registries")
    rows = [[str(one["id"]), one["registry"], one["user"], one["team"] or "all"] for one in found["results"]]
    ids = [str(one["id"]) for one in found["results"]]
    session.show_table(found, ids, REGISTRIES, rows, "No logins. Add one: tessera registries add HOST USER")


@registries.command("add", cls=Command)
def add_registry(
    ctx: typer.Context,
    host: Annotated[str, typer.Argument(metavar="HOST")],
    user: Annotated[str, typer.Argument(metavar="USER")],
    team: Annotated[str | None, typer.Option("--team", help="Only this team's jobs fetch with it.")] = None,
    password_stdin: PasswordStdin = False,
) -> None:
    """Log a team in at a registry. The password is asked for, and nobody can read it afterwards."""
    session: Session = ctx.obj
    body = {"registry": host, "user": user, "password": _password(password_stdin), "team": team}
    made = session.client().post("/registries", body, repeat=False)
    session.show(made, [str(made["id"])], [f"{made['team'] or 'Everybody'} fetches from {made['registry']} with it."])


@registries.command("set", cls=Command)
def change_registry(
    ctx: typer.Context,
    login: LoginName,
    user: Annotated[str | None, typer.Option("--user", help="Another user, too.")] = None,
    password_stdin: PasswordStdin = False,
) -> None:
    """Another password, for whatever starts from now on."""
    session: Session = ctx.obj
    client = session.client()
    number = _find_login(client, login)
    body = {"password": _password(password_stdin)} | ({"user": user} if user is not None else {})
    changed = client.patch(f"/registries/{number}", body)
    session.show(changed, [str(changed["id"])], [f"The login at {changed['registry']} has a new password."])


@registries.command("rm", cls=Command)
def remove_registry(ctx: typer.Context, login: LoginName) -> None:
    """Fetch with it no more. At the registry it is still good: withdraw it there."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(f"/registries/{_find_login(client, login)}")
    session.print_note("Nothing is fetched with it any more. Withdraw it at the registry, too.")


def _find_image(client: Client, alias: str, team: str | None) -> int:
    found = [image for image in client.get("/images")["results"] if image["alias"] == alias]
    for image in found:
        if image["team"] == team:
            return image["id"]
    if len(found) == 1 and team is None:
        return found[0]["id"]
    raise Failure(NOT_FOUND, f"The catalogue has no {plain(alias)} of {plain(team or 'everybody')}.")


def _find_login(client: Client, text: str) -> int:
    """Return the id of the login that is meant by its id, or by a registry with no other. Raises Failure."""
    if text.isascii() and text.isdecimal():
        return int(text)
    found = client.get("/registries")["results"]
    meant = [one for one in found if one["registry"] == text]
    if len(meant) > 1:
        which = (f"{one['id']}, {one['user']} of {one['team'] or 'all'}" for one in meant)
        raise Failure(USAGE, *describe_ambiguous(text, which))
    if not meant:
        near = suggest(text, (one["registry"] for one in found)) or " Look at them: tessera registries ls"
        raise Failure(NOT_FOUND, f"There is no login at {plain(text)}.{near}")
    return meant[0]["id"]


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    return typer.prompt("Password or token", hide_input=True, err=True)


def _image_row(image: dict[str, Any]) -> list[str]:
    where = f"{len(image['nodes'])}/{image['of_nodes']}"
    digest, team = image["digest"][:SHORT_DIGEST] or NONE, image["team"] or "all"
    return [image["alias"], image["reference"], digest, team, where, image["problem_text"] or NONE]


def _image_lines(image: dict[str, Any]) -> list[str]:
    known = image["digest"] or "not looked up yet"
    return [f"{image['alias']} is {image['reference']} ({known})", *filter(None, [image["problem_text"]])]
