"""`arrays`: which arrays of jobs there are."""

from typing import Annotated, Any

import typer

from cli.following import WatchOption, show_repeatedly
from cli.output.cells import ENDED, NONE, OPEN, count_ended, format_clock, format_elements, now, parse_time
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()

COLUMNS = (
    Column("ID"),
    Column("NAME", least=8),
    Column("STATE"),
    Column("ENDED", right=True),
    Column("ELEMENTS", least=14),
    Column("SUBMITTED"),
)
OWNER = Column("OWNER", least=6)


@commands.command("arrays", cls=Command)
def arrays(
    ctx: typer.Context,
    everybody: Annotated[bool, typer.Option("--all", "-a", help="Of everybody in your teams, not only yours.")] = False,
    last: Annotated[int, typer.Option("--last", min=0, max=500, help="How many of those that ended.")] = 5,
    watch: WatchOption = False,
) -> None:
    """List arrays of jobs.

    Your open arrays and the last that ended, the newest first. For the elements of one: tessera show arr-9.17
    """
    session: Session = ctx.obj
    client = session.client()
    owner = None if everybody else "me"

    def look() -> None:
        answer = client.get_all("/arrays", owner=owner, state=",".join(OPEN))
        if last:
            ended = client.get_all("/arrays", most=last, owner=owner, state=",".join(ENDED))
            known = {array["id"] for array in answer["results"]}  # one may end between the requests
            answer["results"] += [array for array in ended["results"] if array["id"] not in known]
        rows = [_row(array, everybody) for array in answer["results"]]
        columns = (*COLUMNS[:2], OWNER, *COLUMNS[2:]) if everybody else COLUMNS
        session.show_table(answer, [array["id"] for array in answer["results"]], columns, rows, "There are no arrays.")

    show_repeatedly(session, look, watch)


def _row(array: dict[str, Any], with_owner: bool) -> list[str]:
    submitted = parse_time(array["submitted_at"])
    row = [
        array["id"], array["name"], array["state"], f"{count_ended(array)}/{array['total']}",
        format_elements(array) or NONE, format_clock(submitted, now()) if submitted else NONE,
    ]  # fmt: skip
    return [*row[:2], array["owner"], *row[2:]] if with_owner else row
