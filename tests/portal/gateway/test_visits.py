"""What a secret opens is asked of the rows rarely: once for many requests, and anew when the platform says so."""

import asyncio
from threading import Event

import pytest
from asgiref.sync import sync_to_async

from portal.access.app_sessions import AppGrant, load_visit
from portal.gateway.http.grant_cache import GrantCache

VISIT = AppGrant(7, "", "a" * 32, 7860, "", "job-1", "/j/job-1/")
LABEL = "a" * 20


class Rows:
    """Counts how often it is asked; slow: it answers when it is let."""

    def __init__(self):
        self.opens: AppGrant | None = VISIT
        self.asked = 0
        self.may_answer = Event()
        self.may_answer.set()

    def load(self, label, secret):
        self.asked += 1
        found = self.opens
        self.may_answer.wait(10)
        return found


async def test_many_requests_at_once_are_one_question():
    rows = Rows()
    visits = GrantCache(rows.load)
    assert await asyncio.gather(*(visits.find(LABEL, "secret") for _ in range(50))) == [VISIT] * 50
    assert await visits.find(LABEL, "secret") == VISIT and rows.asked == 1


async def test_what_opens_nothing_is_asked_each_time():
    rows = Rows()
    rows.opens = None
    visits = GrantCache(rows.load)
    assert [await visits.find(LABEL, "guessed") for _ in range(2)] == [None, None] and rows.asked == 2


async def test_what_was_forgotten_is_asked_anew_and_others_are_not():
    rows = Rows()
    visits = GrantCache(rows.load)
    await visits.find(LABEL, "secret")
    visits.forget(8)
    assert await visits.find(LABEL, "secret") == VISIT and rows.asked == 1
    rows.opens = None
    visits.forget(VISIT.user_id)
    assert await visits.find(LABEL, "secret") is None and rows.asked == 2


async def test_an_answer_of_before_is_not_remembered_after():
    rows = Rows()
    visits = GrantCache(rows.load)
    rows.may_answer.clear()
    early = asyncio.create_task(visits.find(LABEL, "secret"))
    while not rows.asked:  # noqa: ASYNC110 - it is asked in another thread
        await asyncio.sleep(0.01)
    rows.opens = None
    visits.forget(VISIT.user_id)
    rows.may_answer.set()
    assert await early == VISIT  # it came before; nobody else gets it
    assert await visits.find(LABEL, "secret") is None


async def test_a_question_costs_few_small_queries(world, django_assert_num_queries):
    secret = (await world.enter()).partition("=")[2]

    def ask():
        with django_assert_num_queries(5):  # the app's session, the portal's, its person, their role, the task
            assert load_visit(world.label, secret).task == world.task.uuid.hex
        with django_assert_num_queries(1):
            assert load_visit(world.label, "guessed") is None

    await sync_to_async(ask)()


@pytest.fixture(autouse=True)
def rows_are_there(transactional_db):
    """The worker thread that asks looks after its connection."""
