"""`ssh-key`: manage SSH public keys."""

from datetime import datetime, time
from pathlib import Path
from typing import Annotated

import typer

from cli.failures import NOT_FOUND, USAGE, Failure
from cli.output.cells import format_expiry
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
keys = new_commands()
commands.add_typer(keys, name="ssh-key", help="SSH keys: add, ls, rm.")

USUAL = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub", "id_ed25519_sk.pub", "id_ecdsa_sk.pub")
LONGEST = 16_384
LAST_SECOND = time(23, 59, 59)


@keys.command("add", cls=Command)
def add(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Else the first of ~/.ssh/id_*.pub")] = None,
    name: Annotated[str, typer.Option("--name", help="Else the key's own comment.")] = "",
    until: Annotated[
        datetime | None,
        typer.Option("--until", metavar="DAY", formats=["%Y-%m-%d"], help="The last day on which it works: 2027-01-31"),
    ] = None,
) -> None:
    """Add a public key."""
    session: Session = ctx.obj
    file = file or _find_public_key()
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(USAGE, f"{file} cannot be read ({error}).") from None
    if "PRIVATE KEY" in text:
        raise Failure(USAGE, f"{file} is the private key, which never leaves this machine. Give {file}.pub")
    body = {"key": text.strip(), "name": name}
    if until:
        body["expires_at"] = datetime.combine(until, LAST_SECOND).astimezone().isoformat()
    row = session.client().post("/me/ssh-keys", body, repeat=False)
    session.show(row, [str(row["id"])], [f"The key {row['name']} opens your notebooks and jobs."])
    if row.get("made_by") and not until:
        session.print_note(
            f"It works as long as this token, until {format_expiry(row['expires_at'])}. Keys added in the portal stay."
        )


@keys.command("ls", cls=Command)
def list_keys(ctx: typer.Context) -> None:
    """List your keys."""
    session: Session = ctx.obj
    found = session.client().get("/me/ssh-keys")
    rows = [
        [
            str(key["id"]),
            key["name"],
            key["fingerprint"],
            (key["last_used_at"] or "never")[:10],
            format_expiry(key["expires_at"]),
        ]
        for key in found["results"]
    ]
    columns = [
        Column("ID"),
        Column("NAME", least=8),
        Column("FINGERPRINT", least=16),
        Column("LAST USED"),
        Column("UNTIL"),
    ]
    session.show_table(found, [row[0] for row in rows], columns, rows, "No keys yet. Add one: tessera ssh-key add")


@keys.command("rm", cls=Command)
def remove(ctx: typer.Context, key: Annotated[str, typer.Argument(metavar="ID|NAME|FINGERPRINT")]) -> None:
    """Remove a key."""
    session: Session = ctx.obj
    client = session.client()
    rows = client.get("/me/ssh-keys")["results"]
    found = [row for row in rows if key in {str(row["id"]), row["name"], row["fingerprint"]}]
    if len(found) != 1:
        many = "Several of your keys are" if found else "You have no key"
        raise Failure(NOT_FOUND, f"{many} called {key!r}. Look at them: tessera ssh-key ls")
    client.delete(f"/me/ssh-keys/{found[0]['id']}")
    session.print_note(f"The key {found[0]['name']} opens nothing any more.")


def _find_public_key() -> Path:
    for name in USUAL:
        if (Path.home() / ".ssh" / name).is_file():
            return Path.home() / ".ssh" / name
    raise Failure(USAGE, "You have no key in ~/.ssh yet. Make one: ssh-keygen -t ed25519")
