"""The gateway's own responses: redirects, self-contained error pages, problem+json for scripts."""

import asyncio
import json
import secrets
from dataclasses import dataclass, field

from django.conf import settings
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import translation

from portal.gateway.http.cross_origin import Headers, is_visit, value_of
from portal.gateway.http.scope import Send

SEALED = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
CLOSED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@dataclass
class Answer:
    status: int
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""


@dataclass(frozen=True)
class Words:
    """Content of an error page. `href` "" reloads the page, after `wait_s` seconds by itself."""

    code: str
    title: str
    cause: str
    action: str
    href: str = ""
    wait_s: int = 0


async def send_answer(answer: Answer, send: Send) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


async def deny(answer: Answer, send: Send) -> None:
    """Refuse a WebSocket upgrade with an HTTP response (ASGI extension)."""
    await send({"type": "websocket.http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})
    await asyncio.sleep(0)  # uvicorn logs a handshake without an end, unless its connection was closed by then


def redirect(to: str, *cookies: tuple[bytes, bytes]) -> Answer:
    return Answer(302, [(b"location", to.encode("ascii")), *cookies, *SEALED])


def build_error_answer(status: int, words: Words, method: str, headers: Headers) -> Answer:
    """Return an HTML page for a navigation, else problem+json (RFC 9457)."""
    if not is_visit(method, headers):
        about = {"type": f"urn:tessera:problem:{words.code}", "title": words.title, "status": status}
        detail = f"{words.cause} {words.href}" if words.href.startswith("http") else words.cause
        body = json.dumps({**about, "detail": detail, "code": words.code}).encode()
        return _build_answer(status, b"application/problem+json", body, CLOSED, words)
    nonce = secrets.token_urlsafe(16)
    page = render_to_string("apps/page.html", {"words": words, "nonce": nonce, "language": translation.get_language()})
    return _build_answer(
        status, b"text/html; charset=utf-8", page.encode(), f"{CLOSED}; style-src 'nonce-{nonce}'", words
    )


def language_of(headers: Headers, chosen: str = "") -> str:
    if chosen in dict(settings.LANGUAGES):
        return chosen
    asked = HttpRequest()
    asked.META["HTTP_ACCEPT_LANGUAGE"] = value_of(headers, b"accept-language")
    return translation.get_language_from_request(asked)


def _build_answer(status: int, kind: bytes, body: bytes, policy: str, words: Words) -> Answer:
    again = [(b"retry-after", str(words.wait_s).encode())] if words.wait_s else []
    length = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    return Answer(status, [*length, (b"content-security-policy", policy.encode()), *again, *SEALED], body)
