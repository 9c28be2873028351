"""API of the event stream, as server-sent events or JSON lines.

Ids only grow, so a client can resume. portal.api.events.hub polls for all streams.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.db.models import Min
from django.http import StreamingHttpResponse
from django.utils import translation
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from accounts.models import ApiToken
from common.errors import NotPermitted, TooManyRequests
from events.models import Event
from jobs.reason_messages import describe_end
from portal.access.event_visibility import EventVisibility, load_event_visibility
from portal.api.events.hub import BATCH, Encoded, Stream, admit, encode, list_events, the_hub
from portal.api.view import MAX_ID, ApiView, read_query
from portal.wording.events import describe_event

HEARTBEAT_S = 15
RECHECK_S = 20
MOST_BACKLOG = 10_000
"""Most ids between a broken stream and now; beyond, the stream starts over after a reset."""
RETRY_MS = 2000
TRY_AGAIN_S = 5


class EventStream(BaseRenderer):
    """For content negotiation; the view streams."""

    media_type = "text/event-stream"
    format = "events"

    def render(self, data: object, *_: object) -> bytes:
        return str(data).encode()


class JsonLines(EventStream):
    media_type = "application/x-ndjson"
    format = "lines"


class EventsQuery(serializers.Serializer):
    """topics: kinds or types, with commas. since: last known event, as Last-Event-ID. words: add sentences in the
    request's language.
    """

    topics = serializers.CharField(max_length=500, required=False)
    words = serializers.BooleanField(default=False)
    since = serializers.IntegerField(min_value=0, max_value=MAX_ID, required=False)
    follow = serializers.BooleanField(default=True)


@dataclass(frozen=True)
class Listener:
    """The caller, whose right is checked again while streaming."""

    user_id: int
    token_id: int | None

    def sight(self) -> EventVisibility | None:
        """Return event permissions; None if user or token ended."""
        try:
            if self.token_id is not None and not ApiToken.objects.live().filter(pk=self.token_id).exists():
                return None
            return load_event_visibility(self.user_id)
        finally:
            connection.close()


class Events(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "stream_events"}
    renderer_classes = [EventStream, JsonLines]

    @extend_schema(
        parameters=[
            EventsQuery,
            OpenApiParameter("Last-Event-ID", str, OpenApiParameter.HEADER, description="As `since`, which wins."),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse({"type": "string"}, "One event after the other."),
            (200, "application/x-ndjson"): OpenApiResponse({"type": "string"}, "One JSON object in each line."),
        },
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Stream events of one's teams' jobs and of one's own. First comes `ready` with the id to go on from, or
        `reset` if the given id is too old or unknown: then load everything again. A comment (in NDJSON an empty line)
        comes when nothing happens. Each event: id, at, type, kind, object, verb, from_state, to_state, reason, actor,
        params.
        """
        query = read_query(request, EventsQuery)
        listener = Listener(request.user.pk, request.auth.pk if request.auth else None)
        sight = load_event_visibility(request.user.pk)
        if sight is None:
            raise NotPermitted()
        topics = frozenset(word.strip() for word in query.get("topics", "").split(",") if word.strip())
        stream, form = Stream(request.user.pk, sight, topics), _form_of(request)
        language = (translation.get_language() or settings.LANGUAGE_CODE) if query["words"] else ""
        if not admit(stream, settings.TESSERA_STREAMS):
            raise TooManyRequests("too_many_streams", limit=settings.TESSERA_STREAMS, retry_after_s=TRY_AGAIN_S)
        since = query["since"] if "since" in query else _last_event_id(request)
        pieces = stream_events(stream, listener, EventFormatter(form, language), since, follow=query["follow"])
        response = StreamingHttpResponse(pieces, content_type=f"{form.media_type}; charset=utf-8")
        response["X-Accel-Buffering"], response["Cache-Control"] = "no", "no-store"
        return response


class ServerSent:
    """https://html.spec.whatwg.org/multipage/server-sent-events.html"""

    media_type = EventStream.media_type

    @staticmethod
    def event(event: Encoded) -> bytes:
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.id, event.event.type.encode(), event.json)

    @staticmethod
    def notice(name: str, position: int, **data: str) -> bytes:
        """ "ready" or "reset", with the id to go on from."""
        text = json.dumps({"id": position, **data}, separators=(",", ":")).encode()
        return b"id: %d\nevent: %s\nretry: %d\ndata: %s\n\n" % (position, name.encode(), RETRY_MS, text)

    @staticmethod
    def heartbeat(position: int) -> bytes:
        """A comment; its id keeps a quiet stream from becoming too old."""
        return b": heartbeat\nid: %d\n\n" % position


class Lines:
    media_type = JsonLines.media_type

    @staticmethod
    def event(event: Encoded) -> bytes:
        return event.json + b"\n"

    @staticmethod
    def notice(name: str, position: int, **data: str) -> bytes:
        return json.dumps({"id": position, "type": name, **data}, separators=(",", ":")).encode() + b"\n"

    @staticmethod
    def heartbeat(position: int) -> bytes:
        return b"\n"


Form = type[ServerSent] | type[Lines]


@dataclass(frozen=True)
class EventFormatter:
    """Formats events for a client. language: of added sentences, or ""."""

    form: Form
    language: str

    def event(self, event: Encoded) -> bytes:
        if self.language:
            with translation.override(self.language):
                event = encode(
                    event.event, text=describe_event(event.event), reason_text=describe_end(event.event.reason)
                )
        return self.form.event(event)


async def stream_events(
    stream: Stream, listener: Listener, formatter: EventFormatter, since: int | None, *, follow: bool
) -> AsyncIterator[bytes]:
    """Yield ready or reset, missed events, then new ones until right or connection ends."""
    hub = the_hub()
    try:
        await hub.join(stream)
        why = await sync_to_async(why_reset)(since, stream.begins_after)
        if why:
            yield formatter.form.notice("reset", stream.begins_after, reason=why)
        else:
            after = stream.begins_after if since is None else since
            yield formatter.form.notice("ready", after)
            async for piece in _missed(stream, formatter, after):
                yield piece
        if follow:
            async for piece in _follow(stream, listener, formatter):
                yield piece
    finally:
        hub.leave(stream)


def why_reset(since: int | None, settled: int) -> str:
    """Return why a stream cannot resume: "unknown", "too_old" or ""."""
    if since is None:
        return ""
    if since > settled:
        return "unknown"
    try:
        oldest = Event.objects.aggregate(oldest=Min("pk"))["oldest"] or 0
    finally:
        connection.close()
    return "too_old" if settled - since > MOST_BACKLOG or 0 < since < oldest - 1 else ""


async def _missed(stream: Stream, formatter: EventFormatter, after: int) -> AsyncIterator[bytes]:
    """Yield what settled before joining; newer events wait in the queue."""
    while after < stream.begins_after:
        found = await sync_to_async(list_events)(after, stream.begins_after, BATCH)
        wanted = [formatter.event(encode(event)) for event in found if stream.wants(event)]
        if wanted:
            yield b"".join(wanted)
        after = found[-1].pk if len(found) == BATCH else stream.begins_after


async def _follow(stream: Stream, listener: Listener, formatter: EventFormatter) -> AsyncIterator[bytes]:
    clock = asyncio.get_running_loop().time
    checked = clock()
    while not (stream.cut and stream.queue.empty()):
        position = the_hub().position
        try:
            event = await asyncio.wait_for(stream.queue.get(), min(HEARTBEAT_S, RECHECK_S))
        except TimeoutError:
            event = None
        if clock() - checked >= RECHECK_S or event is None:
            sight, checked = await sync_to_async(listener.sight)(), clock()
            if sight is None:
                return
            stream.sight = sight
        if event is None:
            yield formatter.form.heartbeat(max(position, stream.begins_after))
        elif stream.wants(event.event):  # the right may have ended while it waited
            yield formatter.event(event)


def _form_of(request: Request) -> Form:
    return Lines if request.accepted_renderer.media_type == Lines.media_type else ServerSent


def _last_event_id(request: Request) -> int | None:
    """Read the header; an invalid one counts as unknown, since a browser's user cannot fix it."""
    text = request.headers.get("Last-Event-ID", "")
    if not text:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else MAX_ID
