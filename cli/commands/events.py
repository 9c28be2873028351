"""`events`: one's events as they happen."""

from datetime import datetime
from typing import Annotated

import typer

from cli.failures import INTERRUPTED, NOT_FOUND, USAGE, Failure
from cli.http.event_stream import Message, listen
from cli.session import Command, Session, new_commands

commands = new_commands()

WHY = {"too_old": "they are too many or too old", "unknown": "there is no such event"}


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
