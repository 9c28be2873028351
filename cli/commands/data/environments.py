"""`env`: environments of Python packages in versions."""

import io
import re
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cli.code_upload import read_job_file, upload_code
from cli.failures import NOT_FOUND, USAGE, Failure
from cli.http.transport import Client
from cli.output.safe_text import plain
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
environments = new_commands()
commands.add_typer(environments, name="env", help="Environments of Python packages: ls, show, build, save, diff, rm.")

NAME = re.compile(r"(?:([^/@:]+)/)?([^/@:]+)(?:@v?([1-9][0-9]{0,8}))?")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Such as sd-train, team/sd-train or sd-train@3.")]
Version = Annotated[str, typer.Argument(metavar="NAME@VERSION", help="Such as sd-train@3.")]


@environments.command("ls", cls=Command)
def list_environments(
    ctx: typer.Context,
    package: Annotated[str, typer.Option("--package", help="Only those with it: numpy, or numpy==2.1.0.")] = "",
) -> None:
    """List the environments that you may use."""
    session: Session = ctx.obj
    found = session.client().get_all("/environments", sort="name", package=package or None)
    rows = [
        [one["name"], one["team"], f"v{one['newest']}", one["share"], one["owner"], one["description"]]
        for one in found["results"]
    ]
    columns = [Column("NAME", least=8), Column("TEAM"), Column("NEWEST"), Column("FOR"), Column("OWNER"), Column("IS")]
    empty = "None has it." if package else "No environments yet. Write a recipe: tessera env build sd-train.yaml"
    session.show_table(found, [row[0] for row in rows], columns, rows, empty)


@environments.command("show", cls=Command)
def show(ctx: typer.Context, name: Name) -> None:
    """Show the versions of an environment, or the packages of one of them, as lines for pip."""
    session: Session = ctx.obj
    client = session.client()
    dataset_id, number = _find(client, name), _read_name(name)[2]
    if number:
        found = client.get(f"/datasets/{dataset_id}/versions/{number}/packages")
        lines = [f"{one['name']}=={one['version']}" for one in found["results"]]
        session.show(found, [one["name"] for one in found["results"]], lines or ["It brings no packages."])
        return
    found = client.get_all(f"/datasets/{dataset_id}/versions")
    rows = [
        [f"v{one['version']}", one["state"], one["base"] or "-", one["note"], one["by"]] for one in found["results"]
    ]
    columns = [Column("VERSION"), Column("STATE"), Column("BASE", least=8), Column("NOTE", least=8), Column("BY")]
    session.show_table(found, [row[0] for row in rows], columns, rows, "It has no versions.")


@environments.command("build", cls=Command)
def build(
    ctx: typer.Context, file: Annotated[str, typer.Argument(metavar="FILE", help="The recipe, in YAML.")]
) -> None:
    """Build the next version from a recipe, by a job.

    The recipe has a name and pip, a list of requirements; base, an image; files, from their path here to that in the
    environment; test, a command that must succeed. With files or -r, the recipe's folder is sent as the job's code.
    """
    session: Session = ctx.obj
    client = session.client()
    recipe = _read_recipe(read_job_file(file), file)
    if recipe.get("files") or any(str(line).lstrip().startswith(("-r", "-c")) for line in recipe.get("pip") or []):
        recipe["code"] = upload_code(session, client, Path.cwd() if file == "-" else Path(file).parent)
    made = client.post("/environments:build", recipe, key=str(uuid4()))
    session.show(made, [made["job"]], [f"{made['job']} builds it. Follow it: tessera logs -f {made['job']}"])


@environments.command("save", cls=Command)
def save(
    ctx: typer.Context,
    notebook: Annotated[str, typer.Argument(metavar="NOTEBOOK", help="Its id, such as nb-5.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the environment, such as sd-train.")],
    note: Annotated[str, typer.Option("--note", help="What is new in this version.")] = "",
) -> None:
    """Save the packages that a notebook of yours keeps as the next version."""
    session: Session = ctx.obj
    row = session.client().post(f"/notebooks/{notebook}:save-environment", {"name": name, "note": note}, repeat=False)
    session.show(row, [row["name"]], [f"{row['name']} is being taken: tessera env show {name}"])


@environments.command("diff", cls=Command)
def diff(ctx: typer.Context, before: Version, after: Version) -> None:
    """Show which packages differ between two versions of an environment."""
    session: Session = ctx.obj
    client = session.client()
    dataset_id = _find(client, before)
    if _find(client, after) != dataset_id:
        raise Failure(USAGE, "Two versions of one environment can be compared, such as sd-train@2 sd-train@3.")
    old, new = _read_version(before), _read_version(after)
    found = client.get(f"/datasets/{dataset_id}/versions/{new}/packages", against=old)
    rows = [[one["name"], one["before"] or "-", one["version"] or "-"] for one in found["results"]]
    columns = [Column("PACKAGE", least=8), Column(f"V{old}"), Column(f"V{new}")]
    session.show_table(found, [row[0] for row in rows], columns, rows, "Both bring the same packages.")


@environments.command("rm", cls=Command)
def remove(ctx: typer.Context, version: Version) -> None:
    """Delete a version that no open job uses. Its page brings it back within a week."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(f"/datasets/{_find(client, version)}/versions/{_read_version(version)}")
    session.print_note(f"{plain(version)} is deleted. It comes back on its page until a week from now.")


def _read_recipe(text: str, file: str) -> dict[str, Any]:
    try:
        said = YAML(typ="safe", pure=True).load(io.StringIO(text))
    except YAMLError as error:
        raise Failure(USAGE, f"{file} is no YAML: {plain(str(error).splitlines()[0])}") from None
    if not isinstance(said, dict):
        raise Failure(USAGE, f"{file} is no recipe. Write a name and pip, a list of packages.")
    return said


def _read_name(text: str) -> tuple[str, str, str]:
    """Return (team or "", name, number or "")."""
    found = NAME.fullmatch(text)
    if found is None:
        raise Failure(USAGE, f"{plain(text)} names no environment. Write sd-train or team/sd-train@3")
    return found[1] or "", found[2], found[3] or ""


def _read_version(text: str) -> str:
    *_, number = _read_name(text)
    if not number:
        raise Failure(USAGE, f"Say which version, such as {plain(text)}@1")
    return number


def _find(client: Client, text: str) -> str:
    """Return the id of the environment that is named. Raises Failure."""
    team, name, _ = _read_name(text)
    rows = client.get_all("/environments", q=name)["results"]
    found = [row for row in rows if row["name"] == name and team in ("", row["team"])]
    if not found:
        raise Failure(NOT_FOUND, f"There is no environment {plain(name)!r} that you may use. Look: tessera env ls")
    if len(found) > 1:
        teams = ", ".join(row["team"] for row in found)
        raise Failure(USAGE, f"Several teams have {plain(name)!r}: {teams}. Write team/{plain(name)}")
    return found[0]["id"]
