"""`free` and `queue`."""

from typing import Annotated, Any

import typer

from cli.completing import pools
from cli.failures import NOT_FOUND, Failure
from cli.http.transport import Client
from cli.output.cells import NONE, clock, gpus, moment, now, waited_or_ran
from cli.output.table import Column
from cli.output.text import plain
from cli.session import Command, Session, new_commands
from cli.watching import WatchOption, look_on

commands = new_commands()

FREE = (
    Column("POOL", least=6),
    Column("MODEL", least=8),
    Column("FREE", right=True),
    Column("SLICES(¼)", right=True),
    Column("LARGEST SLICE", right=True),
    Column("YOU MAY START", right=True),
    Column("WAITING", right=True),
)
QUEUE = (
    Column("POOL", least=5),
    Column("#", right=True),
    Column("ID"),
    Column("NAME", least=6),
    Column("TEAM", least=5),
    Column("STATE"),
    Column("GPUS", least=5),
    Column("TIME", right=True),
    Column("WHY/END", least=12),
)


@commands.command("free", cls=Command)
def free(ctx: typer.Context, watch: WatchOption = False) -> None:
    """What is free for you now."""
    session: Session = ctx.obj
    client = session.client()
    look_on(session, lambda: _show_free(session, client), watch)


@commands.command("queue", cls=Command)
def queue(
    ctx: typer.Context,
    pool: Annotated[str | None, typer.Option("--pool", help="Only this one.", autocompletion=pools)] = None,
    watch: WatchOption = False,
) -> None:
    """Everybody's waiting and running jobs.

    In the order in which they would start. Of other teams' jobs you see size, state and reason.
    """
    session: Session = ctx.obj
    client = session.client()
    look_on(session, lambda: _show_queue(session, client, pool), watch)


def _show_free(session: Session, client: Client) -> None:
    answer = client.get("/capacity")
    rooms, gpus_there = answer["results"], client.get("/gpus")["results"]
    rows = [_room(room, [card for card in gpus_there if card["pool"] == room["pool"]]) for room in rooms]
    session.show_table(answer, [room["pool"] for room in rooms], FREE, rows, "There are no pools.")
    if any(room["simulated"] for room in rooms):
        session.note("* simulated cards")
    for line in dict.fromkeys(_maintenance(planned) for room in rooms for planned in room.get("maintenance", [])):
        session.note(line)


def _show_queue(session: Session, client: Client, pool: str | None) -> None:
    answer = client.get("/queue", pool=pool)
    jobs = [*answer["waiting"], *answer["active"]]
    if pool and not jobs:
        _must_exist(client, pool)
    rows = [_place(job) for job in jobs]
    names = [job["job"] for job in jobs if job["job"]]
    session.show_table(answer, names, QUEUE, rows, "Nothing waits and nothing runs.")


def _maintenance(planned: dict[str, Any]) -> str:
    begins, ends = (clock(moment(planned[name]), now()) for name in ("begins_at", "ends_at"))  # type: ignore[arg-type]
    return f"{', '.join(planned['nodes'])}: maintenance from {begins} until {ends}"


def _must_exist(client: Client, pool: str) -> None:
    names = [one["name"] for one in client.get("/pools")["results"]]
    if pool not in names:
        raise Failure(NOT_FOUND, f"There is no pool {plain(pool)}. There are: {plain(', '.join(names)) or 'none'}.")


def _room(room: dict, of_pool: list[dict]) -> list[str]:
    may = room["may"]["value"]
    startable = room["free"]["value"] if may is None else min(may, room["free"]["value"])
    startable -= 0 if room["shared"] else startable % 1000
    models = ",".join(room["models"]) or NONE
    return [
        room["pool"],
        f"{models}*" if room["simulated"] else models,
        f"{room['cards_free']}/{room['cards_total']}",
        str(min(room["free"]["value"] // 250, sum(map(quarters, of_pool)))) if room["shared"] else NONE,
        room["largest_slice"]["text"] if room["shared"] and room["largest_slice"]["value"] else NONE,
        cards(startable),
        str(room["waiting"]),
    ]


def quarters(card: dict) -> int:
    """Count the quarter slices that a shared card still takes."""
    if not card["healthy"] or not card["shared"] or not card["sellable"]["value"]:
        return 0
    by_memory = 4 * card["free"]["value"] // card["sellable"]["value"]
    return max(min(by_memory, card["free_percent"] // 25, card["max_slices"] - len(card["slices"])), 0)


def cards(milli: int) -> str:
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def _place(job: dict) -> list[str]:
    at = now()
    end = moment(job["expected_end_at"])
    last = job["reason_text"] if job["state"] == "queued" else f"ends by {clock(end, at)}" if end else NONE
    return [
        job["pool"],
        str(job["position"] or NONE),
        job["job"] or NONE,
        job["name"] or NONE,
        job["team"] or "another",
        job["state"],
        gpus(job),
        waited_or_ran({**job, "ended_at": None}, at),
        last,
    ]
