"""`secrets`: tokens and keys for jobs, which nobody reads again."""

import sys
from typing import Annotated

import typer

from cli.failures import NOT_FOUND, USAGE, Failure
from cli.output.cells import NONE
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
secrets = new_commands()
commands.add_typer(secrets, name="secrets", help="Secrets for jobs: ls, set, rm.")

TEAM = typer.Option("--team", help="A team's; else your own.")


@secrets.command("ls", cls=Command)
def list_secrets(ctx: typer.Context) -> None:
    """List your secrets and those of your teams. Their values are never shown."""
    session: Session = ctx.obj
    found = session.client().get_all("/secrets")
    rows = [
        [
            secret["name"],
            secret["team"] or "mine",
            str(secret["version"]),
            f"{secret['changed_at'][:10]} by {secret['changed_by']}",
            f"{secret['used_at'][:10]} by {secret['used_by']}" if secret["used_at"] else NONE,
        ]
        for secret in sorted(found["results"], key=lambda secret: (secret["name"], secret["team"] or ""))
    ]
    columns = [Column("NAME", least=8), Column("OF"), Column("VERSION"), Column("SET"), Column("LAST USED")]
    session.show_table(
        found, [row[0] for row in rows], columns, rows, "No secrets yet. Make one: tessera secrets set HF_TOKEN"
    )


@secrets.command("set", cls=Command)
def set_secret(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As of an environment variable: HF_TOKEN")],
    team: Annotated[str | None, TEAM] = None,
) -> None:
    """Set a secret, or give it a new value.

    The value is asked for without showing it, or read from standard input, where it may have several lines: tessera
    secrets set DEPLOY_KEY < key. The line's end of a value of one line is left out. Name it in a job file: secrets:
    [HF_TOKEN]. Tasks that start from now on get it as $HF_TOKEN and in the file $TESSERA_SECRETS/HF_TOKEN.
    """
    session: Session = ctx.obj
    value = _read_value(name)
    row = session.client().post("/secrets", {"name": name, "value": value} | ({"team": team} if team else {}))
    session.show(row, [row["name"]], [f"The secret {row['name']} is set, version {row['version']}."])


@secrets.command("rm", cls=Command)
def remove(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    team: Annotated[str | None, TEAM] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Though jobs name it that have yet to start: they will fail.")
    ] = False,
) -> None:
    """Delete a secret."""
    session: Session = ctx.obj
    client = session.client()
    rows = client.get_all("/secrets")["results"]
    found = [row for row in rows if row["name"] == name and (row["team"] or "") == (team or "").lower()]
    if not found:
        whose = f"The team {team} has" if team else "You have"
        raise Failure(NOT_FOUND, f"{whose} no secret {name!r}. Look at them: tessera secrets ls")
    client.delete(f"/secrets/{found[0]['id']}", **({"force": "true"} if force else {}))
    session.print_note(f"The secret {name} is deleted.")


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        return typer.prompt(f"Value of {name}", hide_input=True, err=True)
    try:
        value = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise Failure(USAGE, "The value is not text. Encode it in base64, and decode it in the job.") from None
    line = value.removesuffix("\n").removesuffix("\r")
    return value if "\n" in line else line
