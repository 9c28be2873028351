"""The host of an app, knocked at by whom it must not open for: whatever is not a session on this very host is nobody.

DOORS of tests/portal/test_doors.py has the portal's own addresses.
"""

from datetime import timedelta
from urllib.parse import urlsplit

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import OperationalError
from django.db.models.functions import Now

from accounts.models import ApiToken
from jobs.task_access import derive_task_secret
from portal.models import AppSession
from tests import make

SCRIPT = {"Accept": "application/json", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def live_token(world):
    return bearer(make.token(world.cast.ada))


def revoked_token(world):
    secret = make.token(world.cast.ada)
    ApiToken.objects.update(revoked_at=Now())
    return bearer(secret)


def expired_token(world):
    return bearer(make.expired_token(world.cast.ada))


def token_of_the_task(world):
    """What the gateway itself shows the program."""
    return {"Authorization": f"token {derive_task_secret(world.task.uuid)}"}


def session_of_the_portal(world):
    key = make.session(world.cast.ada)
    return {"Cookie": f"{settings.SESSION_COOKIE_NAME}={key}; {world.cookie_name}={key}"}


def nothing(world):
    return {}


NOBODY = [nothing, live_token, revoked_token, expired_token, token_of_the_task, session_of_the_portal]


@pytest.mark.parametrize("who", NOBODY, ids=lambda who: who.__name__)
async def test_it_opens_for_nobody_without_a_session_of_its_own(world, who):
    await assert_closed(world, await sync_to_async(who)(world))


async def test_it_opens_no_more_once_its_session_has_ended(world, short_waits):
    cookie = await world.enter()
    await AppSession.objects.aupdate(expires_at=Now() - timedelta(seconds=1))
    await assert_closed(world, {"Cookie": cookie})


async def assert_closed(world, headers):
    """By every way, and without a word to the program."""
    async with world.visit("/seen", **headers, Accept="text/html", Sec_Fetch_Mode="navigate") as sent_away:
        assert (sent_away.status, urlsplit(sent_away.headers["Location"]).path) == (302, "/apps/authorize")
    for method in ("GET", "POST", "PUT", "DELETE"):
        async with world.visit("/seen", method=method, Origin=world.origin, **SCRIPT, **headers) as refused:
            assert refused.status == 401, method
    there = f"http://127.0.0.1:{world.port}/ws"
    own = {"Host": urlsplit(world.url).netloc, "Origin": world.origin, **headers}
    with pytest.raises(aiohttp.WSServerHandshakeError) as no_socket:
        await world.session.ws_connect(there, headers=own)
    assert no_socket.value.status == 401
    assert not world.program.asked and not world.sockets.dialled


async def test_while_the_database_is_away_it_opens_for_nobody_and_says_when_to_come_again(world, monkeypatch):
    cookie = await world.enter()
    state, there = await world.way_in()

    def away(**asked):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(world.gateway._visits, "_load", lambda *key: away())
    monkeypatch.setattr("portal.gateway.http.sign_in.redeem_code", away)
    for path, kept in (("/seen", cookie), (there.removeprefix(world.origin), state)):
        async with world.visit(path, kept) as page:
            assert (page.status, page.headers["Retry-After"]) == (503, "5"), path
            assert "Tessera is temporarily unavailable" in await page.text()
    async with world.visit("/seen", Cookie=cookie, **SCRIPT) as answer:
        assert (answer.status, (await answer.json())["code"]) == (503, "unavailable")
    assert not world.program.asked
