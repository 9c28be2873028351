"""What the gateway costs: the time it adds to a websocket's echo with 200 of them open, and the memory that 1 GB takes.

bin/bench gateway [--sockets 200] [--rounds 20] [--mib 1024]. Direct and through the gateway in one run, by turns. The
gateway runs in a process of its own (uvicorn, as in bin/start), the program and the browsers in this one. Exits 1 where
p99 grows by more than 10 ms or the process by more than 64 MB.
"""

import argparse
import asyncio
import os
import secrets
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace

import aiohttp
from aiohttp import web

from bench.stack import free_port

ADDED_P99_MS, GROWTH_MB = 10, 64
MIB = 1024 * 1024
PAYLOAD = secrets.token_hex(64)
GAP_S = 0.5  # people and kernels speak; 200 of them say 400 things a second


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench gateway", description=__doc__)
    parser.add_argument("--sockets", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--mib", type=int, default=1024)
    return asyncio.run(measure(parser.parse_args()))


async def measure(options: argparse.Namespace) -> int:
    runner, program_port = await start_program()
    with gateway_process(program_port) as gateway:
        await until_open(gateway.port)
        direct, through = f"http://127.0.0.1:{program_port}", f"http://127.0.0.1:{gateway.port}"
        echoes = await compare_echoes({"direct": direct, "gateway": through}, options)
        rates, growth = await transfer(direct, through, gateway.pid, options.mib)
    await runner.cleanup()
    return report(echoes, rates, growth, options)


# ---- the program ----


async def start_program() -> tuple[web.AppRunner, int]:
    app = web.Application()
    app.router.add_get("/ws", echo)
    app.router.add_get("/down", down)
    app.router.add_post("/up", up)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=512).start()
    return runner, port


async def echo(request: web.Request) -> web.WebSocketResponse:
    end = web.WebSocketResponse(compress=False)
    await end.prepare(request)
    async for message in end:
        await end.send_str(message.data)
    return end


async def down(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    piece = bytes(MIB)
    for _ in range(int(request.query["mib"])):
        await answer.write(piece)
    return answer


async def up(request: web.Request) -> web.Response:
    total = 0
    async for piece in request.content.iter_any():
        total += len(piece)
    return web.Response(text=str(total))


# ---- the gateway ----


@contextmanager
def gateway_process(program_port: int) -> Iterator[SimpleNamespace]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "bench._gateway_server", str(port), str(program_port)],
        env={
            **os.environ,
            "TESSERA_PUBLIC_URL": f"http://localhost:{port}",
            "TESSERA_APPS_URL": f"http://*.localhost:{port}",
        },
    )
    try:
        yield SimpleNamespace(port=port, pid=process.pid)
    finally:
        process.terminate()
        process.wait(10)


async def until_open(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise RuntimeError("the gateway did not come up")


def as_browser(url: str) -> dict[str, str]:
    """What a page of the app sends; the program does not mind it."""
    host = f"{'a' * 20}.localhost:{url.rpartition(':')[2]}"
    return {"Host": host, "Origin": f"http://{host}", "Cookie": f"app_{'a' * 20}=secret"}


# ---- the figures ----


async def compare_echoes(places: dict[str, str], options: argparse.Namespace) -> dict[str, list[float]]:
    """Milliseconds of every echo. All sockets of both stand open while either is measured."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        opened = {}
        for name, url in places.items():
            dials = (session.ws_connect(f"{url}/ws", headers=as_browser(url)) for _ in range(options.sockets))
            opened[name] = await asyncio.gather(*dials)
        times: dict[str, list[float]] = {name: [] for name in places}
        for turn in range(6):
            name = list(places)[turn % 2]
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


async def transfer(direct: str, through: str, pid: int, mib: int) -> tuple[dict[str, float], float]:
    """({what: MB/s}, by how many MB the gateway's process was larger than before at any moment)."""
    rates = {}
    async with aiohttp.ClientSession(read_bufsize=64 * 1024) as session:
        await download(session, through, 8)  # what is made once is made
        before = resident_mb(pid)
        watching = asyncio.create_task(watch(pid, watched := [before]))
        for name, url in (("direct", direct), ("gateway", through)):
            rates[f"download {name}"] = mib * MIB / 1e6 / await download(session, url, mib)
            rates[f"upload {name}"] = mib * MIB / 1e6 / await upload(session, url, mib)
        watching.cancel()
    return rates, max(watched) - before


async def download(session: aiohttp.ClientSession, url: str, mib: int) -> float:
    began, total = perf_counter(), 0
    async with session.get(f"{url}/down?mib={mib}", headers=as_browser(url)) as answer:
        async for piece in answer.content.iter_any():
            total += len(piece)
    assert total == mib * MIB, total
    return perf_counter() - began


async def upload(session: aiohttp.ClientSession, url: str, mib: int) -> float:
    async def pieces():
        piece = bytes(MIB)
        for _ in range(mib):
            yield piece

    began = perf_counter()
    async with session.post(f"{url}/up", data=pieces(), headers=as_browser(url)) as answer:
        assert await answer.text() == str(mib * MIB), answer.status
    return perf_counter() - began


async def watch(pid: int, seen: list[float]) -> None:
    while True:
        seen.append(resident_mb(pid))
        await asyncio.sleep(0.02)


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def report(echoes: dict[str, list[float]], rates: dict[str, float], growth: float, options: argparse.Namespace) -> int:
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
    return 1 if added > ADDED_P99_MS or growth > GROWTH_MB else 0


if __name__ == "__main__":
    sys.exit(main())
