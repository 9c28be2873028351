"""What passes between a browser and a program: everything that is theirs, nothing that is ours, at the slower pace."""

import asyncio

import pytest
from asgiref.sync import sync_to_async

from jobs.states import TaskState
from tests import make

MIB = 1024 * 1024
IN_BUFFERS = 24  # MiB that the system's own buffers may hold between four sockets


async def test_the_portals_host_never_reaches_the_gateway(world):
    for host in (f"localhost:{world.port}", "127.0.0.1", f"evil.{world.label}.localhost", "short.localhost"):
        async with world.visit("/", Host=host) as answer:
            assert await answer.text() == "portal", host
    assert not world.sockets.dialled


async def test_a_programs_host_never_reaches_django(world):
    async with world.visit("/livez") as answer:
        assert answer.status == 302
    async with world.visit("/livez", await world.enter()) as answer:
        assert answer.status == 404 and await answer.text() == "404: Not Found"  # the program's own


async def test_what_is_ours_and_what_says_who_is_stays_out_of_the_program(world):
    cookie = await world.enter()
    ours = f"{cookie}; tessera=portal; __Host-tessera=x; tessera-known=y; app_{'a' * 20}=z"
    mine = {
        "Cookie": f"{ours}; theirs=1; app_theme=2",
        "X-Forwarded-For": "6.6.6.6",
        "X-Forwarded-User": "root",
        "X_Remote_User": "root",
        "Remote-User": "root",
        "Authorization": "Bearer tes_secret",
        "Connection": "keep-alive, X-Mine",
        "X-Mine": "1",
        "X-Kept": "yes",
    }
    async with world.visit("/seen", **mine) as answer:
        seen = {name.lower(): value for name, value in (await answer.json())["headers"]}
    assert seen["cookie"] == "theirs=1; app_theme=2" and seen["x-kept"] == "yes"
    assert seen["host"] == f"{world.label}.localhost:{world.port}" and seen["x-forwarded-proto"] == "http"
    gone = {"x-forwarded-for", "x-forwarded-user", "x_remote_user", "remote-user", "authorization", "x-mine"}
    assert not gone & set(seen)


async def test_a_program_sets_only_cookies_of_its_own(world):
    async with world.visit("/cookies", await world.enter()) as answer:
        assert answer.headers.getall("Set-Cookie") == ["fine=1; Path=/"]
        assert "Clear-Site-Data" not in answer.headers and answer.headers["X-Own"] == "kept"
        policies = answer.headers.getall("Content-Security-Policy")
        assert policies == ["script-src 'self'", "frame-ancestors 'self'"]


async def test_parts_compressed_and_empty_bodies_pass_as_they_are(world):
    cookie = await world.enter()
    async with world.visit("/part", Cookie=cookie, Range="bytes=2-4") as part:
        assert (part.status, await part.read(), part.headers["Content-Range"]) == (206, b"cde", "bytes 2-4/26")
    async with world.visit("/zipped", cookie) as zipped:
        assert zipped.headers["Content-Encoding"] == "gzip" and await zipped.text() == "once" * 100
    async with world.visit("/nothing", cookie) as nothing:
        assert nothing.status == 204 and await nothing.read() == b""
    async with world.visit("/zipped", cookie, method="HEAD") as head:
        assert head.status == 200 and int(head.headers["Content-Length"]) > 0


async def test_a_body_that_waits_for_a_go_gets_it(world):
    cookie = await world.enter()
    world.program.go.set()
    headers = {"Cookie": cookie, "Origin": world.origin, "Host": world.origin.removeprefix("http://")}
    there = f"http://127.0.0.1:{world.port}/up"
    async with world.session.post(there, data=b"x" * 1000, headers=headers, expect100=True) as answer:
        assert await answer.text() == "1000"


async def test_a_download_waits_for_a_browser_that_does_not_read(world):
    async with world.visit("/down?mib=64", await world.enter()) as answer:
        assert await settled(lambda: world.program.sent) < IN_BUFFERS
        assert len(await answer.read()) == 64 * MIB


async def test_an_upload_waits_for_a_program_that_does_not_read(world):
    offered = 0

    async def body():
        nonlocal offered
        for _ in range(64):
            yield bytes(MIB)
            offered += 1

    cookie = await world.enter()
    headers = {"Cookie": cookie, "Origin": world.origin, "Host": world.origin.removeprefix("http://")}
    sending = asyncio.create_task(post(world, body(), headers))
    assert await settled(lambda: offered) < IN_BUFFERS
    world.program.go.set()
    assert await sending == str(64 * MIB)


async def test_a_program_is_left_when_the_browser_leaves(world):
    cookie = await world.enter()
    asking = asyncio.create_task(post(world, None, {"Cookie": cookie}, "GET", "/hang"))
    await asyncio.wait_for(world.program.go.wait(), 10)
    asking.cancel()
    await asyncio.wait_for(world.program.left.wait(), 10)


async def test_an_answer_that_breaks_off_does_not_look_whole(world):
    async with world.visit("/broken", await world.enter()) as answer:
        with pytest.raises(Exception, match=r"payload|closed"):
            await answer.read()


@pytest.mark.parametrize("headers", [{}, {"Origin": "null"}, {"Origin": "http://localhost:8470"}, "other app"])
async def test_nothing_is_changed_from_another_page(world, headers):
    cookie = await world.enter()
    if headers == "other app":
        headers = {"Origin": world.origin.replace(world.label, "a" * 20)}
    async with world.visit("/seen", method="POST", Cookie=cookie, **headers) as answer:
        assert answer.status == 403
    assert not world.program.asked


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_no_other_page_reads_or_frames_an_app(world, site):
    cookie = await world.enter()
    for mode, kind in (("cors", "empty"), ("no-cors", "script"), ("navigate", "iframe")):
        fetch = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": kind}
        async with world.visit("/seen", Cookie=cookie, **fetch) as answer:
            assert answer.status == 403, (mode, kind)
    fetch = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with world.visit("/seen", Cookie=cookie, **fetch) as link:
        assert link.status == 200


async def test_an_address_that_another_task_got_is_not_served(world):
    """The runtime hands the port to the next task: the first one's app must not show it."""
    cookie = await world.enter()
    async with world.visit("/seen", cookie) as answer:
        assert answer.status == 200
    await asyncio.sleep(0)
    first, other = world.task.uuid.hex, "f" * 32
    world.sockets.tasks[other] = world.sockets.tasks.pop(first)
    world.gateway._upstream.pool.close()  # as when the first task's sockets ended with it
    async with world.visit("/seen", cookie) as answer:
        assert answer.status == 503
    assert {task for task, _ in world.sockets.dialled} == {first}


async def test_a_program_that_does_not_listen_is_waited_for_in_words(world):
    world.sockets.tasks[world.task.uuid.hex].clear()
    cookie = await world.enter()
    async with world.visit("/seen", cookie) as answer:
        page = await answer.text()
        assert answer.status == 502 and 'http-equiv="refresh"' in page and world.job.public_id in page
    script = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin", "Cookie": cookie}
    async with world.visit("/seen", **script) as answer:
        assert answer.status == 502 and answer.content_type == "application/problem+json"


async def test_a_job_that_ended_leads_to_its_page(world, short_waits):
    cookie = await world.enter()
    await sync_to_async(make.move)(world.task, TaskState.SUCCEEDED, "completed", exit_code=0)
    async with world.visit("/seen?deep=1", cookie) as answer:
        page = await answer.text()
    assert answer.status == 503 and f"http://localhost:{world.port}/j/{world.job.public_id}/" in page
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


async def post(world, body, headers, method="POST", path="/up"):
    host = {"Host": world.origin.removeprefix("http://")}
    there = f"http://127.0.0.1:{world.port}{path}"
    async with world.session.request(method, there, data=body, headers={**host, **headers}) as answer:
        return await answer.text()


async def settled(count):
    """What `count` says when it has not grown for half a second."""
    last = -1
    while count() != last or not last:
        last = count()
        await asyncio.sleep(0.5)
    return last
