"""Many submits at once: each is taken or told truly why not, and others' pages stay quick."""

import asyncio
import json
from statistics import median

import pytest
from django.conf import settings

from bench.storm import Connection, raise_storm
from jobs.models import Job
from portal import lanes
from tests import make
from tests.web_process import running_web

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CONNECTIONS = 150
STREAMS = lanes.READS + 2
REASONS = {(429, "too_many_requests"), (503, "platform_busy")}


def test_each_submit_is_taken_once_or_told_when_to_try_again():
    """A tenth of the storm of bin/bench storm: 100 of one person, who may submit 40 in each minute, and 100 of ten."""
    cast = make.cast()
    others = [make.token(make.user(f"p{number}", cast.nlp)) for number in range(10)]
    tokens = [make.token(cast.ada)] * 100 + others * 10
    cookie = f"{settings.SESSION_COOKIE_NAME}={make.session(cast.eve)}"
    with running_web(TESSERA_RATE_SUBMITS=40) as web:
        storm = asyncio.run(raise_storm(web.port, tokens, cookie, connections=CONNECTIONS))
    taken = [json.loads(answer.body)["id"] for answer in storm.answers if answer.status == 201]
    assert sorted(taken) == sorted(job.public_id for job in Job.objects.all())
    refused = [answer for answer in storm.answers if answer.status != 201]
    assert len(taken) + len(refused) == len(tokens)
    assert {(answer.status, json.loads(answer.body)["code"]) for answer in refused} <= REASONS
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert Job.objects.filter(user=cast.ada).count() <= 2 * 40  # a minute may end meanwhile
    # Without lanes of their own pages took 15 times as long.
    assert median(storm.pages_s) < max(0.5, 8 * median(storm.alone_s)), (storm.pages_s, storm.alone_s)


def test_open_streams_hold_no_place_of_other_calls():
    cast = make.cast()
    headers = {"Authorization": f"Bearer {make.token(cast.ada)}", "Accept": "application/x-ndjson"}

    async def play(port):
        streams = []
        for _ in range(STREAMS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": f"localhost:{port}", **headers}.items())
            writer.write(f"GET /api/v1/events HTTP/1.1\r\n{head}\r\n".encode())
            assert b" 200 " in await reader.readline()
            streams.append(writer)
        call = Connection(port)
        async with asyncio.timeout(lanes.WAITS_S):
            answer = await call.ask("GET", "/api/v1/me", {"Authorization": headers["Authorization"]})
        call.close()
        for writer in streams:
            writer.close()
            await writer.wait_closed()
        return answer.status

    with running_web() as web:
        assert asyncio.run(play(web.port)) == 200
