"""What is too large is cut off while it arrives, before Django has it on disk."""

import asyncio
import json

import pytest
from django.core.asgi import get_asgi_application

from portal.api.http import body_limit
from portal.api.http.body_limit import BodyLimit

pytestmark = pytest.mark.django_db(transaction=True)
LIMIT = 1000


async def send_pieces(pieces, said=None, more=False, pause_s=0.0):
    """(status, body, how many pieces were asked for) of a POST to an address that is open to all.

    more: the body does not end with the last piece.
    """
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += [(b"content-length", said)] if said is not None else []
    scope = {"type": "http", "method": "POST", "path": "/api/v1/nothing", "headers": headers, "query_string": b""}
    waiting, asked, answer = list(pieces), [], []

    async def receive():
        if not waiting:
            await asyncio.Event().wait()  # the visitor stays and listens
        asked.append(waiting[0])
        await asyncio.sleep(pause_s)
        return {"type": "http.request", "body": waiting.pop(0), "more_body": more or bool(waiting)}

    async def send(message):
        answer.append(message)

    await BodyLimit(get_asgi_application(), LIMIT)(scope, receive, send)
    return answer[0]["status"], b"".join(part.get("body", b"") for part in answer), len(asked)


async def test_an_endless_body_is_cut_off_at_the_limit():
    status, body, asked = await send_pieces([b"x" * 400] * 1000)
    assert (status, asked) == (413, 3) and json.loads(body)["code"] == "too_large"


async def test_a_body_that_says_it_is_too_large_is_not_even_read():
    status, _, asked = await send_pieces([b"x"], said=b"1001")
    assert (status, asked) == (413, 0)


@pytest.mark.parametrize("said", [None, b"10", b"-5", b"9" * 40, b"x"])
async def test_a_length_that_lies_does_not_help(said):
    status, _, _ = await send_pieces([b"x" * 600] * 2, said=said)
    assert status == 413


async def test_what_fits_goes_through():
    status, body, _ = await send_pieces([b"x" * 500] * 2, said=b"1000")
    assert (status, json.loads(body)["code"]) == (404, "not_found")


@pytest.mark.parametrize("pieces", [[], [b"x" * 10], [b"x" * 500]])
async def test_a_body_that_stops_is_cut_off(pieces, monkeypatch):
    monkeypatch.setattr(body_limit, "STALLS_AFTER_S", 0.05)
    status, body, asked = await send_pieces(pieces, more=True)
    told = json.loads(body)
    assert (status, told["code"], asked) == (408, "too_slow", len(pieces)) and "without a pause" in told["detail"]


async def test_a_body_that_trickles_is_cut_off(monkeypatch):
    monkeypatch.setattr(body_limit, "STALLS_AFTER_S", 0.1)
    status, _, asked = await send_pieces([b"x"] * 500, pause_s=0.01)
    assert status == 408 and asked < 50


async def test_a_body_that_makes_progress_takes_its_time(monkeypatch):
    monkeypatch.setattr(body_limit, "STALLS_AFTER_S", 1)
    monkeypatch.setattr(body_limit, "PROGRESS_BYTES", 20)
    status, body, _ = await send_pieces([b"x" * 20] * 12, pause_s=0.1)  # longer than that, in all
    assert (status, json.loads(body)["code"]) == (404, "not_found")
