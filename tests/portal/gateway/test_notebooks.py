"""A notebook behind the gateway: its owner's alone, with the token that JupyterLab asks for, at one lasting address."""

import asyncio
from urllib.parse import urlsplit

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from jobs.models import Job
from jobs.states import TaskState
from jobs.task_access import derive_task_secret
from notebooks.models import Notebook
from portal.access.app_links import link_to_notebook
from portal.access.app_sessions import find_app, issue_code, redeem_code
from sharing.shares import end_share, share_job
from tests import make


@pytest.fixture
async def notebook(world):
    """The world's job as a start of ada's notebook; JupyterLab listens on its declared port."""

    def begin():
        made = Notebook.objects.create(user=world.cast.ada, team=world.cast.nlp, name="lab", spec={}, job=world.job)
        world.url = link_to_notebook(made)
        return made

    world.sockets.tasks[world.task.uuid.hex] = {8888: world.program.port}
    return await sync_to_async(begin)()


async def test_its_program_gets_the_token_of_this_very_task(world, notebook):
    async with world.visit("/seen", await world.enter()) as answer:
        seen = {name.lower(): value for name, value in (await answer.json())["headers"]}
    assert seen["authorization"] == f"token {derive_task_secret(world.task.uuid)}"


@pytest.mark.parametrize("who", ["bob", "eve", "rita"])
async def test_nobody_but_its_owner_opens_it(world, notebook, who):
    def knock():
        person = make.admin() if who == "rita" else getattr(world.cast, who)
        asked = {"app": world.label, "state": "s" * 43, "next": "/"}
        browser = world.client(person)
        posted = browser.post("/apps/authorize", asked, headers={"Origin": f"http://localhost:{world.port}"})
        return browser.get("/apps/authorize", asked).status_code, posted.status_code

    assert await sync_to_async(knock)() == ((403, 403) if who == "rita" else (404, 404))


async def test_its_address_stays_when_it_is_started_again_however_soon(world, notebook, monkeypatch):
    monkeypatch.setattr(
        "portal.gateway.http.upstream.pool.KEEP_S", -1
    )  # connections end with the task that they lead to
    cookie = await world.enter()
    async with world.visit("/seen", cookie) as answer:
        assert answer.status == 200  # the task that ends now is remembered

    def start_again():
        make.move(world.task, TaskState.SUCCEEDED, "completed", exit_code=0)
        job = make.job(world.cast.ada, gpu="1/4", pool="dev")
        task = make.start(job)[0]
        Notebook.objects.update(job=Job.objects.get(pk=job.pk))
        return task

    world.sockets.tasks.clear()
    async with world.visit("/seen", cookie) as answer:
        assert answer.status == 503
    again = await sync_to_async(start_again)()
    world.sockets.tasks[again.uuid.hex] = {8888: world.program.port}
    async with world.visit("/seen", cookie) as answer:
        seen = {name.lower(): value for name, value in (await answer.json())["headers"]}
    assert seen["authorization"] == f"token {derive_task_secret(again.uuid)}"
    assert await sync_to_async(link_to_notebook)(notebook) == world.url


async def test_a_stopped_one_leads_to_where_it_is_started(world, notebook, short_waits):
    cookie = await world.enter()
    await sync_to_async(make.move)(world.task, TaskState.SUCCEEDED, "completed", exit_code=0)
    async with world.visit("/lab/tree/a.ipynb", cookie) as answer:
        page = await answer.text()
    assert answer.status == 503 and f"http://localhost:{world.port}/n/{notebook.public_id}/open" in page


async def test_a_deleted_one_opens_no_more(world, notebook, short_waits):
    cookie = await world.enter()
    await Notebook.objects.aupdate(deleted_at="2026-01-01T00:00Z")
    async with world.visit("/seen", cookie) as answer:
        assert answer.status == 302 and urlsplit(answer.headers["Location"]).path == "/apps/authorize"


async def test_a_colleague_who_was_let_in_is_cut_off_when_the_share_ends(world, notebook):
    def enter():
        share_job(actor=world.cast.ada, job=world.job, person="bob")
        app, key = find_app(world.cast.bob, world.label), make.session(world.cast.bob)
        code = issue_code(app=app, user=world.cast.bob, session_key=key, state="s", path="/")
        return f"{world.cookie_name}={redeem_code(label=world.label, code=code, state='s')[0]}"

    cookie = await sync_to_async(enter)()
    headers = {"Host": world.origin.split("//")[1], "Cookie": cookie, "Origin": world.origin}
    async with world.session.ws_connect(f"http://127.0.0.1:{world.port}/ws", headers=headers) as end:
        await end.send_str("hello")
        assert await end.receive_str() == "hello"
        await sync_to_async(end_share)(actor=world.cast.ada, job=world.job, person="bob")
        async with asyncio.timeout(10):
            assert (await end.receive()).type is aiohttp.WSMsgType.CLOSE
        assert end.close_code == 4403
    async with world.visit("/seen", cookie) as answer:
        assert answer.status == 302 and not world.program.asked[1:]
