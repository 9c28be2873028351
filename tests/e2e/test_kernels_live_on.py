"""A kernel outlives the web process, through which its person speaks with it: on the real platform."""

import asyncio
import json
import os
import signal
import time
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
import pytest
from playwright.sync_api import sync_playwright

from bench.latency import signed_in
from bench.stack import Stack
from tests.quiet_chromium import launch_chromium

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]
WITHIN_S = 90


@pytest.fixture(scope="module")
def stack(stack_with_notebooks):
    return stack_with_notebooks


def test_a_kernel_keeps_its_variables_when_the_web_process_is_killed(stack: Stack, chromium_path):
    notebook = stack.api("POST", "/notebooks", {"name": "explore", "gpu": "0"})["id"]
    job = stack.api("POST", f"/notebooks/{notebook}:start", {})["job"]
    wait_until(lambda: stack.api("GET", f"/notebooks/{notebook}")["state"] == "running")
    as_page = let_in(stack, notebook, chromium_path)

    kernel = asyncio.run(begin_kernel(stack, as_page))
    assert asyncio.run(execute(stack, as_page, kernel, "kept = 6 * 7")) == ""
    kill_web(stack)
    assert asyncio.run(execute(stack, as_page, kernel, "print(kept)")) == "42\n"
    assert asyncio.run(list_kernels(stack, as_page)) == [kernel]
    assert stack.api("GET", f"/notebooks/{notebook}")["job"] == job


def let_in(stack: Stack, notebook: str, chromium_path: str) -> dict[str, str]:
    """What a browser sends to the notebook's host once it has come there by the portal."""
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright, chromium_path)
        page = signed_in(browser, stack)
        page.goto(f"{stack.url}/n/{notebook}/open", wait_until="commit")
        cookies = "; ".join(f"{one['name']}={one['value']}" for one in page.context.cookies(page.url))
        host = urlsplit(page.url).netloc
        browser.close()
    assert ".localhost:" in host, host
    return {"Host": host, "Origin": f"http://{host}", "Cookie": cookies}


def kill_web(stack: Stack) -> None:
    """As a crash would end it, and until another one answers."""
    killed = stack.children()["web"]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: stack.children().get("web", killed) != killed and stack.api("GET", "/me"))


def wait_until(done) -> None:
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        try:
            if done():
                return
        except OSError:
            pass  # nobody answers
        time.sleep(0.2)
    raise AssertionError(f"not within {WITHIN_S} s")


async def begin_kernel(stack: Stack, as_page: dict[str, str]) -> str:
    async with aiohttp.ClientSession(headers=as_page) as session:
        async with session.post(f"http://127.0.0.1:{stack.port}/api/kernels", json={"name": "python3"}) as answer:
            assert answer.status == 201, await answer.text()
            return (await answer.json())["id"]


async def list_kernels(stack: Stack, as_page: dict[str, str]) -> list[str]:
    async with aiohttp.ClientSession(headers=as_page) as session:
        async with session.get(f"http://127.0.0.1:{stack.port}/api/kernels") as answer:
            return [kernel["id"] for kernel in await answer.json()]


async def execute(stack: Stack, as_page: dict[str, str], kernel: str, code: str) -> str:
    """What it printed."""
    address = f"http://127.0.0.1:{stack.port}/api/kernels/{kernel}/channels?session_id={uuid4()}"
    number, said = str(uuid4()), ""
    header = {"msg_id": number, "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
    ask = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "content": {"code": code}}
    async with asyncio.timeout(WITHIN_S), aiohttp.ClientSession(headers=as_page) as session:
        async with session.ws_connect(address) as end:
            await end.send_json(ask)
            while True:
                told = json.loads((await end.receive()).data)
                if told["parent_header"].get("msg_id") != number:
                    continue
                if told["msg_type"] in ("stream", "error"):
                    said += told["content"].get("text", str(told["content"]))
                if told["msg_type"] == "status" and told["content"]["execution_state"] == "idle":
                    return said
