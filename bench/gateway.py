"""What the gateway costs: the time it adds to a websocket's echo with 200 of them open, and the memory that 1 GB takes.

bin/bench gateway [--runs 3] [--sockets 200] [--rounds 20] [--mib 1024]. The whole platform by bin/start: a job listens
on a port that it declares, and the same listener is asked direct and through the gateway by turns, with the session
that a browser got. Exits 1 where in any run p99 grows by more than 10 ms or the web process by more than 64 MB.
"""

import argparse
import asyncio
import os
import secrets
import statistics
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

import aiohttp
from playwright.sync_api import sync_playwright

from bench.latency import launch, signed_in
from bench.stack import Stack, free_port, running_stack

ADDED_P99_MS, GROWTH_MB = 10, 64
MIB = 1024 * 1024
PAYLOAD = secrets.token_hex(64)
GAP_S = 0.5  # people and kernels speak; 200 of them say 400 things a second
PROGRAM = Path(__file__).with_name("_program.py")


@dataclass(frozen=True)
class Way:
    """How the program is reached."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench gateway", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sockets", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--mib", type=int, default=1024)
    options = parser.parse_args()
    # In a network of its own the job could not be asked beside the gateway.
    with running_stack(variables={"TESSERA_TASK_NETWORKS": "0"}) as stack:
        stack.wait_for_environment()  # its preparation would take a processor meanwhile
        ways = open_ways(stack)
        missed = sum(asyncio.run(measure(ways, stack.children()["web"], options)) for _ in range(options.runs))
    return 1 if missed else 0


async def measure(ways: dict[str, Way], web: int, options: argparse.Namespace) -> bool:
    """One run. Whether a goal was missed."""
    echoes = await compare_echoes(ways, options)
    rates, growth = await transfer(ways, web, options.mib)
    return report(echoes, rates, growth, options)


# ---- the program and the ways to it ----


def open_ways(stack: Stack) -> dict[str, Way]:
    """Start the program as a job and let a browser in."""
    port = free_port()
    begin = f'exec "$TESSERA_TOOLS/bin/python" program.py "$TESSERA_PORT_{port}"'
    run = f"cat >program.py <<'END'\n{PROGRAM.read_text()}END\n{begin}\n"
    spec = {"run": run, "name": "listens", "gpu": "1/4", "ports": [port], "tensorboard": "."}  # which brings the tools
    job = stack.api("POST", "/jobs", spec)["id"]
    listens_at = stack.wait_for(job, "running")["tasks"][0]["ports"][str(port)]
    stack.wait_for_line(job, "listening")
    host, cookie = let_in(stack, job, port)
    as_page = {"Host": host, "Origin": f"http://{host}", "Cookie": cookie}
    return {"direct": Way(f"http://127.0.0.1:{listens_at}"), "gateway": Way(f"http://127.0.0.1:{stack.port}", as_page)}


def let_in(stack: Stack, job: str, port: int) -> tuple[str, str]:
    """(host of the app, cookie of a session on it): the link on the job's page, followed in Chromium."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = signed_in(browser, stack)
        page.goto(f"{stack.url}/j/{job}/")
        with page.context.expect_page() as opened:
            page.get_by_role("link", name=f"Port {port}").click()
        opened.value.wait_for_load_state()
        there = opened.value.url
        cookies = "; ".join(f"{one['name']}={one['value']}" for one in page.context.cookies(there))
        browser.close()
    return urlsplit(there).netloc, cookies


# ---- the figures ----


async def compare_echoes(ways: dict[str, Way], options: argparse.Namespace) -> dict[str, list[float]]:
    """Milliseconds of every echo. All sockets of both stand open while either is measured."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        opened = {}
        for name, way in ways.items():
            dials = (session.ws_connect(f"{way.url}/ws", headers=way.headers) for _ in range(options.sockets))
            opened[name] = await asyncio.gather(*dials)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(6):
            name = list(ways)[turn % 2]
            took = await asyncio.gather(*(say(end, max(1, options.rounds // 3)) for end in opened[name]))
            times[name] += [one for many in took for one in many]
        await asyncio.gather(*(end.close() for ends in opened.values() for end in ends))
    return times


async def say(end: aiohttp.ClientWebSocketResponse, rounds: int) -> list[float]:
    took = []
    await asyncio.sleep(GAP_S * secrets.randbelow(1000) / 1000)
    for _ in range(rounds):
        began = perf_counter()
        await end.send_str(PAYLOAD)
        assert await end.receive_str() == PAYLOAD
        took.append(1000 * (perf_counter() - began))
        await asyncio.sleep(GAP_S)
    return took


async def transfer(ways: dict[str, Way], web: int, mib: int) -> tuple[dict[str, float], float]:
    """({what: MB/s}, by how many MB the web process was larger than before at any moment)."""
    rates = {}
    async with aiohttp.ClientSession(read_bufsize=64 * 1024) as session:
        before = resident_mb(web)
        watching = asyncio.create_task(watch(web, watched := [before]))
        for name, way in ways.items():
            rates[f"download {name}"] = mib * MIB / 1e6 / await download(session, way, mib)
            rates[f"upload {name}"] = mib * MIB / 1e6 / await upload(session, way, mib)
        watching.cancel()
    return rates, max(watched) - before


async def download(session: aiohttp.ClientSession, way: Way, mib: int) -> float:
    began, total = perf_counter(), 0
    async with session.get(f"{way.url}/down?mib={mib}", headers=way.headers) as answer:
        async for piece in answer.content.iter_any():
            total += len(piece)
    assert total == mib * MIB, total
    return perf_counter() - began


async def upload(session: aiohttp.ClientSession, way: Way, mib: int) -> float:
    """As a browser sends a file: its length is known."""

    async def pieces() -> AsyncIterator[bytes]:
        piece = bytes(MIB)
        for _ in range(mib):
            yield piece

    began = perf_counter()
    headers = {**way.headers, "Content-Length": str(mib * MIB)}
    async with session.post(f"{way.url}/up", data=pieces(), headers=headers) as answer:
        assert await answer.text() == str(mib * MIB), answer.status
    return perf_counter() - began


async def watch(pid: int, seen: list[float]) -> None:
    while True:
        seen.append(resident_mb(pid))
        await asyncio.sleep(0.02)


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def report(echoes: dict[str, list[float]], rates: dict[str, float], growth: float, options: argparse.Namespace) -> bool:
    """Prints the figures of one run. Whether a goal was missed."""
    p99 = {name: statistics.quantiles(values, n=100)[98] for name, values in echoes.items()}
    print(f"{'echo, ms':20}{'p50':>8}{'p99':>8}   {options.sockets} sockets, {len(echoes['direct'])} echoes each way")
    for name, values in echoes.items():
        print(f"{name:20}{statistics.median(values):8.2f}{p99[name]:8.2f}")
    added = p99["gateway"] - p99["direct"]
    print(f"{'added p99':20}{added:16.2f}   ratio {p99['gateway'] / p99['direct']:.1f}, goal {ADDED_P99_MS} ms")
    for name, rate in rates.items():
        print(f"{name:20}{rate:16.0f}   MB/s, {options.mib} MiB")
    for way in ("download", "upload"):
        print(f"{way + ' ratio':20}{rates[f'{way} gateway'] / rates[f'{way} direct']:16.2f}")
    print(f"{'growth':20}{growth:16.1f}   MB, goal {GROWTH_MB} MB")
    return added > ADDED_P99_MS or growth > GROWTH_MB


if __name__ == "__main__":
    sys.exit(main())
