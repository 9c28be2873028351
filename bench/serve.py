"""What serving costs: a cold start, the latency that the door adds, and its requests a second beside nginx.

bin/bench serve [--starts 15] [--rounds 40] [--seconds 5]. The whole platform by bin/start; a small program is the
service. A cold start counts from the request at zero until the program has it, less the time from the program's first
line until it listens. Latency is of 50 requests in flight, each of which takes the program 200 ms, direct and by the
door in turns. Requests a second by wrk, and nginx in front of the same program, where both are installed. Exits 1 where
a goal is missed.
"""

import argparse
import asyncio
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.shared.waiting import wait
from bench.stack import Stack, free_port, running_stack

START_P50_MS, START_P95_MS, ADDED_P50_MS, ADDED_P99_MS, OF_NGINX = 1500, 3000, 4, 25, 0.15
AT_ONCE, TAKES_S = 50, 0.2
SAID_S, ROUTED_S, LOOK_S = 0.3, 1.2, 0.2
"""Gateways say a moment later that a request has ended, and go by the replicas that they read a second ago."""
PORT = 8000
PROGRAM = f"""
import time
began = time.time()
import asyncio, os
class Answer(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.heard = transport, b""
    def data_received(self, data):
        got, self.heard = time.time(), self.heard + data
        while b"\\r\\n\\r\\n" in self.heard:
            head, _, self.heard = self.heard.partition(b"\\r\\n\\r\\n")
            words = f"{{began}} {{ready}} {{got}}".encode()
            whole = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(words), words)
            if b" /slow " in head.split(b"\\r\\n")[0]:
                loop.call_later({TAKES_S}, self.transport.write, whole)
            else:
                self.transport.write(whole)
loop = asyncio.new_event_loop()
loop.run_until_complete(loop.create_server(Answer, "127.0.0.1", int(os.environ["TESSERA_PORT_{PORT}"])))
ready = time.time()
loop.run_forever()
"""
FILE = f"""kind: service
name: echo
gpu: 1/4
run: |
  exec python3 -c '{PROGRAM.strip().replace(chr(10), chr(10) + "  ")}'
serve: {{port: {PORT}, replicas: 0..1, target: 1000, idle: 30m, access: key}}
"""


@dataclass(frozen=True)
class Way:
    """How the program is reached. headers: of each request."""

    url: str
    headers: dict[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench serve", description=__doc__)
    parser.add_argument("--starts", type=int, default=15, help="at least 1")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=5)
    asked = parser.parse_args()
    # In a network of its own the program could not be asked beside the door.
    with running_stack(notebooks=False, variables={"TESSERA_TASK_NETWORKS": "0"}) as stack:
        service = stack.api("POST", "/services", {"job_file": FILE})
        key = stack.api("POST", f"/services/{service['id']}/keys", {"name": "bench"})["secret"]
        door = Way(f"{stack.url}/-/{service['team']}/{service['name']}", {"Authorization": f"Bearer {key}"})
        try:
            starts = [start_cold(stack, service["id"], door) for _ in range(asked.starts + 1)][1:]
            ways = {"direct": Way(find_program(stack, service["id"]), {}), "door": door}
            took = asyncio.run(compare_latency(ways, asked.rounds))
            rates = compare_rates(ways, asked.seconds)
        finally:
            stack.api("DELETE", f"/services/{service['id']}")
    return report(starts, took, rates)


# ---- cold starts ----


def start_cold(stack: Stack, service: str, door: Way) -> float:
    """Return the platform's share of one, in milliseconds."""
    time.sleep(SAID_S)
    stack.api("POST", f"/services/{service}:sleep")
    wait(lambda: stack.api("GET", f"/services/{service}")["state"] == "asleep", 120, "It does not fall asleep.", LOOK_S)
    time.sleep(ROUTED_S)
    sent = time.time()
    began, ready, got = map(float, ask(door).split())
    return 1000 * ((got - sent) - (ready - began))


def ask(way: Way) -> str:
    request = urllib.request.Request(f"{way.url}/", headers=way.headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def find_program(stack: Stack, service: str) -> str:
    """Return where the program itself listens."""
    (replica,) = (
        one for one in stack.api("GET", f"/services/{service}")["replicas"] if one["ready"] and not one["draining"]
    )
    (task,) = stack.api("GET", f"/jobs/{replica['job']}")["tasks"]
    return f"http://127.0.0.1:{task['ports'][str(PORT)]}"


# ---- latency ----


async def compare_latency(ways: dict[str, Way], rounds: int) -> dict[str, list[float]]:
    """Return milliseconds of each request beyond what the program takes."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for turn in range(8):
            name = list(ways)[turn % 2]
            some = await asyncio.gather(*(say(session, ways[name], max(1, rounds // 4), n) for n in range(AT_ONCE)))
            took[name] += [one for many in some for one in many]
    return took


async def say(session: aiohttp.ClientSession, way: Way, rounds: int, number: int) -> list[float]:
    await asyncio.sleep(TAKES_S * number / AT_ONCE)  # people do not ask in step
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        async with session.get(f"{way.url}/slow", headers=way.headers) as answer:
            assert answer.status == 200, answer.status
            await answer.read()
        took.append(1000 * (time.perf_counter() - began - TAKES_S))
    return took


# ---- requests a second ----


def compare_rates(ways: dict[str, Way], seconds: int) -> dict[str, list[float]]:
    """Return requests a second by way, three times each in turns; nothing without wrk or nginx."""
    if shutil.which("wrk") is None or shutil.which("nginx") is None:
        print("requests a second: not measured, for wrk or nginx is not installed")
        return {}
    with proxying(ways["direct"].url) as proxied:
        compared = {**ways, "nginx": Way(proxied, {})}
        rates: dict[str, list[float]] = {name: [] for name in compared}
        for _ in range(3):
            for name, way in compared.items():
                rates[name].append(count_rate(way, seconds))
    return rates


def count_rate(way: Way, seconds: int) -> float:
    headers = [word for name, value in way.headers.items() for word in ("-H", f"{name}: {value}")]
    command = ["wrk", "-t1", f"-c{AT_ONCE}", f"-d{seconds}s", *headers, f"{way.url}/"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in said, said
    found = re.search(r"Requests/sec:\s*([0-9.]+)", said)
    assert found, said
    return float(found[1])


@contextmanager
def proxying(url: str) -> Iterator[str]:
    """nginx with one worker in front of a program."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="tessera-nginx-") as folder:
        config = Path(folder, "nginx.conf")
        config.write_text(
            f"""daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  upstream program {{ server {url.removeprefix("http://")}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://program; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
"""
        )
        process = subprocess.Popen(["nginx", "-c", str(config), "-p", folder], stderr=subprocess.DEVNULL)
        try:
            proxied = Way(f"http://127.0.0.1:{port}", {})
            wait(lambda: _answers(proxied), 10, "nginx does not answer.", LOOK_S)
            yield proxied.url
        finally:
            process.terminate()
            process.wait()


def _answers(way: Way) -> bool:
    try:
        return bool(ask(way))
    except OSError:
        return False


# ---- the report ----


def report(starts: list[float], took: dict[str, list[float]], rates: dict[str, list[float]]) -> int:
    """Print the figures. Returns 1 where a goal is missed."""
    several = starts if len(starts) > 1 else [*starts, *starts]
    p50, p95 = statistics.median(starts), statistics.quantiles(several, n=20, method="inclusive")[18]
    print(f"cold start, platform's share: p50 {p50:.0f} ms, p95 {p95:.0f} ms of {len(starts)}; goals", end=" ")
    print(f"{START_P50_MS} and {START_P95_MS}")
    middle = {name: statistics.median(values) for name, values in took.items()}
    high = {name: statistics.quantiles(values, n=100)[98] for name, values in took.items()}
    added, added_high = middle["door"] - middle["direct"], high["door"] - high["direct"]
    count = len(took["door"])
    print(f"latency of {AT_ONCE} in flight, {count} requests each way: direct p50 {middle['direct']:.1f} ms,", end=" ")
    print(f"p99 {high['direct']:.1f}; by the door {middle['door']:.1f} and {high['door']:.1f};", end=" ")
    print(f"added {added:.1f} and {added_high:.1f}, goals {ADDED_P50_MS} and {ADDED_P99_MS}")
    missed = p50 > START_P50_MS or p95 > START_P95_MS or added > ADDED_P50_MS or added_high > ADDED_P99_MS
    if rates:
        rate = {name: statistics.median(values) for name, values in rates.items()}
        ratio = rate["door"] / rate["nginx"]
        for name, values in rates.items():
            print(f"requests a second, {name}: {rate[name]:.0f} ({min(values):.0f} to {max(values):.0f})")
        print(f"the door's are {ratio:.2f} of nginx's, goal {OF_NGINX}")
        missed = missed or ratio < OF_NGINX
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
