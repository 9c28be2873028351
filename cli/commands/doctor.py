"""`doctor`: check the client's setup and the platform, with remedies."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated
from urllib.parse import urlsplit

import typer

from cli.failures import DENIED, NOT_FOUND, OK, SERVER, USAGE, Failure
from cli.http.credentials import TOKEN_VARIABLE, config_file, find_server, read_token
from cli.http.transport import VERSION, Client, compare_versions
from cli.output.cells import now, parse_time
from cli.session import Command, Session, new_commands

commands = new_commands()

SOON_DAYS = 3
OTHERS_MAY_READ = 0o077
MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


@dataclass(frozen=True)
class Finding:
    """One check's result. tone: ok, note or bad. exit_code: of a bad one."""

    about: str
    tone: str
    words: str
    exit_code: int = OK


@commands.command("doctor", cls=Command)
def doctor(
    ctx: typer.Context,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Check what the platform stands on, too. For admins.")
    ] = False,
) -> None:
    """Check address, token, versions and tools.

    Each line says what was looked at; what is wrong says how to mend it. The exit code is that of the first bad one.
    """
    session: Session = ctx.obj
    found = list(_run_checks(session, cluster))
    lines = [f"{MARKS[one.tone]}  {one.about:<8}  {one.words}" for one in found]
    answer = {"client": VERSION, "findings": [asdict(one) for one in found]}
    session.show(answer, [one.about for one in found if one.tone == "bad"], lines)
    raise typer.Exit(next((one.exit_code for one in found if one.tone == "bad"), OK))


def _run_checks(session: Session, cluster: bool) -> Iterator[Finding]:
    """Yield findings, each check needing those before."""
    yield _check_config()
    try:
        server = find_server(session.server)
    except Failure as failure:
        yield Finding("server", "bad", failure.lines[0], USAGE)
        return
    token = read_token(server)
    try:
        yield _check_version(session.anonymous_client())
    except Failure as failure:
        yield Finding("server", "bad", " ".join(failure.lines), SERVER)
        return
    yield from _check_localhost(server)
    yield _check_ssh()
    if not token:
        yield Finding("token", "bad", f"There is none for {server}. Run: tessera login {server}", DENIED)
        return
    client = Client(server, token, quiet=True, patient=False)
    try:
        yield from _check_account(client)
        yield _check_pools(client)
    except Failure as failure:
        yield Finding("token", "bad", " ".join(failure.lines), failure.exit_code)
        return
    if cluster:
        yield from _check_cluster(client)


def _check_config() -> Finding:
    file = config_file()
    if not file.exists():
        return Finding("config", "ok", f"{file} does not exist yet; `tessera login` makes it.")
    if sys.platform != "win32" and file.stat().st_mode & OTHERS_MAY_READ:
        return Finding("config", "bad", f"Others may read {file}, which holds tokens. Run: chmod 600 {file}", DENIED)
    return Finding("config", "ok", f"{file}, for your eyes only.")


def _check_version(client: Client) -> Finding:
    there = client.get("/version")
    if other := compare_versions(str(there["version"])):
        return Finding("server", "note", f"{client.server} answers. {other}")
    return Finding("server", "ok", f"{client.server} answers: platform {there['version']}, this command {VERSION}.")


def _check_localhost(server: str) -> Iterator[Finding]:
    """Check *.localhost, which browsers know but not every resolver."""
    host = urlsplit(server).hostname or ""
    if host != "localhost":
        return
    try:
        socket.getaddrinfo("any.localhost", 80)
        yield Finding("names", "ok", "*.localhost is this machine, so notebooks open here.")
    except OSError:
        words = (
            "This system does not know *.localhost. Browsers do, so notebooks open; other programs may not find them."
        )
        yield Finding("names", "note", words)


def _check_ssh() -> Finding:
    if shutil.which("ssh"):
        return Finding("ssh", "ok", "An OpenSSH client is installed.")
    return Finding("ssh", "note", "There is no `ssh` here. `tessera ssh`, scp and VS Code need OpenSSH.")


def _check_account(client: Client) -> Iterator[Finding]:
    me = client.get("/me")
    where = f" by {TOKEN_VARIABLE}" if os.environ.get(TOKEN_VARIABLE) else ""
    until = parse_time((me["token"] or {}).get("expires_at"))
    words = f"You are {me['username']}{where}; it may: {', '.join(me['scopes']) or 'nothing'}."
    if until and (until - now()).days < SOON_DAYS:
        yield Finding("token", "note", f"{words} It expires on {until:%Y-%m-%d}: make a new one soon.")
    else:
        yield Finding("token", "ok", words)
    teams = ", ".join(f"{team['name']} ({team['role']})" for team in me["teams"])
    if teams:
        yield Finding("teams", "ok", f"{teams}.")
    else:
        yield Finding("teams", "bad", "You are in no team, so you cannot run anything. Ask an admin.", DENIED)


def _check_pools(client: Client) -> Finding:
    pools = client.get("/capacity")["results"]
    if not pools:
        return Finding("pools", "bad", "There is no pool. Ask an admin to add one.", NOT_FOUND)
    free = "; ".join(f"{pool['pool']} {pool['free']['text']} of {pool['cards_total']} GPUs free" for pool in pools)
    return Finding("pools", "ok", f"{free}.")


def _check_cluster(client: Client) -> Iterator[Finding]:
    try:
        found = client.get("/findings")["results"]
    except Failure as failure:
        yield Finding("cluster", "bad", " ".join(failure.lines), failure.exit_code)
        return
    for one in found:
        words = f"{one['words']} {one['remedy']}".rstrip()
        yield Finding(one["about"], one["tone"], words, SERVER if one["tone"] == "bad" else OK)
