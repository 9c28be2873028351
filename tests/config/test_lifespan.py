"""What runs beside the requests of the web process begins before the first and ends after the last."""

import asyncio
import gc
from contextlib import aclosing, asynccontextmanager

from config.lifespan import SELDOM, Lifespan, lasting_objects
from portal.gateway.http.gateway import Gateway


async def test_a_part_that_fails_leaves_the_others_and_all_end_at_the_shutdown(caplog):
    seen = []

    @asynccontextmanager
    async def part(name):
        if name == "broken":
            raise OSError("the port is taken")
        seen.append(f"{name} begins")
        yield
        seen.append(f"{name} ends")

    said = await live(Lifespan(*(lambda name=name: part(name) for name in ("first", "broken", "last"))), seen)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert seen == ["first begins", "last begins", "up", "last ends", "first ends"]
    assert "could not be started" in caplog.text


async def test_connections_into_tasks_are_closed_with_the_web_process():
    gateway = Gateway(None, lambda: None)
    upstream = gateway._upstream.session
    await live(Lifespan(lambda: aclosing(gateway)), [])
    assert upstream.closed


async def live(application, seen) -> list[str]:
    """Start it up and shut it down; what it said."""
    said, wanted = [], asyncio.Queue()
    wanted.put_nowait({"type": "lifespan.startup"})

    async def send(message):
        said.append(message["type"])
        if len(said) == 1:
            seen.append("up")
            wanted.put_nowait({"type": "lifespan.shutdown"})

    await application({"type": "lifespan"}, wanted.get, send)
    return said


async def test_what_stays_for_good_is_not_collected_anew():
    seen = []

    @asynccontextmanager
    async def look():
        seen.extend([gc.get_freeze_count(), gc.isenabled(), gc.get_threshold()])
        yield

    gc.disable()  # as it is while the web process starts
    await live(Lifespan(lasting_objects, look), [])
    assert seen[0] > 10_000  # functions and classes of all views
    assert seen[1] and seen[2] == SELDOM != gc.get_threshold()
    assert gc.get_freeze_count() == 0
