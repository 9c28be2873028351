"""`data`: datasets and models in versions that never change."""

import re
import time
from enum import StrEnum
from typing import Annotated

import typer

from cli.failures import NOT_FOUND, USAGE, Failure
from cli.http.transport import Client
from cli.output.cells import NONE, format_bytes
from cli.output.safe_text import plain
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
datasets = new_commands()
commands.add_typer(
    datasets, name="data", help="Datasets and models in versions: ls, add, show, diff, stage, share, rm, restore."
)

WAIT_S = 1.0
"""Between two looks at a version that is being taken."""
NAME = re.compile(r"(?:(model|dataset):)?(?:([^/@:]+)/)?([^/@:]+)(?:@v?([1-9][0-9]{0,8}))?")
COLUMNS = (Column("VERSION"), Column("STATE"), Column("FILES", right=True), Column("SIZE", right=True))


class Share(StrEnum):
    PRIVATE = "private"
    TEAM = "team"
    TEAMS = "teams"
    EVERYBODY = "everybody"


class NewShare(StrEnum):
    PRIVATE = "private"
    TEAM = "team"
    EVERYBODY = "everybody"


Name = Annotated[str, typer.Argument(metavar="NAME", help="Such as corpus, team/corpus or model:bert.")]
Version = Annotated[str, typer.Argument(metavar="NAME@VERSION", help="Such as corpus@v7.")]


@datasets.command("ls", cls=Command)
def list_datasets(ctx: typer.Context) -> None:
    """List the datasets and models that you may read."""
    session: Session = ctx.obj
    found = session.client().get_all("/datasets", sort="name")
    rows = [
        [_name_of(one), one["team"], f"v{one['newest']}", one["share"], one["owner"], one["description"]]
        for one in found["results"]
    ]
    columns = [Column("NAME", least=8), Column("TEAM"), Column("NEWEST"), Column("FOR"), Column("OWNER"), Column("IS")]
    names = [_name_of(one) for one in found["results"]]
    session.show_table(
        found, names, columns, rows, "No datasets yet. Take a folder: tessera data add corpus data/corpus"
    )


@datasets.command("add", cls=Command)
def add(
    ctx: typer.Context,
    name: Name,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Such as data/corpus, or team:nlp/corpus.")],
    share: Annotated[NewShare, typer.Option("--share", help="Who may read a new one.")] = NewShare.TEAM,
    note: Annotated[str, typer.Option("--note", help="What is new in this version.")] = "",
    description: Annotated[str, typer.Option("--description", help="What a new one is.")] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when all is read.")] = True,
) -> None:
    """Take a folder, as it is now, as the next version.

    The folder is read on the platform: send files there first, tessera files put. What is the same as in an earlier
    version needs no room again.
    """
    session: Session = ctx.obj
    client = session.client()
    kind, team, plain_name, number = _read_name(name)
    if number:
        raise Failure(USAGE, f"A new version gets the next number by itself: leave @v{number} out.")
    place, path = _split_folder(folder)
    body = {"name": plain_name, "kind": kind, "place": place, "path": path, "note": note, "share": share.value}
    body |= {"description": description} | ({"team": team} if team else {})
    row = client.post("/datasets", body, repeat=False)
    while wait and row["state"] == "taking":
        time.sleep(WAIT_S)
        row = client.get(f"/datasets/{row['dataset']}/versions/{row['version']}")
    if row["state"] == "failed":
        raise Failure(USAGE, row["error"] or "It could not be taken.")
    session.show(row, [row["name"]], _describe(row))


@datasets.command("show", cls=Command)
def show(ctx: typer.Context, name: Name) -> None:
    """Show the versions of a dataset, or one of them."""
    session: Session = ctx.obj
    client = session.client()
    *_, number = _read_name(name)
    dataset_id = _find(client, name)
    if number:
        row = client.get(f"/datasets/{dataset_id}/versions/{number}")
        session.show(row, [row["name"]], _describe(row))
        return
    found = client.get_all(f"/datasets/{dataset_id}/versions")
    stages = client.get(f"/datasets/{dataset_id}")["stages"]
    rows = [
        [
            f"v{row['version']}",
            row["state"],
            str(row["files"]),
            format_bytes(row["bytes"]),
            row["source"],
            row["by"],
            ", ".join(name for name, number in stages.items() if number == row["version"]) or NONE,
        ]
        for row in found["results"]
    ]
    columns = [*COLUMNS, Column("OF", least=8), Column("BY"), Column("STAGES")]
    session.show_table(found, [row[0] for row in rows], columns, rows, "It has no versions.")


@datasets.command("diff", cls=Command)
def diff(ctx: typer.Context, before: Version, after: Version) -> None:
    """Show which files differ between two versions."""
    session: Session = ctx.obj
    client = session.client()
    old, new = _read_version(before), _read_version(after)
    dataset_id = _find(client, before)
    if _find(client, after) != dataset_id:
        raise Failure(USAGE, "Two versions of one dataset can be compared, such as corpus@v6 corpus@v7.")
    found = client.get(f"/datasets/{dataset_id}/versions/{new}/diff", against=old)
    rows = [[one["change"], one["path"], _size(one["size_before"]), _size(one["size"])] for one in found["results"]]
    columns = [Column("CHANGE"), Column("FILE", least=16), Column("BEFORE", right=True), Column("AFTER", right=True)]
    session.show_table(found, [row[1] for row in rows], columns, rows, "Both hold the same.")


@datasets.command("stage", cls=Command)
def stage(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="Such as model:bert@v7.")],
    to: Annotated[str, typer.Argument(metavar="STAGE", help="Such as prod.")],
    remove: Annotated[bool, typer.Option("--remove", help="Forget the stage. The version stays.")] = False,
) -> None:
    """Let a stage be of a version from now on: jobs may name model:bert@prod.

    Jobs that were accepted keep the version that they have.
    """
    session: Session = ctx.obj
    client = session.client()
    number = None if remove else int(_read_version(name))
    row = client.patch(f"/datasets/{_find(client, name)}", {"stages": {to: number}})
    is_now = "is no more" if number is None else f"is v{number} now"
    session.show(row, [row["name"]], [f"{row['name']}@{plain(to)} {is_now}."])


@datasets.command("share", cls=Command)
def share(
    ctx: typer.Context,
    name: Name,
    to: Annotated[Share, typer.Argument(metavar="WHOM", help="private, team, teams or everybody.")],
    team: Annotated[
        list[str] | None, typer.Option("--team", help="With teams: who else may read it. Repeat it.")
    ] = None,
) -> None:
    """Say who may read a dataset. Jobs that were accepted keep what they name."""
    session: Session = ctx.obj
    client = session.client()
    body = {"share": to.value} | ({"teams": team} if team else {})
    row = client.patch(f"/datasets/{_find(client, name)}", body)
    who = ", ".join(row["shared_with"]) if to is Share.TEAMS else to.value
    session.show(row, [row["name"]], [f"{row['name']} is shared: {who}."])


@datasets.command("rm", cls=Command)
def remove(ctx: typer.Context, version: Version) -> None:
    """Delete a version that no open job uses. It comes back within a week: tessera data restore."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(f"/datasets/{_find(client, version)}/versions/{_read_version(version)}")
    session.print_note(f"{plain(version)} is deleted. Until a week from now: tessera data restore {plain(version)}")


@datasets.command("restore", cls=Command)
def restore(ctx: typer.Context, version: Version) -> None:
    """Take the deletion of a version back."""
    session: Session = ctx.obj
    client = session.client()
    row = client.post(f"/datasets/{_find(client, version)}/versions/{_read_version(version)}:restore")
    session.show(row, [row["name"]], [f"{row['name']} is there again."])


def _read_name(text: str) -> tuple[str, str, str, str]:
    """Return (kind, team or "", name, number or "")."""
    found = NAME.fullmatch(text)
    if found is None:
        raise Failure(USAGE, f"{plain(text)} names no dataset. Write corpus, team/corpus@v7 or model:bert")
    return found[1] or "dataset", found[2] or "", found[3], found[4] or ""


def _read_version(text: str) -> str:
    *_, number = _read_name(text)
    if not number:
        raise Failure(USAGE, f"Say which version, such as {plain(text)}@v1")
    return number


def _find(client: Client, text: str) -> str:
    """Return the id of the dataset that is named. Raises Failure."""
    kind, team, name, _ = _read_name(text)
    rows = client.get_all("/datasets", kind=kind, q=name)["results"]
    found = [row for row in rows if row["name"] == name and team in ("", row["team"])]
    if not found:
        raise Failure(NOT_FOUND, f"There is no {kind} {plain(name)!r} that you may read. Look: tessera data ls")
    if len(found) > 1:
        teams = ", ".join(row["team"] for row in found)
        raise Failure(USAGE, f"Several teams have {plain(name)!r}: {teams}. Write team/{plain(name)}")
    return found[0]["id"]


def _split_folder(folder: str) -> tuple[str, str]:
    """Split "team:nlp/a" into ("team:nlp", "a") and "a" into ("home", "a")."""
    if not folder.startswith("team:"):
        return "home", folder.removeprefix("home:").strip("/")
    place, _, path = folder.partition("/")
    return place, path.strip("/")


def _describe(row: dict) -> list[str]:
    lines = [
        f"{row['name']} is {row['state']}: {row['files']} files, {format_bytes(row['bytes'])}, "
        f"{format_bytes(row['new_bytes'])} new. Taken of {row['source']} by {row['by']}.",
    ]
    if row["left_out_count"]:
        named = [f"  {one['path']}: {one['why']}" for one in row["left_out"][:10]]
        lines += [f"Left out: {row['left_out_count']}", *named]
    if row["error"]:
        lines.append(row["error"])
    return lines


def _name_of(row: dict) -> str:
    return f"model:{row['name']}" if row["kind"] == "model" else row["name"]


def _size(number: int | None) -> str:
    return NONE if number is None else format_bytes(number)
