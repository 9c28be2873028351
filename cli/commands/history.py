"""For admins: `history`, what happened as one file, which `manage.py tessera_sim --history` plays again."""

from pathlib import Path
from typing import Annotated

import typer

from cli.failures import USAGE, Failure
from cli.output.safe_text import plain
from cli.session import Command, Session, new_commands

commands = new_commands()
history = new_commands()
commands.add_typer(history, name="history", help="What happened on the platform, as one file for simulations: export.")

USUAL = Path("tessera-history.jsonl.gz")
MOST_DAYS = 365


@history.command("export", cls=Command)
def export(
    ctx: typer.Context,
    days: Annotated[int, typer.Option("--days", metavar="N", help="So many days until now, 365 at most.")] = 30,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Numbers instead of names of people, teams, machines, jobs and images.")
    ] = False,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Where it is written.")] = USUAL,
) -> None:
    """Write jobs, machines, quotas and their changes to a file. Commands, environment and secrets are not in it."""
    session: Session = ctx.obj
    if not 1 <= days <= MOST_DAYS:
        raise Failure(USAGE, f"--days is 1 to {MOST_DAYS}.")
    part = to.with_name(to.name + ".part")
    try:
        with (
            session.client().stream("/cluster/history", days=days, anonymous=anonymous) as (_, pieces),
            part.open("wb") as file,
        ):
            count = sum(file.write(piece) for piece in pieces)
        part.replace(to)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise Failure(USAGE, f"{plain(str(to))} cannot be written ({error.strerror}).") from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    written = {"file": str(to), "bytes": count, "days": days, "anonymous": anonymous}
    next_step = f"Play it again: manage.py tessera_sim --history {plain(str(to))} --what nodes+4"
    session.show(written, [str(to)], [f"{plain(str(to))} has {days} days, {count:,} bytes. {next_step}"])
