"""Websockets between a page of an app and its program."""

import asyncio

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.db import OperationalError

from accounts.directory import suspend_person
from events.record_and_publish import publish_recheck
from tests import make

MIB = 1024 * 1024
PATIENCE_S = 10
AT_ONCE_S = 5  # far below gateway.RECHECK_S


def dial(world, cookie, origin=None, protocols=(), **more):
    headers = {"Host": world.origin.removeprefix("http://"), "Cookie": cookie, "Origin": origin or world.origin}
    there = f"http://127.0.0.1:{world.port}/ws?session_id=1"
    return world.session.ws_connect(there, headers=headers, protocols=protocols, max_msg_size=0, **more)


async def test_the_program_chooses_the_sub_protocol_before_the_browser_is_accepted(world):
    async with dial(world, await world.enter(), protocols=("v0.other", "v1.kernel")) as end:
        assert end.protocol == "v1.kernel"
        await end.send_str("hello")
        await end.send_bytes(b"\x00\xff")
        assert (await end.receive_str(), await end.receive_bytes()) == ("hello", b"\x00\xff")
    assert world.program.asked[0].headers["Origin"] == world.origin
    assert "Cookie" not in world.program.asked[0].headers


async def test_a_message_may_be_large(world):
    async with dial(world, await world.enter()) as end:
        await end.send_bytes(bytes(20 * MIB))
        assert len(await end.receive_bytes(timeout=PATIENCE_S)) == 20 * MIB


@pytest.mark.parametrize("origin", ["http://localhost:8470", "null", "http://evil.example", "other app"])
async def test_a_page_of_another_address_gets_no_socket(world, origin):
    cookie = await world.enter()
    origin = world.origin.replace(world.label, "a" * 20) if origin == "other app" else origin
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await dial(world, cookie, origin)
    assert refused.value.status == 403 and not world.program.asked


async def test_a_visitor_gets_no_socket(world):
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await dial(world, f"{world.cookie_name}=guessed")
    assert refused.value.status == 401 and not world.sockets.dialled


async def test_a_program_without_sockets_says_so(world):
    world.sockets.tasks[world.task.uuid.hex].clear()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await dial(world, await world.enter())
    assert refused.value.status == 502


async def test_the_programs_close_code_reaches_the_browser(world):
    async with dial(world, await world.enter()) as end:
        await end.send_str("close 4123")
        assert (await end.receive(PATIENCE_S)).type is aiohttp.WSMsgType.CLOSE
        assert end.close_code == 4123


async def test_the_browsers_close_code_reaches_the_program(world):
    end = await dial(world, await world.enter())
    await end.close(code=4321)
    await asyncio.wait_for(world.program.left.wait(), PATIENCE_S)
    assert world.program.closed_with == 4321


async def test_an_open_socket_ends_with_the_session_of_the_portal(world, short_waits):
    browser = await sync_to_async(world.client)(world.cast.ada)
    end = await dial(world, await world.enter(browser=browser))
    await sync_to_async(browser.logout)()
    assert (await end.receive(PATIENCE_S)).type is aiohttp.WSMsgType.CLOSE
    assert end.close_code == 4403
    await asyncio.wait_for(world.program.left.wait(), PATIENCE_S)


async def test_signing_out_closes_sockets_at_once(world):
    browser = await sync_to_async(world.client)(world.cast.ada)
    cookie = await world.enter(browser=browser)
    ends = [await dial(world, cookie) for _ in range(3)]
    await until_heard(world, world.cast.ada)
    await sync_to_async(browser.post)("/sign-out/", headers={"Origin": f"http://localhost:{world.port}"})
    for end in ends:
        assert (await end.receive(AT_ONCE_S)).type is aiohttp.WSMsgType.CLOSE and end.close_code == 4403


async def test_suspending_a_person_closes_their_sockets_at_once(world):
    end = await dial(world, await world.enter())
    await until_heard(world, world.cast.ada)
    root = await sync_to_async(make.admin)()
    await sync_to_async(suspend_person)(actor=root, user=world.cast.ada)
    assert (await end.receive(AT_ONCE_S)).type is aiohttp.WSMsgType.CLOSE and end.close_code == 4403


async def test_looking_again_leaves_open_what_may_stay_open(world):
    end = await dial(world, await world.enter())
    await until_heard(world, world.cast.ada)
    await sync_to_async(publish_recheck)(world.cast.ada.pk)
    with pytest.raises(TimeoutError):
        await end.receive(1)
    await end.send_str("still here")
    assert await end.receive_str() == "still here"
    await end.close()


async def test_a_database_that_is_away_closes_nothing(world, short_waits, monkeypatch):
    asked = 0

    def away(label, secret):
        nonlocal asked
        asked += 1
        raise OperationalError("the server is starting")

    end = await dial(world, await world.enter())
    monkeypatch.setattr(world.gateway._visits, "_load", away)
    assert await comes_true(lambda: asked >= 3)
    await end.send_str("still here")
    assert await end.receive_str() == "still here"
    await end.close()


async def test_messages_wait_for_a_program_that_does_not_read(world):
    """Nothing is kept for it in between: the sender is held up."""
    world.program.go.clear()
    end = await dial(world, await world.enter())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            while True:  # echoes are not read here, so that soon the program cannot write, and then not read
                await end.send_bytes(bytes(MIB))
                world.program.received += 1
    assert world.program.received < 64
    await end.close()


async def until_heard(world, person):
    """Until the gateway stands at this person's doorbell."""
    layer = get_channel_layer()
    group = layer._get_group_channel_name(f"user-{person.pk}")
    assert await comes_true(lambda: layer.groups.get(group))
    await asyncio.sleep(0.1)  # from the note here to the server that rings


async def comes_true(what):
    for _ in range(PATIENCE_S * 50):
        if what():
            return True
        await asyncio.sleep(0.02)
    return False
