"""What samples cost a machine: the agent beside 8 doubled cards and 20 tasks, and the shim of each task.

bin/bench agent [--seconds 10] [--rounds 3] [--tasks 4]. One agent that sends no ticks and one that sends a tick each
second run in turns; their difference is what a tick costs. A backlog is what waits while the platform is away for half
an hour. Medians, and the least and most; exits 1 where a goal is missed. Needs gcc.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

from agent.client import PlatformUnavailable
from agent.daemon.sample_sender import KEPT_S, SampleSender
from agent.state import Identity
from runtimes.local.processes import is_shim, list_processes
from tests.runtimes.worlds import LocalWorld

ROOT = Path(__file__).resolve().parents[1]
CARDS, TASKS = 8, 20
EVERY_S = 10
AGENT_PERCENT, MORE_MIB, TICK_BYTES, SHIM_PERCENT = 1.0, 12, 6 * 1024, 0.1
NEVER_S = 600
FLAGS = ["-std=c11", "-O1", "-fPIC", "-shared", "-Wl,-soname,libnvidia-ml.so.1"]
GROUP = {
    "cpu.stat": "usage_usec 812345678901\nuser_usec 800000000000\nsystem_usec 12345678901\n",
    "memory.current": "21474836480\n",
    "memory.peak": "32212254720\n",
    "memory.stat": "".join(f"{name} 1073741824\n" for name in ("anon", "file", "kernel", "shmem", "inactive_file")),
    "io.stat": "8:0 rbytes=104857600000 wbytes=409600000000 rios=2 wios=1 dbytes=0 dios=0\n",
    "cgroup.procs": "",
}


class Stub(BaseHTTPRequestHandler):
    """A platform that takes everything. pace_s: between two ticks. bodies: what came."""

    protocol_version = "HTTP/1.1"
    pace_s = NEVER_S
    bodies: list[bytes] = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = {"node": "g1", "held_back": [], "next_in_s": 600, "every_s": self.pace_s}
        said |= {"logs": [], "pause_s": 600, "ask_every_s": 600}
        if self.path.endswith(":samples"):
            self.bodies.append(body)
        answer = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench agent", description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=4, help="whose shims are looked at")
    parser.add_argument("--backlog", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.backlog:
        print(measure_backlog(json.load(sys.stdin)))
        return 0
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return max(
        bench_agent(options.seconds, options.rounds), bench_shims(options.seconds, options.rounds, options.tasks)
    )


def bench_agent(seconds: int, rounds: int) -> int:
    """Compare an agent that sends no ticks with one that sends one each second."""
    quiet, a_tick, whole = [], [], []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        words, environment = make_node(folder, stack), build_double(folder)
        without, _ = stack.enter_context(running_agent(folder / "without", words, environment, NEVER_S))
        agent, bodies = stack.enter_context(running_agent(folder / "with", words, environment, 1))
        time.sleep(5)
        for _ in range(rounds):
            before = len(bodies)
            least, most = measure_cpu([without, agent], seconds)
            quiet.append(100 * least)
            a_tick.append(1000 * seconds * (most - least) / (len(bodies) - before))
            whole.append(100 * (least + a_tick[-1] / 1000 / EVERY_S))
        more_mib = read_rss_mib(agent) - read_rss_mib(without)
        tick = json.loads(gzip.decompress(bodies[-1]))["ticks"][0]
    backlog = [sys.executable, "-m", "bench.agent", "--backlog"]
    done = subprocess.run(backlog, input=json.dumps(tick), check=True, text=True, capture_output=True)
    more_mib += float(done.stdout)
    say("agent without ticks, % of a core", quiet)
    say("a tick, ms of CPU", a_tick)
    return max(
        judge(f"agent with a tick each {EVERY_S} s, % of a core", whole, AGENT_PERCENT),
        judge("bytes of a body of one tick", [len(body) for body in bodies], TICK_BYTES),
        judge("more memory, MiB: ticks, and a backlog of half an hour", [more_mib], MORE_MIB),
    )


def bench_shims(seconds: int, rounds: int, tasks: int) -> int:
    """Look at the shims of tasks that sleep."""
    world = LocalWorld()
    try:
        specs = [world.spec("sleep 600", cpu_milli=100, grace_s=1) for _ in range(tasks)]
        for spec in specs:
            world.runtime.start(spec)
            world.until(spec.uuid, "running")
        paths = [str(world.task(spec.uuid).path) for spec in specs]
        pids = [next(p.pid for p in list_processes() if is_shim(p.pid, path)) for path in paths]
        time.sleep(5)
        shares = [statistics.mean(measure_cpu(pids, seconds)) for _ in range(rounds)]
        return judge("shim of a task, % of a core", [100 * share for share in shares], SHIM_PERCENT)
    finally:
        world.close()


def make_node(folder: Path, stack: ExitStack) -> list[str]:
    """Make pods with groups of their own, each with a real process; return the agent's words for them."""
    cgroups, logs = folder / "cgroup", folder / "pods"
    for _ in range(TASKS):
        uid, task = str(uuid4()), uuid4().hex
        process = stack.enter_context(subprocess.Popen(["sleep", "3600"]))
        stack.callback(process.kill)
        (logs / f"tessera-team-7_t-{task}_{uid}" / "main").mkdir(parents=True)
        pod = cgroups / f"kubepods/burstable/pod{uid}"
        (pod / "container").mkdir(parents=True)
        for name, text in GROUP.items():
            (pod / name).write_text(text)
        (pod / "container/cgroup.procs").write_text(f"{process.pid}\n")
    (cgroups / "cgroup.controllers").write_text("cpu io memory pids\n")
    return ["--pods", str(logs), "--cgroups", str(cgroups)]


def build_double(folder: Path) -> dict[str, str]:
    """Build a libnvidia-ml with eight cards; return the environment that finds it."""
    source, library = ROOT / "tests/agent/double_nvml.c", folder / "lib/libnvidia-ml.so.1"
    library.parent.mkdir()
    subprocess.run(["gcc", *FLAGS, str(source), "-o", str(library)], check=True)
    (folder / "cards").write_text("".join(f"gpm {place} 60\n" for place in range(CARDS)))  # as from Hopper on
    known = {"LD_LIBRARY_PATH": str(library.parent), "NVML_DOUBLE": str(folder / "cards")}
    return {**os.environ, **known, "TESSERA_AGENT_TOKEN": "ten_bench"}


@contextmanager
def running_agent(
    state: Path, words: list[str], environment: dict[str, str], pace_s: float
) -> Iterator[tuple[int, list[bytes]]]:
    """Run an agent beside a platform of its own; yield its pid, and the bodies of samples that it sends."""
    bodies: list[bytes] = []
    stub = type("Stub", (Stub,), {"pace_s": pace_s, "bodies": bodies})
    server = ThreadingHTTPServer(("127.0.0.1", 0), stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [sys.executable, "-m", "agent", "--server", f"http://127.0.0.1:{server.server_port}"]
    agent = subprocess.Popen([*command, "--state", str(state), *words], env=environment, stderr=subprocess.DEVNULL)
    try:
        yield agent.pid, bodies
    finally:
        agent.kill()
        agent.wait()
        server.shutdown()


def measure_cpu(pids: list[int], seconds: int) -> list[float]:
    """Return which part of a core each process takes meanwhile."""
    began, before = time.monotonic(), [read_cpu_s(pid) for pid in pids]
    time.sleep(seconds)
    after, took = [read_cpu_s(pid) for pid in pids], time.monotonic() - began
    return [(late - early) / took for early, late in zip(before, after, strict=True)]


def read_cpu_s(pid: int) -> float:
    """Read the scheduler's own count, in nanoseconds: a tick of the clock would be too coarse."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def read_rss_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Away:
    def send_samples(self, *_):
        raise PlatformUnavailable("away")


class Waiting:
    """A meter of copies of one tick."""

    run = "bench"

    def __init__(self, tick: dict, clock: Callable[[], float]):
        self.tick, self.clock = json.dumps(tick), clock

    def take(self) -> tuple[float, dict]:
        return self.clock(), json.loads(self.tick)


def measure_backlog(tick: dict) -> float:
    """Return by how many MiB a process grows while ticks of half an hour wait."""
    now = [0.0]
    meter = Waiting(tick, lambda: now[0])
    sender = SampleSender(Away(), lambda: Identity("server", "key", "g1"), meter, lambda: now[0])
    sender.run_once()
    before = read_rss_mib(os.getpid())
    for _ in range(KEPT_S // EVERY_S):
        now[0] += EVERY_S
        sender.run_once()
    return read_rss_mib(os.getpid()) - before


def say(what: str, values: list[float], goal: str = "") -> None:
    middle, spread = statistics.median(values), f"{min(values):.2f} to {max(values):.2f}"
    print(f"{what}: {middle:.2f} ({spread}){goal}")


def judge(what: str, values: list[float], most: float) -> int:
    """Print a figure beside its goal; 1 if it is missed."""
    missed = statistics.median(values) > most
    say(what, values, f", goal {most}{': MISSED' if missed else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
