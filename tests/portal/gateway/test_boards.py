"""A TensorBoard comes up once for all who look, and its last words are told when it does not."""

import asyncio
import socket

import pytest

from common.errors import Unavailable
from portal.access.app_sessions import AppGrant
from portal.gateway.http.tensorboards import TensorBoards
from tests.fakes.runtime import FakeAccess

TASK = "a" * 32
VISIT = AppGrant(1, "", TASK, 6006, "", "job-1", "/j/job-1/", board="~/runs")


async def test_a_board_that_answers_is_not_started_again():
    with socket.create_server(("127.0.0.1", 0)) as server:
        access = FakeAccess(dials={(TASK, 6006): server.getsockname()[1]}, tasks=[TASK])
        boards = TensorBoards(lambda: access)
        await asyncio.gather(boards.start_board(VISIT), boards.start_board(VISIT))
        assert len(boards._up) == 1


async def test_what_keeps_it_from_coming_up_is_told_and_tried_again():
    boards = TensorBoards(lambda: FakeAccess(dials={}, tasks=[TASK]))
    for _ in range(2):
        with pytest.raises(Unavailable) as failed:
            await boards.start_board(VISIT)
        assert failed.value.code == "tensorboard_failed"
    assert not boards._up


async def test_other_apps_wait_for_no_board():
    boards = TensorBoards(lambda: FakeAccess(dials={}, tasks=[]))
    await boards.start_board(AppGrant(1, "", TASK, 6006, "", "job-1", "/j/job-1/"))
