"""A notebook's token behind the gateway: what an editor reaches with it, and that it is never a way around anything."""

import asyncio
from datetime import timedelta

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from accounts.models import Membership, User
from accounts.services import create_token, revoke_token
from jobs.states import TaskState
from jobs.task_access import derive_task_secret
from notebooks.models import Notebook
from portal.access.app_links import link_to_notebook, link_to_port
from sharing.models import NotebookToken
from sharing.tokens import create_notebook_token, end_notebook_token
from tests import make

SCRIPT = {"Accept": "*/*"}


@pytest.fixture
async def editor(world):
    """The world's job as a start of ada's notebook, and an editor's token for it."""

    def begin():
        made = Notebook.objects.create(user=world.cast.ada, team=world.cast.nlp, name="lab", spec={}, job=world.job)
        world.url, world.notebook = link_to_notebook(made), made
        world.token, world.secret = create_notebook_token(actor=world.cast.ada, notebook=made, name="VS Code")

    world.sockets.tasks[world.task.uuid.hex] = {8888: world.program.port}
    await sync_to_async(begin)()
    return world


async def ask(world, path="/seen", method="GET", **headers):
    async with world.visit(path, method=method, **{**SCRIPT, **headers}) as answer:
        kind = answer.headers.get("Content-Type", "")
        return answer.status, await answer.json(content_type=None) if "json" in kind else await answer.text()


def authorized(secret):
    return {"Authorization": f"token {secret}"}


async def test_an_editor_comes_in_by_header_or_query_and_the_program_sees_neither(editor):
    by_header = await ask(editor, **authorized(editor.secret))
    by_query = await ask(editor, f"/seen?a=1&token={editor.secret}&b=2")
    bearer = await ask(editor, Authorization=f"Bearer {editor.secret}")
    for status, seen in (by_header, by_query, bearer):
        named = {name.lower(): value for name, value in seen["headers"]}
        assert status == 200 and named["authorization"] == f"token {derive_task_secret(editor.task.uuid)}"
        assert editor.secret not in str(seen)
    assert by_query[1]["path"] == "/seen?a=1&b=2"


async def test_it_writes_without_an_origin_and_from_any(editor):
    for origin in ({}, {"Origin": "https://vscode.example", "Sec-Fetch-Site": "cross-site"}):
        status, _ = await ask(editor, method="POST", **authorized(editor.secret), **origin)
        assert status == 200


async def test_a_kernels_websocket_opens_and_is_closed_when_the_token_is_ended(editor):
    url = f"http://127.0.0.1:{editor.port}/ws?token={editor.secret}"
    async with editor.session.ws_connect(url, headers={"Host": editor.origin.split("//")[1]}) as end:
        await end.send_str("hello")
        assert await end.receive_str() == "hello"
        await sync_to_async(end_notebook_token)(
            actor=editor.cast.ada, notebook=editor.notebook, token_id=editor.token.pk
        )
        async with asyncio.timeout(10):
            closed = await end.receive()
        assert closed.type is aiohttp.WSMsgType.CLOSE and end.close_code == 4403
    assert (await ask(editor, **authorized(editor.secret)))[0] == 401


async def test_a_link_that_a_browser_opens_signs_nobody_in(editor):
    async with editor.visit(f"/lab?token={editor.secret}") as answer:
        assert answer.status == 302 and editor.secret not in answer.headers["Location"]
        assert "/apps/authorize" in answer.headers["Location"]
        assert not any(cookie.startswith(editor.cookie_name + "=") for cookie in answer.headers.getall("Set-Cookie"))


async def test_a_bad_token_is_not_forgiven_for_a_good_cookie(editor):
    cookie = await editor.enter()
    async with editor.visit("/seen", cookie, "POST", Authorization="token tnb_guess", Origin="https://evil") as answer:
        assert answer.status == 401
    async with editor.visit("/seen?token=tnb_guess", cookie, "POST", Origin="https://evil.example") as answer:
        assert answer.status == 401
    async with editor.visit("/seen?token=other", cookie, "POST", Origin="https://evil.example") as answer:
        assert answer.status == 403
    assert not editor.program.asked


async def test_it_opens_no_other_host(editor):
    def others():
        names = {"name": "other", "folder_name": "other"}
        other = Notebook.objects.create(user=editor.cast.ada, team=editor.cast.nlp, spec={}, job=editor.job, **names)
        return link_to_notebook(other), link_to_port(editor.task, 7860)

    for url in await sync_to_async(others)():
        editor.url = url
        status, _ = await ask(editor, **authorized(editor.secret))
        assert status == 401
    assert not editor.program.asked


async def test_another_programs_port_never_sees_it(editor):
    editor.url = await sync_to_async(link_to_port)(editor.task, 7860)
    editor.sockets.tasks[editor.task.uuid.hex] = {7860: editor.program.port}
    cookie = await editor.enter()
    async with editor.visit(f"/seen?token={editor.secret}", cookie) as answer:  # a visit: the cookie counts
        assert answer.status == 200 and editor.secret not in await answer.text()


@pytest.mark.parametrize("end", ["time", "suspended", "left", "deleted", "maker"])
async def test_it_ends_with_its_time_its_owner_its_notebook_and_its_maker(editor, end, short_waits):
    def act():
        ada = editor.cast.ada
        if end == "time":
            NotebookToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        elif end == "suspended":
            User.objects.filter(pk=ada.pk).update(suspended_at=timezone.now())
        elif end == "left":
            Membership.objects.filter(user=ada).delete()
        elif end == "deleted":
            Notebook.objects.update(deleted_at=timezone.now())
        else:
            maker, _ = create_token(user=ada, name="ci", scopes=["tokens:write"])
            made = create_notebook_token(actor=ada, notebook=editor.notebook, name="by ci", made_by=maker)
            editor.secret = made[1]
            assert NotebookToken.objects.live().filter(pk=made[0].pk).exists()
            revoke_token(user=ada, token_id=maker.pk)

    assert (await ask(editor, **authorized(editor.secret)))[0] == 200
    await sync_to_async(act)()
    await asyncio.sleep(0.1)
    status, problem = await ask(editor, **authorized(editor.secret))
    assert (status, problem["code"]) == (401, "bad_token")


async def test_a_stopped_notebook_says_where_it_is_started(editor):
    await sync_to_async(make.move)(editor.task, TaskState.SUCCEEDED, "completed", exit_code=0)
    status, problem = await ask(editor, **authorized(editor.secret))
    assert (status, problem["code"]) == (503, "not_running")
    assert f"http://localhost:{editor.port}/n/{editor.notebook.public_id}/open" in problem["detail"]
