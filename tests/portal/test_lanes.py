"""Lanes of requests: how many at once, in which order, and what becomes of those that wait too long."""

import asyncio
import json

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpResponse
from django.test import RequestFactory

from common.errors import Busy
from portal import lanes
from portal.lanes import Lane, LanedHandler


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_who_waits_is_let_in_in_order():
    async def play():
        lane, came = Lane(lambda: 2), []

        async def come(name):
            await lane.enter()
            came.append(name)

        visitors = [asyncio.create_task(come(name)) for name in "abcd"]
        await settle()
        assert came == ["a", "b"]
        lane.leave()
        await settle()
        assert came == ["a", "b", "c"]
        lane.leave()
        await asyncio.gather(*visitors)
        assert (came, lane.inside) == (["a", "b", "c", "d"], 2)

    asyncio.run(play())


def test_who_waits_too_long_or_goes_away_holds_no_place(monkeypatch):
    async def play():
        lane = Lane(lambda: 1)
        await lane.enter()
        gone = asyncio.create_task(lane.enter())
        await settle()
        gone.cancel()
        monkeypatch.setattr(lanes, "WAITS_S", 0.01)
        with pytest.raises(Busy) as busy:
            await lane.enter()
        assert busy.value.params["retry_after_s"] >= 1
        lane.leave()
        await lane.enter()
        assert lane.inside == 1
        called = asyncio.create_task(lane.enter())
        await settle()
        lane.leave()  # calls it, in the moment in which it goes away
        called.cancel()
        await settle()
        assert lane.inside == 0

    asyncio.run(play())


def test_too_many_who_wait_are_refused_at_once(monkeypatch):
    async def play():
        monkeypatch.setattr(lanes, "MOST_WAITING", 1)
        lane = Lane(lambda: 0)
        waiting = asyncio.create_task(lane.enter())
        await settle()
        with pytest.raises(Busy):
            await lane.enter()
        waiting.cancel()

    asyncio.run(play())


class Desk:
    """Answers requests when it is told to. begun: their addresses."""

    def __init__(self, monkeypatch):
        self.begun: list[str] = []
        self.closed = asyncio.Event()
        monkeypatch.setattr(ASGIHandler, "get_response_async", lambda handler, request: self.answer(request))
        self.handler = LanedHandler()

    async def answer(self, request):
        self.begun.append(request.path)
        await self.closed.wait()
        return HttpResponse()

    def ask(self, method: str, path: str, number: int = 1) -> list[asyncio.Task]:
        requests = [getattr(RequestFactory(), method)(path) for _ in range(number)]
        return [asyncio.create_task(self.handler.get_response_async(request)) for request in requests]


def test_calls_fill_their_lane_and_leave_the_others_free(monkeypatch):
    async def play():
        desk = Desk(monkeypatch)
        asked = desk.ask("post", "/api/v1/jobs", 50)
        await settle()
        assert len(desk.begun) == lanes.WRITES
        asked += desk.ask("get", "/api/v1/jobs") + desk.ask("get", "/") + desk.ask("get", "/readyz", 20)
        await settle()
        assert len(desk.begun) == lanes.WRITES + 22
        desk.closed.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
        assert len(desk.begun) == 72

    asyncio.run(play())


def test_beside_a_page_fewer_writing_calls_begin(monkeypatch):
    async def play():
        desk = Desk(monkeypatch)
        asked = desk.ask("get", "/")
        await settle()
        asked += desk.ask("post", "/api/v1/jobs", 10)
        await settle()
        assert len(desk.begun) == 1 + lanes.WRITES_BESIDE_PAGES
        desk.closed.set()
        await asyncio.gather(*asked)
        assert len(desk.begun) == 11

    asyncio.run(play())


@pytest.mark.parametrize(("method", "path"), [("post", "/api/v1/jobs"), ("get", "/api/v1/jobs"), ("get", "/")])
def test_who_is_refused_is_told_when_to_try_again_and_nothing_is_begun(monkeypatch, method, path):
    async def play():
        monkeypatch.setattr(lanes, "WAITS_S", 0.01)
        desk = Desk(monkeypatch)
        for name in ("PAGES", "READS", "WRITES"):
            monkeypatch.setattr(lanes, name, 0)
        (asked,) = desk.ask(method, path)
        answer = await asked
        assert (answer.status_code, answer["Retry-After"], desk.begun) == (503, "5", [])
        if path != "/":
            body = json.loads(answer.content)
            assert (body["code"], body["status"]) == ("platform_busy", 503)
        assert "nothing was done about this one. Try again in 5 seconds" in answer.content.decode()

    asyncio.run(play())
