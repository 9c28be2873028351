"""Server-sent events of the platform, resumed after a break."""

import json
import time
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cli.failures import Refused, Unreachable
from cli.following import LIVED_S, Retries
from cli.http.transport import Client
from cli.session import Session

TOO_MANY = 429
"""May end in a moment: the platform still counts the broken stream."""


@dataclass(frozen=True)
class Message:
    """name: "ready", "reset", or an event's type; "" for a heartbeat."""

    id: int | None
    name: str
    data: Any


def listen(
    session: Session, client: Client, *, since: int | None, topics: str | None, follow: bool
) -> Iterator[Message]:
    """Yield events and resets, with `follow` without end. Raises Unreachable."""
    position, begun, retries = since, False, Retries(session)
    while True:
        opened = time.monotonic()
        try:
            known = {"Last-Event-ID": str(position)} if position is not None else {}
            asked = {"topics": topics, "follow": str(follow).lower(), "words": "true"}
            with client.stream("/events", {"Accept": "text/event-stream", **known}, **asked) as (_, pieces):
                for message in read_messages(pieces):
                    position, begun = position if message.id is None else message.id, True
                    if message.name not in {"ready", "reset"}:
                        retries.reset()
                    if message.name not in {"ready", ""}:
                        yield message
            if not follow:
                return
            gone = Unreachable("The stream of events broke off.")
        except Unreachable as error:
            gone = error
        except Refused as refused:
            if not begun or refused.status != TOO_MANY:
                raise
            gone = Unreachable(*refused.lines)
        if not begun:
            raise gone
        if time.monotonic() - opened >= LIVED_S:
            retries.reset()
        retries.wait(gone)


def read_messages(pieces: Iterable[bytes]) -> Iterator[Message]:
    """Parse the part of server-sent events that the platform uses; a message cut at the end is dropped.

    https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    fields: dict[str, str] = {}
    for line in _lines(pieces):
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        number = fields.get("id", "")
        data = json.loads(fields["data"]) if "data" in fields else None
        yield Message(int(number) if number.isdecimal() else None, fields.get("event", ""), data)
        fields = {}


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    decoder, rest = getincrementaldecoder("utf-8")("replace"), ""
    for piece in pieces:
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        yield from whole
