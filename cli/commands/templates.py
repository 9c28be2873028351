"""`templates`: jobs with parameters, run by `tessera run --template NAME`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.completing import complete_template_names
from cli.failures import USAGE, Failure
from cli.naming import find_template
from cli.output.cells import NONE
from cli.output.table import Column, lay_out, terminal_width
from cli.session import Command, Session, new_commands

commands = new_commands()
templates = new_commands()
commands.add_typer(templates, name="templates", help="Templates of jobs: list, show, create, update, archive, restore.")

COLUMNS = (
    *(Column("NAME", least=12), Column("ID"), Column("FOR")),
    *(Column("VERSION", right=True), Column("DESCRIPTION", least=20)),
)
PARAMETERS = (Column("PARAMETER", least=8), Column("TYPE"), Column("DEFAULT", least=8), Column("HELP", least=20))

Template = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_template_names)]
File = Annotated[str, typer.Argument(metavar="FILE", help="A template file; - reads standard input.")]


@templates.command("list", cls=Command)
def list_templates(
    ctx: typer.Context,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Words of its name or description.")] = None,
    team: Annotated[str | None, typer.Option(help="Of this team.")] = None,
    examples: Annotated[bool, typer.Option("--examples", help="Only those that come with the platform.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Those that were archived.")] = False,
) -> None:
    """List the templates of your teams, everybody's, and the examples."""
    session: Session = ctx.obj
    asked = {"q": text, "team": team, "examples": "true" if examples else None}
    found = session.client().get("/templates", **asked, archived="true" if archived else None)
    rows = [
        [one["name"], one["id"], _describe_owner(one), str(one["version"]), one["description"]]
        for one in found["results"]
    ]
    empty = "No templates here. Write one: tessera templates create FILE"
    session.show_table(found, [one["id"] for one in found["results"]], COLUMNS, rows, empty)


@templates.command("show", cls=Command)
def show_template(
    ctx: typer.Context,
    name: Template,
    file: Annotated[bool, typer.Option("--file", help="Its text, as it was written.")] = False,
) -> None:
    """Show a template with its parameters: finetune, finetune@4, nlp/finetune or tpl-3."""
    session: Session = ctx.obj
    client = session.client()
    template_id, version = find_template(client, name)
    found = client.get(f"/templates/{template_id}", version=version)
    lines = found["file"].rstrip("\n").split("\n") if file else _describe(found)
    session.show(found, [found["id"]], lines)


@templates.command("create", cls=Command)
def create_template(
    ctx: typer.Context,
    file: File,
    team: Annotated[str | None, typer.Option(help="Needed if you are in several.")] = None,
    everybody: Annotated[bool, typer.Option("--everybody", help="For all teams, as an administrator.")] = False,
) -> None:
    """Create a template of a file: a job file with a head that names its parameters."""
    session: Session = ctx.obj
    body = {"file": _read(file), "everybody": everybody} | ({"team": team} if team else {})
    made = session.client().post("/templates", body)
    lines = [f"{made['name']} is {made['id']}. Run it: tessera run --template {made['name']}"]
    session.show(made, [made["id"]], lines)


@templates.command("update", cls=Command)
def update_template(ctx: typer.Context, name: Template, file: File) -> None:
    """Save a file as the new version of a template. The earlier ones stay."""
    session: Session = ctx.obj
    client = session.client()
    template_id, _version = find_template(client, name)
    made = client.post(f"/templates/{template_id}/versions", {"file": _read(file)})
    session.show(made, [made["id"]], [f"{made['name']}@{made['number']} is saved."])


@templates.command("archive", cls=Command)
def archive_template(ctx: typer.Context, name: Template) -> None:
    """Take a template out of lists; no job is made of it until it is restored."""
    _change(ctx.obj, name, "archive")


@templates.command("restore", cls=Command)
def restore_template(ctx: typer.Context, name: Template) -> None:
    """Put an archived template back. Name it by its id: tessera templates list --archived"""
    _change(ctx.obj, name, "restore")


def _change(session: Session, name: str, verb: str) -> None:
    client = session.client()
    template_id, _version = find_template(client, name)
    told = client.post(f"/templates/{template_id}:{verb}")
    session.show(told, [told["id"]], [f"{told['name']} is {verb}d."])


def _describe(found: dict[str, Any]) -> list[str]:
    lines = [f"{found['name']}@{found['number']} ({found['id']}), for {_describe_owner(found)}.", found["description"]]
    rows = [[one["name"], one["type"], _describe_default(one), one["help"]] for one in found["parameters"]]
    table = ["", *lay_out(PARAMETERS, rows, terminal_width()), ""] if rows else []
    needed = "".join(f" -p {one['name']}=..." for one in found["parameters"] if one["required"])
    return [*filter(None, lines), *table, f"Run it: tessera run --template {found['name']}@{found['number']}{needed}"]


def _describe_owner(one: dict[str, Any]) -> str:
    return "everybody (example)" if one["example"] else one["team"] or "everybody"


def _describe_default(one: dict[str, Any]) -> str:
    if one["required"]:
        return "needed"
    shown = str(one["default"]).lower() if isinstance(one["default"], bool) else str(one["default"])
    return f"{shown or NONE} ({', '.join(one['choices'])})" if one["choices"] else shown or NONE


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(USAGE, f"{file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise Failure(USAGE, f"{file} is not UTF-8. Save it as UTF-8.") from None
