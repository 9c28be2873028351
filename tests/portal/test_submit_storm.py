"""Many submits at once: each is taken or told truly why not, and others' pages stay quick."""

import asyncio
import json
from statistics import median

import pytest
from django.conf import settings

from bench.storm import raise_storm
from jobs.models import Job
from tests import make
from tests.web_process import running_web

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CONNECTIONS = 150
REASONS = {(429, "too_many_requests"), (503, "platform_busy")}


def test_each_submit_is_taken_once_or_told_when_to_try_again():
    """A tenth of the storm that is tried by hand: 60 of one person, who may submit 40 a minute, and 140 of 14."""
    cast = make.cast()
    others = [make.token(make.user(f"p{number}", cast.nlp)) for number in range(14)]
    tokens = [make.token(cast.ada)] * 60 + others * 10
    cookie = f"{settings.SESSION_COOKIE_NAME}={make.session(cast.eve)}"
    with running_web(TESSERA_RATE_SUBMITS=40) as web:
        storm = asyncio.run(raise_storm(web.port, tokens, cookie, connections=CONNECTIONS))
    taken = [json.loads(answer.body)["id"] for answer in storm.answers if answer.status == 201]
    assert sorted(taken) == sorted(job.public_id for job in Job.objects.all())
    refused = [answer for answer in storm.answers if answer.status != 201]
    assert len(taken) + len(refused) == len(tokens)
    assert {(answer.status, json.loads(answer.body)["code"]) for answer in refused} <= REASONS
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert sum(answer.status == 429 for answer in refused) >= 10
    assert median(storm.pages_s) < max(0.5, 4 * median(storm.alone_s)), (storm.pages_s, storm.alone_s)
