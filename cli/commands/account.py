"""`login`, `logout`, `whoami`, `profile` and `version`."""

import os
import sys
from typing import Annotated

import typer

from cli.failures import DENIED, USAGE, Failure, Refused
from cli.http.credentials import TOKEN_VARIABLE, find_server, forget_token, normalize_server, store_token
from cli.http.transport import VERSION, Client
from cli.output.cells import NONE
from cli.session import Command, Session, new_commands

commands = new_commands()
profile = new_commands()
commands.add_typer(profile, name="profile", help="Your name, mail address, language and time zone: show, set.")


@commands.command("login", cls=Command)
def login(
    ctx: typer.Context,
    url: Annotated[str | None, typer.Argument(metavar="URL", help="Such as http://localhost:8470")] = None,
    token_stdin: Annotated[bool, typer.Option("--token-stdin", help="Read the token from standard input.")] = False,
) -> None:
    """Sign in to a platform with a token.

    Make the token on the portal's Tokens page. It is asked for, or read from standard input or TESSERA_TOKEN, checked,
    and kept in ~/.config/tessera/config.json, which only you can read.
    """
    session: Session = ctx.obj
    server = normalize_server(url) if url else find_server(session.server)
    token = _read_token(server, token_stdin)
    try:
        me = Client(server, token, quiet=session.quiet).get("/me")
    except Refused as refused:
        if refused.status == 401:
            raise Failure(DENIED, *refused.lines[:1], f"Make one at {server}/settings/tokens") from None
        raise
    store_token(server, token)
    session.show(me, [me["username"]], [f"You are signed in to {server} as {me['username']}."])


@commands.command("logout", cls=Command)
def logout(ctx: typer.Context) -> None:
    """Forget the token of a platform.

    The token itself works until it expires or you revoke it on the portal's Tokens page.
    """
    session: Session = ctx.obj
    server = find_server(session.server)
    known = forget_token(server)
    session.print_note(f"The token for {server} is forgotten." if known else f"There was no token for {server}.")


@commands.command("whoami", cls=Command)
def whoami(ctx: typer.Context) -> None:
    """Who you are there, and what your token may do."""
    session: Session = ctx.obj
    client = session.client()
    me = client.get("/me")
    teams = ", ".join(f"{team['name']} ({team['role']})" for team in me["teams"])
    lines = [
        f"user    {me['username']}",
        f"server  {client.server}",
        f"teams   {teams or 'none'}",
        f"token   {', '.join(me['scopes'])}",
    ]
    if me["platform_role"] != "none":
        lines.insert(1, f"role    {me['platform_role']}")
    if me["token"] and me["token"]["expires_at"]:
        lines.append(f"        until {me['token']['expires_at'][:10]}")
    session.show(me, [me["username"]], lines)


@profile.command("show", cls=Command)
def show_profile(ctx: typer.Context) -> None:
    """Show your name, mail address, language and time zone."""
    session: Session = ctx.obj
    _show_profile(session, session.client().get("/me"))


@profile.command("set", cls=Command)
def set_profile(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Option("--name", help="Your full name.")] = None,
    mail: Annotated[str | None, typer.Option("--mail", metavar="ADDRESS", help="Where mail is sent.")] = None,
    language: Annotated[str | None, typer.Option("--language", help='Such as zh-hans; "" for the browser\'s.')] = None,
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", metavar="ZONE", help='Such as Asia/Shanghai; "" for the site\'s.')
    ] = None,
) -> None:
    """Change what you name; the rest stays as it is."""
    session: Session = ctx.obj
    asked = {"full_name": name, "email": mail, "language": language, "time_zone": time_zone}
    changes = {field: value for field, value in asked.items() if value is not None}
    if not changes:
        raise Failure(USAGE, "Say what to change: --name, --mail, --language or --time-zone.")
    _show_profile(session, session.client().patch("/me", changes))


@commands.command("version", cls=Command)
def version(ctx: typer.Context) -> None:
    """The versions of this command and of the platform."""
    session: Session = ctx.obj
    door = session.anonymous_client()
    try:
        there = door.get("/version")
    except Failure as failure:
        session.print_note(failure.lines[0])
        there = None
    both = {"client": VERSION, "server": there}
    lines = [f"tessera   {VERSION}"]
    if there:
        lines.append(f"platform  {there['version']} (API {there['api']}) at {door.server}")
    session.show(both, [VERSION], lines)


def _show_profile(session: Session, me: dict) -> None:
    lines = [
        f"name       {me['full_name'] or NONE}",
        f"mail       {me['email'] or NONE}",
        f"language   {me['language'] or 'that of the browser'}",
        f"time zone  {me['time_zone'] or 'that of the site'}",
    ]
    session.show(me, [me["username"]], lines)


def _read_token(server: str, from_stdin: bool) -> str:
    if from_stdin:
        token = sys.stdin.readline().strip()
    elif TOKEN_VARIABLE in os.environ:
        token = os.environ[TOKEN_VARIABLE].strip()
    elif sys.stdin.isatty():
        print(f"Make a token at {server}/settings/tokens and paste it here.", file=sys.stderr)
        token = typer.prompt("Token", hide_input=True, err=True).strip()
    else:
        raise Failure(USAGE, "There is no terminal to ask for a token. Use --token-stdin, or set TESSERA_TOKEN.")
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise Failure(USAGE, "This is no token. Copy the whole of it, beginning with tes_, without spaces.")
    return token
