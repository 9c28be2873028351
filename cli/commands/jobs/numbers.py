"""`numbers`: what jobs report of themselves, such as their loss."""

from typing import Annotated, Any

import typer

from cli.completing import complete_job_ids
from cli.http.transport import job_path
from cli.naming import find_job_id
from cli.output.table import Column, write_csv
from cli.session import Command, Session, new_commands

commands = new_commands()

COLUMNS = (
    *(Column("NAME", least=8), Column("JOB"), Column("TASK")),
    *(Column(title, right=True) for title in ("LAST", "STEP", "MIN", "AT STEP", "MAX", "AT STEP", "COUNT")),
)
POINTS = ("job", "task", "name", "step", "value", "at")


@commands.command("numbers", cls=Command)
def numbers(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job_ids)],
    name: Annotated[list[str] | None, typer.Option("--name", help="Only these; may be repeated.")] = None,
    beside: Annotated[
        list[str] | None, typer.Option("--compare", metavar="JOB", help="Another job beside it; may be repeated.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="The curves' points, a line for each.")] = False,
) -> None:
    """The numbers that a job reports, such as its loss.

    The last, the smallest and the largest of each name. Tasks report them by `tessera-report loss=0.31 step=100`.
    """
    session: Session = ctx.obj
    client = session.client()
    path = job_path(find_job_id(client, job_id), "/numbers")
    others = ",".join(find_job_id(client, other) for other in beside or ()) or None
    found = client.get(path, jobs=others)
    names = name or sorted({curve["name"] for curve in found["numbers"]})
    curves = [curve for curve in found["numbers"] if curve["name"] in names]
    if csv:  # a name at a time: there may be many
        answers = [client.get(path, jobs=others, name=one)["numbers"] for one in names]
        curves = [curve for answer in answers for curve in answer if curve["points"] is not None]
        lines = write_csv([POINTS, *(row for curve in curves for row in _list_points(curve))])
        session.show(found, names, lines)
    else:
        empty = "This job has reported no numbers. Let it call: tessera-report loss=0.31 step=100"
        session.show_table(found, names, COLUMNS, [_build_row(curve) for curve in curves], empty)
    for one in found["untaken"]:
        session.print_note(one["text"])


def _build_row(curve: dict[str, Any]) -> list[str]:
    values = [_show(curve[side][key]) for side in ("last", "min", "max") for key in ("value", "step")]
    return [curve["name"], curve["job"], curve["task"], *values, str(curve["count"])]


def _list_points(curve: dict[str, Any]) -> list[list[str]]:
    own = [curve["job"], curve["task"], curve["name"]]
    return [[*own, f"{point['step']:.17g}", repr(point["value"]), point["at"]] for point in curve["points"] or ()]


def _show(number: float) -> str:
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else f"{number:.6g}"
