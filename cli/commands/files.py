"""`files`: list, send, fetch, move and delete files."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli.failures import NOT_FOUND, USAGE, Failure, Refused, Unreachable
from cli.http.transport import Client
from cli.output.cells import NONE, format_bytes
from cli.output.safe_text import plain
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
files = new_commands()
commands.add_typer(files, name="files", help="Your files there, and your teams'.")

UPLOADS = "/files/uploads"
PIECE = {"Content-Type": "application/offset+octet-stream"}
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Pauses between retries while the portal does not answer."""

Remote = Annotated[str, typer.Argument(metavar="REMOTE", help="Such as data/a.bin, or team:nlp/data/a.bin")]


@files.command("ls", cls=Command)
def list_files(ctx: typer.Context, remote: Remote = "") -> None:
    """List a folder."""
    session: Session = ctx.obj
    place, path = _split_address(remote)
    found = session.client().get("/files", place=place, path=path)
    rows = [
        [_name_of(entry), _size_of(entry), entry["changed_at"][:16].replace("T", " ")] for entry in found["results"]
    ]
    columns = [Column("NAME", least=16), Column("SIZE", right=True), Column("CHANGED")]
    names = [entry["name"] for entry in found["results"]]
    session.show_table(found, names, columns, rows, "Nothing is here yet. Send a file: tessera files put FILE")
    if found["cut"]:
        session.print_note("There are more than these. Look at the rest in a terminal.")


@files.command("places", cls=Command)
def list_places(ctx: typer.Context) -> None:
    """Your home and your teams' folders, and how full each is."""
    session: Session = ctx.obj
    found = session.client().get("/files/places")
    rows = [
        [one["place"], format_bytes(one["bytes"]), format_bytes(one["limit_bytes"]) if one["limit_bytes"] else NONE]
        for one in found["results"]
    ]
    columns = [Column("PLACE", least=12), Column("USED", right=True), Column("LIMIT", right=True)]
    session.show_table(found, [row[0] for row in rows], columns, rows, "There are no places.")


@files.command("mkdir", cls=Command)
def make_folder(ctx: typer.Context, remote: Remote) -> None:
    """Make a folder in one that is there."""
    session: Session = ctx.obj
    place, path = _split_address(remote)
    session.client().post("/files:mkdir", {"place": place, "path": path}, repeat=False)
    shown = _format_address(place, path)
    session.show({"made": shown}, [shown], [f"{shown}/ is there."])


@files.command("mv", cls=Command)
def move(
    ctx: typer.Context,
    remote: Remote,
    to: Annotated[str, typer.Argument(metavar="TO", help="The whole new path, in the same place.")],
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of one that is there.")] = False,
) -> None:
    """Rename a file or folder, or move it within its place."""
    session: Session = ctx.obj
    (place, path), (goal, new) = _split_address(remote), _split_address(to)
    if goal != place:
        raise Failure(USAGE, f"{plain(remote)} and {plain(to)} are two places. Fetch it, and send it there.")
    session.client().post("/files:move", {"place": place, "path": path, "to": new, "replace": replace}, repeat=False)
    shown = _format_address(place, new)
    session.show({"moved": shown}, [shown], [f"{_format_address(place, path)} is now {shown}."])


@files.command("put", cls=Command)
def put(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    remote: Annotated[str, typer.Argument(metavar="REMOTE", help="A path, or a folder with a slash at its end")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of one that is there.")] = False,
    resume: Annotated[str, typer.Option("--resume", metavar="ID", help="Go on with an upload that broke off.")] = "",
) -> None:
    """Send a file.

    A connection that breaks is waited for, and the file goes on where it ended.
    """
    session: Session = ctx.obj
    client = session.client()
    place, path = _split_address(remote + file.name if not remote or remote.endswith(("/", ":")) else remote)
    with _open_to_read(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        if resume:
            upload = client.get(f"{UPLOADS}/{quote(resume, safe='')}")
            if upload["size"] != size:
                raise Failure(USAGE, f"{plain(file.name)} has {size} bytes, and the upload is of {upload['size']}.")
        else:
            upload = _begin_upload(client, place, path, size, replace)
        command = f"tessera files put {plain(str(file))} --resume {upload['id']}"
        upload = _send_pieces(session, client, stream, upload, command)
    shown = _format_address(upload["place"], upload["path"])
    session.show(upload, [shown], [f"{shown} is there, {format_bytes(size)}."])


@files.command("get", cls=Command)
def get(
    ctx: typer.Context,
    remote: Remote,
    to: Annotated[Path | None, typer.Argument(metavar="FILE", help="Else the same name, here")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a file that is here.")] = False,
) -> None:
    """Fetch a file. It gets its name here once all of it has come."""
    session: Session = ctx.obj
    place, path = _split_address(remote)
    name = path.rpartition("/")[2]
    target = to / name if to and to.is_dir() else to or Path(name)
    if not name or target.name in {"", ".", ".."}:
        raise Failure(USAGE, "Name the file that you want, such as: tessera files get data/a.bin")
    if target.exists() and not replace:
        raise Failure(USAGE, f"{plain(str(target))} is here already. Use --replace, or another name.")
    part = target.with_name(f"{target.name}.part")
    count = _download(session.client(), place, path, part)
    part.replace(target)
    session.show({"file": str(target), "bytes": count}, [str(target)], [f"{target} is here, {format_bytes(count)}."])


@files.command("rm", cls=Command)
def remove(
    ctx: typer.Context,
    remote: Remote,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a file, or a folder with everything in it."""
    session: Session = ctx.obj
    place, path = _split_address(remote)
    shown = _format_address(place, path)
    if not yes and not typer.confirm(f"Delete {plain(shown)} and everything in it?", err=True):
        raise Failure(USAGE, "Nothing was deleted.")
    session.client().delete("/files/content", place=place, path=path)
    session.show({"deleted": shown}, [shown], [f"{shown} is deleted."])


def _begin_upload(client: Client, place: str, path: str, size: int, replace: bool) -> dict:
    try:
        return client.post(UPLOADS, {"place": place, "path": path, "size": size, "replace": replace}, repeat=False)
    except Refused as refused:
        if refused.code == "name_taken":
            words = f"The name {plain(_format_address(place, path))} is taken. Use --replace, or another name."
            raise Failure(USAGE, words) from None
        folder = plain(_format_address(place, path.rpartition("/")[0]))
        if refused.status != 404 or not folder:
            raise
        raise Failure(NOT_FOUND, f"There is no folder {folder}. Make it: tessera files mkdir {folder}") from None


def _send_pieces(session: Session, client: Client, stream: Any, upload: dict, command: str) -> dict:
    """Send pieces; after a break ask where to go on."""
    path = f"{UPLOADS}/{upload['id']}"
    try:
        while not upload["done"]:
            stream.seek(upload["offset"])
            piece = stream.read(upload["chunk_bytes"])
            if not piece and upload["offset"] < upload["size"]:
                raise Failure(USAGE, "The file became shorter while it was sent. Send it anew.")
            try:
                upload = client.patch_body(path, piece, {**PIECE, "Upload-Offset": str(upload["offset"])})
            except Unreachable:
                upload = _ask_progress(session, client, path)
            except Refused as refused:
                if refused.code not in {"wrong_offset", "upload_busy"}:
                    raise
                upload = _ask_progress(session, client, path)
    except (KeyboardInterrupt, Unreachable):
        session.print_note(f"Go on within a day with: {command}")
        raise
    return upload


def _ask_progress(session: Session, client: Client, path: str) -> dict:
    for pause in (*PAUSES_S, None):
        try:
            return client.get(path)
        except Unreachable:
            if pause is None:
                raise
            session.print_note("The portal does not answer; the file goes on when it does.")
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def _download(client: Client, place: str, path: str, part: Path) -> int:
    count = 0
    try:
        with client.stream("/files/content", place=place, path=path) as (_, pieces), open(part, "wb") as file:
            for piece in pieces:
                count += file.write(piece)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise Failure(USAGE, f"{plain(str(part))} cannot be written ({error.strerror}).") from None
        raise
    return count


@contextlib.contextmanager
def _open_to_read(file: Path) -> Iterator[Any]:
    try:
        stream = open(file, "rb")  # noqa: SIM115 - closed below; only its opening is a matter of usage
    except OSError as error:
        raise Failure(USAGE, f"{plain(str(file))} cannot be read ({error.strerror}).") from None
    with stream:
        yield stream


def _split_address(remote: str) -> tuple[str, str]:
    """Split "team:nlp/a" into ("team:nlp", "a") and "a" into ("home", "a")."""
    if not remote.startswith("team:"):
        return "home", remote.strip("/")
    place, _, path = remote.partition("/")
    return place, path.strip("/")


def _format_address(place: str, path: str) -> str:
    return path if place == "home" else f"{place}/{path}".removesuffix("/")


def _name_of(entry: dict) -> str:
    return entry["name"] + {"folder": "/", "link": "@"}.get(entry["kind"], "")


def _size_of(entry: dict) -> str:
    return format_bytes(entry["size"]) if entry["kind"] == "file" else ""
