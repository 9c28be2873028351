"""`events`: one's events as they happen; `alerts`: what needs somebody's look now."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from cli.completing import complete_alerts
from cli.failures import INTERRUPTED, NOT_FOUND, USAGE, Failure
from cli.http.event_stream import Message, listen
from cli.http.transport import Client
from cli.naming import describe_ambiguous, suggest
from cli.output.cells import NONE, format_clock, now, parse_time
from cli.output.safe_text import plain
from cli.output.table import Column
from cli.parse_duration import read_duration
from cli.session import Command, Session, new_commands

commands = new_commands()
alerts = new_commands()
commands.add_typer(alerts, name="alerts", help="Alerts: ls, ack, silence.")

WHY = {"too_old": "they are too many or too old", "unknown": "there is no such event"}


ALERT_COLUMNS = (
    Column("ID"),
    Column("SEVERITY"),
    Column("STATE"),
    Column("ALERT", least=10),
    Column("ABOUT", least=6),
    Column("VALUE", right=True),
    Column("SINCE"),
    Column("ACKNOWLEDGED BY", least=5),
)
UNKNOWN = "?"
AlertName = Annotated[
    str,
    typer.Argument(
        metavar="ALERT",
        help="alert-7, or its name or what it is about, where no other fires of it.",
        autocompletion=complete_alerts,
    ),
]


@commands.command("events", cls=Command)
def events(
    ctx: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they happen, until Ctrl-C.")] = False,
    since: Annotated[
        int | None, typer.Option("--since", min=0, metavar="ID", help="Those after this one; 0 is the beginning.")
    ] = None,
    topics: Annotated[
        str | None, typer.Option("--topics", metavar="TOPICS", help="Only these, with commas: job, job.failed, ...")
    ] = None,
) -> None:
    """What happens to jobs and notebooks.

    After a break it goes on where it stopped. With -o json each event is a line by itself.
    """
    session: Session = ctx.obj
    if since is None and not follow:
        raise Failure(USAGE, "Say since which event (--since 412, --since 0), or follow what comes (-f).")
    try:
        for message in listen(session, session.client(), since=since, topics=topics, follow=follow):
            if message.name != "reset":
                event = message.data
                session.show_next(event, event["object"], _line(event))
            elif follow:
                _print_reset(session, message)
            else:
                raise Failure(NOT_FOUND, _describe_reset(message))
    except KeyboardInterrupt:
        raise Failure(INTERRUPTED) from None


@alerts.command("ls", cls=Command)
def list_alerts(
    ctx: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also those that ended, as far as they are kept.")] = False,
) -> None:
    """What fires now, or may soon, and concerns you."""
    session: Session = ctx.obj
    query = {"state": "pending,firing,no_data,resolved"} if every else {}
    found = session.client().get("/alerts", limit=500, **query)
    rows = [_alert_row(alert) for alert in found["results"]]
    names = [f"alert-{alert['id']}" for alert in found["results"]]
    session.show_table(found, names, ALERT_COLUMNS, rows, "Nothing fires.")


@alerts.command("ack", cls=Command)
def acknowledge(ctx: typer.Context, alert: AlertName) -> None:
    """Say that you are at it: nobody is told of it again."""
    session: Session = ctx.obj
    client = session.client()
    found = client.post(f"/alerts/{_find_alert(client, alert)}:acknowledge", {})
    words = f"{found['name']}, {found['label'] or 'the platform'}: acknowledged by {found['acknowledged_by']}."
    session.show(found, [f"alert-{found['id']}"], [words])


@alerts.command("silence", cls=Command)
def silence(
    ctx: typer.Context,
    alert: AlertName,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for others to read.")],
    length: Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 90m, 4h, 7d.")] = "1h",
) -> None:
    """Tell nothing of an alert for a while: an administrator for everybody, others for themselves."""
    session: Session = ctx.obj
    client = session.client()
    found = client.get(f"/alerts/{_find_alert(client, alert)}")
    until = datetime.now(UTC) + timedelta(seconds=read_duration(length) or 0)
    asked = {"rule": found["rule"], "label": found["label"], "until": until.isoformat(), "reason": why}
    made = client.post("/silences", asked)
    whose = "for everybody" if made["for_all"] else "for you"
    session.show(made, [f"silence-{made['id']}"], [f"{found['name']}, {found['label']}: silent {whose} for {length}."])


def _find_alert(client: Client, text: str) -> int:
    """Return the id of the alert that is meant, by its id or by words that only one that fires has. Raises Failure."""
    number = text.removeprefix("alert-")
    if number.isascii() and number.isdecimal() and 0 < len(number) < 19:
        return int(number)
    alerts = client.get("/alerts", limit=500)["results"]
    meant = [one for one in alerts if text.lower() in (one["name"].lower(), one["code"], one["label"].lower())]
    if len(meant) > 1:
        which = (f"alert-{one['id']}, {one['name']}, {one['label'] or 'platform'}" for one in meant)
        raise Failure(USAGE, *describe_ambiguous(text, which))
    if not meant:
        near = suggest(text, (word for one in alerts for word in (one["name"], one["label"]) if word))
        raise Failure(NOT_FOUND, f"No alert {plain(text)} fires.{near or ' Look at them: tessera alerts ls'}")
    return meant[0]["id"]


def _alert_row(alert: dict[str, Any]) -> list[str]:
    value = UNKNOWN if alert["value"] is None else f"{alert['value']:g} {alert['unit']}".strip()
    since = format_clock(parse_time(alert["since"]) or now(), now())
    state = alert["state"].replace("_", " ")
    label = alert["label"] or "platform"
    who = alert["acknowledged_by"] or NONE
    return [f"alert-{alert['id']}", alert["severity"], state, alert["name"], label, value, since, who]


def _line(event: dict) -> str:
    at = datetime.fromisoformat(event["at"]).astimezone()
    why = f": {event['reason_text']}" if event["reason_text"] else ""
    return f"{at:%b %d %H:%M:%S}  {event['object']:<9}  {event['text']}{why}  ({event['actor']})"


def _print_reset(session: Session, message: Message) -> None:
    if session.wants_data:
        session.show_next({"type": "reset", **message.data}, "", "")
    else:
        session.print_note(f"{_describe_reset(message)} It goes on from now.")


def _describe_reset(message: Message) -> str:
    why = WHY.get(message.data["reason"], message.data["reason"])
    return f"What came before event {message.data['id']} cannot be told any more ({why}): look at everything again."
