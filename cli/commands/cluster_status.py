"""`free`, `top`, `quota`, `queue` and `usage`."""

from typing import Annotated, Any

import typer

from cli.completing import complete_pools
from cli.failures import NOT_FOUND, Failure
from cli.following import WatchOption, show_repeatedly
from cli.http.transport import Client
from cli.output.cells import NONE, format_clock, format_gpus, format_wait_or_run, list_other_pools, now, parse_time
from cli.output.reports import Grouping, Report, show_day, show_report
from cli.output.safe_text import plain
from cli.output.table import Column
from cli.session import Command, Session, new_commands

commands = new_commands()
PoolOption = Annotated[str | None, typer.Option("--pool", help="Only this one.", autocompletion=complete_pools)]

FREE = (
    Column("POOL", least=6),
    Column("MODEL", least=8),
    Column("FREE", right=True),
    Column("SLICES(¼)", right=True),
    Column("LARGEST SLICE", right=True),
    Column("YOU MAY START", right=True),
    Column("WAITING", right=True),
)
TOP = (
    Column("GPU", least=6),
    Column("POOL", least=5),
    Column("MODEL", least=8),
    Column("BUSY", right=True),
    Column("MEMORY IN USE", right=True),
    Column("°C", right=True),
    Column("W", right=True),
    Column("HELD BY", least=12),
)
QUOTA = (
    Column("TEAM", least=5),
    Column("POOL", least=5),
    Column("GPUS USED", right=True),
    Column("GUARANTEED", right=True),
    Column("LIMIT", right=True),
    Column("HIGH PRIORITY", least=13),
)
MARKS = {"*": "simulated", "~": "estimated"}
UNKNOWN = "?"
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
    show_repeatedly(session, lambda: _show_free(session, client), watch)


@commands.command("top", cls=Command)
def top(
    ctx: typer.Context,
    pool: PoolOption = None,
    watch: WatchOption = False,
) -> None:
    """How busy each GPU is now, and whose work keeps it so.

    As means of the last ten seconds; `?` is what is not known. Your teams' slices say how much of each is used.
    """
    session: Session = ctx.obj
    client = session.client()
    show_repeatedly(session, lambda: _show_top(session, client, pool), watch)


@commands.command("quota", cls=Command)
def quota(ctx: typer.Context) -> None:
    """What your teams may hold, and what high priority costs them."""
    session: Session = ctx.obj
    answer = session.client().get("/quotas")
    found = answer["results"]
    names = [f"{one['team']}/{one['pool']}" for one in found]
    session.show_table(answer, names, QUOTA, [_quota_row(one) for one in found], "Your teams have no quota.")
    for one, name in zip(found, names, strict=True):
        if one.get("then"):
            session.print_note(f"{name}: {one['then']['text']}")
        if one["high_priority"]["price"] != "free":
            session.print_note(f"{name}: {one['high_priority']['text']}")


@commands.command("queue", cls=Command)
def queue(
    ctx: typer.Context,
    pool: PoolOption = None,
    watch: WatchOption = False,
) -> None:
    """Everybody's waiting and running jobs.

    In the order in which they would start. Of other teams' jobs you see whose, size, state and reason.
    """
    session: Session = ctx.obj
    client = session.client()
    show_repeatedly(session, lambda: _show_queue(session, client, pool), watch)


@commands.command("usage", cls=Command)
def usage(
    ctx: typer.Context,
    report: Annotated[Report, typer.Option("--report", help="What to tell.")] = Report.usage,
    by: Annotated[Grouping | None, typer.Option("--by", help="What to sum by, as the report can.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="2026-11-01 or a moment, in UTC; else 30 days ago.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="The end, not included; else now.")] = None,
) -> None:
    """Reports of your teams: GPU-hours, waits, idle cards, failures, energy or forecasts.

    `-o csv` for spreadsheets. What a task held before or after the period does not count.
    """
    session: Session = ctx.obj
    query = {"by": by.value if by else None, "from": since, "to": until}
    show_report(session, session.client(), report, query)


@commands.command("day", cls=Command)
def day(
    ctx: typer.Context,
    date: Annotated[str | None, typer.Argument(metavar="DAY", help="Such as 2026-11-01, in UTC; else today.")] = None,
    pool: PoolOption = None,
) -> None:
    """How many cards were held and active over a day.

    By half hours, in UTC; of one pool or of all.
    """
    session: Session = ctx.obj
    show_day(session, session.client(), {"day": date, "pool": pool})


def _show_free(session: Session, client: Client) -> None:
    answer = client.get("/capacity")
    found, cards = answer["results"], client.get("/gpus")["results"]
    rows = [_pool_row(pool, [card for card in cards if card["pool"] == pool["pool"]]) for pool in found]
    session.show_table(answer, [pool["pool"] for pool in found], FREE, rows, "There are no pools.")
    if any(pool["simulated"] for pool in found):
        session.print_note("* simulated cards")
    for line in dict.fromkeys(_maintenance_line(planned) for pool in found for planned in pool.get("maintenance", [])):
        session.print_note(line)


def _show_top(session: Session, client: Client, pool: str | None) -> None:
    answer = client.get("/gpus", pool=pool)
    cards = answer["results"]
    if pool and not cards:
        _check_pool(client, pool)
    session.show_table(answer, [card["uuid"] for card in cards], TOP, [_top_row(card) for card in cards], "No GPUs.")
    sources = {card["use"]["source"] for card in cards if card["use"]}
    for mark, source in MARKS.items():
        if source in sources:
            session.print_note(f"{mark} {source}")


def _show_queue(session: Session, client: Client, pool: str | None) -> None:
    answer = client.get("/queue", pool=pool)
    jobs = [*answer["waiting"], *answer["active"]]
    if pool and not jobs:
        _check_pool(client, pool)
    rows = [_queue_row(job) for job in jobs]
    names = [job["job"] for job in jobs if job["job"]]
    session.show_table(answer, names, QUEUE, rows, "Nothing waits and nothing runs.")


def _maintenance_line(planned: dict[str, Any]) -> str:
    begins, ends = (format_clock(parse_time(planned[name]), now()) for name in ("begins_at", "ends_at"))  # type: ignore[arg-type]
    return f"{', '.join(planned['nodes'])}: maintenance from {begins} until {ends}"


def _check_pool(client: Client, pool: str) -> None:
    names = [one["name"] for one in client.get("/pools")["results"]]
    if pool not in names:
        raise Failure(NOT_FOUND, f"There is no pool {plain(pool)}. There are: {plain(', '.join(names)) or 'none'}.")


def _pool_row(pool: dict, of_pool: list[dict]) -> list[str]:
    models = ",".join(pool["models"]) or NONE
    return [
        pool["pool"],
        f"{models}*" if pool["simulated"] else models,
        f"{pool['cards_free']}/{pool['cards_total']}",
        str(min(pool["free"]["value"] // 250, sum(map(count_quarters, of_pool)))) if pool["shared"] else NONE,
        pool["largest_slice"]["text"] if pool["shared"] and pool["largest_slice"]["value"] else NONE,
        format_cards(pool.get("starts", pool["free"])["value"]),
        str(pool["waiting"]),
    ]


def _quota_row(one: dict) -> list[str]:
    gpu, price = one["gpu"], one["high_priority"]
    left = price["budget"] and f"{price['budget']['left']:g} of {price['budget']['total']:g} GPU hours left"
    return [
        one["team"],
        one["pool"],
        gpu["used"]["text"],
        gpu["guarantee"]["text"],
        NONE if gpu["limit"]["value"] is None else gpu["limit"]["text"],
        left or ("free" if price["price"] == "free" else "with consent"),
    ]


def _top_row(card: dict[str, Any]) -> list[str]:
    use = card["use"] or {}
    used = use["used"]["text"] if use and use["used"]["value"] is not None else UNKNOWN
    mark = next((mark for mark, source in MARKS.items() if source == use.get("source")), "")
    busy = _show_known(use.get("busy_percent"), " %")
    return [
        f"{card['node']}:{card['place']}",
        card["pool"],
        card["model"],
        f"{busy}{mark if busy != UNKNOWN else ''}",
        f"{used} of {card['memory']['text']}",
        _show_known(use.get("temperature_c")),
        _show_known(use.get("power_w")),
        ", ".join(_describe_slice(part) for part in card["slices"]) or NONE,
    ]


def _describe_slice(part: dict[str, Any]) -> str:
    whose = " ".join(filter(None, (part["owner"], part["job"]))) or part["team"] or "another team"
    used = f" {_show_known(part['activity'], ' %')}" if part["job"] and part["state"] == "running" else ""
    return f"{part['gpu']['text']} {whose}{used}"


def _show_known(value: float | None, unit: str = "") -> str:
    return UNKNOWN if value is None else f"{value:.0f}{unit}"


def count_quarters(card: dict) -> int:
    """Count the quarter slices that a shared card still takes."""
    if not card["healthy"] or not card["shared"] or not card["sellable"]["value"]:
        return 0
    by_memory = 4 * card["free"]["value"] // card["sellable"]["value"]
    return max(min(by_memory, card["free_percent"] // 25, card["max_slices"] - len(card["slices"])), 0)


def format_cards(milli: int) -> str:
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def _queue_row(job: dict) -> list[str]:
    at = now()
    end = parse_time(job["expected_end_at"])
    last = job["reason_text"] if job["state"] == "queued" else f"ends by {format_clock(end, at)}" if end else NONE
    return [
        ",".join([job["pool"], *list_other_pools(job)]),
        str(job["position"] or NONE),
        job["job"] or NONE,
        job["name"] or NONE,
        job["team"] or "another",
        job["state"],
        format_gpus(job),
        format_wait_or_run({**job, "ended_at": None}, at),
        last,
    ]
