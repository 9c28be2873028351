"""kill -9 at random of web, worker, beat, Valkey and PostgreSQL while 200 short jobs run.

bin/bench faults [--jobs 200] [--seed 1] [--no-monitoring] [--chains 20]. Every job must end exactly once with its own
exit code, and no process of a job may be left over. --no-monitoring: all tables of monitoring are gone meanwhile, so
that whatever takes, keeps or judges samples fails. --chains: the jobs are so many chains by `after`, some links of
which lead to another chain; none may start before those have ended that it comes after, and one that can never start
must be cancelled. Bounded: it stops by itself, and it signals only what its own platform started.
"""

import argparse
import http.client
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from bench.stack import Stack, running_stack

VICTIMS = ("web", "worker", "beat", "valkey", "postgres")
KILL_EVERY_S = (1.5, 4.0)
END_WITHIN_S, CHAINED_S = 420, 1.2
"""For all jobs; with chains so much more for each job."""
CALM_AFTER_S, CHAINS_CALM_AFTER_S = 60, 300
JOINED, FAILS = 0.1, 0.1
"""Which part of the jobs of chains comes after one of another chain, too; which part fails."""
FINAL = {"succeeded", "failed", "cancelled"}
ONE_IS_MANY = {"TESSERA_RATE_CALLS": "0", "TESSERA_RATE_SUBMITS": "0"}
"""One person submits and asks here as many would."""
BREAK_MONITORING = """
from django.apps import apps
from django.db import connection
with connection.cursor() as cursor:
    for model in apps.get_app_config("monitoring").get_models():
        cursor.execute(f"ALTER TABLE {model._meta.db_table} RENAME TO broken_{model._meta.db_table}")
"""
MARK = "FAULTS_RUN"

Links = list[dict[int, str]]
"""For each job by number those that it comes after, each with the end that it must come to."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench faults", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-monitoring", action="store_true")
    parser.add_argument("--chains", type=int, default=0, metavar="N")
    options = parser.parse_args()
    mark = f"{os.getpid()}-{options.seed}"
    codes, links = draw_jobs(options.jobs, options.chains, random.Random(options.seed))
    within_s = END_WITHIN_S + CHAINED_S * options.jobs * bool(options.chains)
    with running_stack(variables=ONE_IS_MANY) as stack:
        lift_limits(stack)
        if options.no_monitoring:
            stack.manage("shell", "-v", "0", "-c", BREAK_MONITORING)
        killer = Killer(stack, random.Random(options.seed))
        killer.start()
        ids = submit_all(stack, codes, links, mark)
        wanted = dict(zip(ids, foresee_ends(codes, links), strict=True))
        calm_after_s = CHAINS_CALM_AFTER_S if options.chains else CALM_AFTER_S
        ended = wait_for_all(stack, wanted, killer, calm_after_s, within_s)
        killer.stop()
        problems = judge(stack, wanted, ended, mark) + judge_links(ids, links, ended)
        print(f"killed: {dict(killer.killed)}; ended: {dict(Counter(job['state'] for job in ended.values()))}")
    for problem in problems:
        print("PROBLEM", problem)
    print(f"{len(wanted) - len(problems)} of {len(wanted)} jobs ended exactly once with the right exit code")
    if edges := sum(map(len, links)):
        print(f"{edges} links between them, of which {count_held(ids, links, ended)} held up a job that ran")
    return 1 if problems else 0


def draw_jobs(count: int, chains: int, dice: random.Random) -> tuple[list[int], Links]:
    """Return the exit code of each job, and which it comes after."""
    if not chains:
        return [number % 4 for number in range(count)], [{} for _ in range(count)]
    codes = [int(dice.random() < FAILS) for _ in range(count)]
    links: Links = []
    ends: list[int | None] = []
    for number, code in enumerate(codes):
        others = {number - chains} if number >= chains else set[int]()
        if others and dice.random() < JOINED:
            others.add(dice.randrange(number))
        links.append({other: draw_condition(ends[other], dice) for other in sorted(others)})
        ends.append(foresee_end(code, links[-1], ends))
    return codes, links


def draw_condition(end: int | None, dice: random.Random) -> str:
    """Return what a job waits for of one with this end: now and then what never comes."""
    if end is None:
        return "any"
    return dice.choice(["success"] * 5 + ["any"]) if end == 0 else dice.choice(["failure", "any", "any", "success"])


def foresee_ends(codes: list[int], links: Links) -> list[int | None]:
    """Return the exit code that each job must have, None if it is cancelled as it could never start."""
    ends: list[int | None] = []
    for code, after in zip(codes, links, strict=True):
        ends.append(foresee_end(code, after, ends))
    return ends


def foresee_end(code: int, after: dict[int, str], ends: list[int | None]) -> int | None:
    """Return the same of one job, from the ends of those before it."""
    met = all(word == "any" or (word == "success") == (ends[other] == 0) for other, word in after.items())
    return code if met else None


class Killer(threading.Thread):
    """Kills one child of the platform's supervisor now and then."""

    def __init__(self, stack: Stack, dice: random.Random):
        super().__init__(daemon=True)
        self.stack, self.dice, self.killed, self.over = stack, dice, Counter[str](), threading.Event()

    def run(self) -> None:
        while not self.over.wait(self.dice.uniform(*KILL_EVERY_S)):
            name = self.dice.choice(VICTIMS)
            if pid := self.stack.children().get(name):
                try:
                    os.kill(pid, signal.SIGKILL)
                    self.killed[name] += 1
                except ProcessLookupError:
                    pass

    def stop(self) -> None:
        self.over.set()
        self.join(10)


def lift_limits(stack: Stack) -> None:
    code = "from quotas.models import UserLimit; UserLimit.objects.update(jobs_waiting=None)"
    stack.manage("shell", "-v", "0", "-c", code)


def submit_all(stack: Stack, codes: list[int], links: Links, mark: str) -> list[str]:
    """Return the jobs' ids. A submit whose answer is lost is sent again with the same key.

    The first of each chain is held until all are there: one that never starts would be refused, not cancelled.
    """
    ids: list[str] = []
    chained = any(links)
    for number, code in enumerate(codes):
        body = {
            "name": f"fault {number}",
            "run": f"sleep 0.{number % 7}; exit {code}",
            "gpu": ("1/8", 0)[number % 2],
            "cpu": "100m",
            "memory": "128MiB",
            "env": {MARK: mark},
            "retry": 0,
            **({"after": {ids[other]: word for other, word in links[number].items()}} if links[number] else {}),
            "hold": chained and not links[number],
        }
        answer = insist(lambda body=body, number=number: stack.api("POST", "/jobs", body, key=f"fault-{mark}-{number}"))
        ids.append(answer["id"])
    for job in (job for job, after in zip(ids, links, strict=True) if chained and not after):
        insist(lambda job=job: release(stack, job))
    return ids


def release(stack: Stack, job: str) -> None:
    """Release a held job, unless a request did whose answer was lost."""
    if stack.api("GET", f"/jobs/{job}")["held"]:
        stack.api("POST", f"/jobs/{job}:release")


def insist(call, seconds: float = 180):
    """Call again while the platform does not answer. A 4xx is an answer."""
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (OSError, ValueError, http.client.HTTPException):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def wait_for_all(
    stack: Stack, wanted: dict[str, int | None], killer: Killer, calm_after_s: float, within_s: float
) -> dict[str, dict]:
    ended: dict[str, dict] = {}
    calm_after, until = time.monotonic() + calm_after_s, time.monotonic() + within_s
    while len(ended) < len(wanted) and time.monotonic() < until:
        if time.monotonic() > calm_after:
            killer.over.set()
        for job in [job for job in wanted if job not in ended][:40]:
            found = insist(lambda job=job: stack.api("GET", f"/jobs/{job}"))
            if found["state"] in FINAL:
                ended[job] = found
        time.sleep(0.3)
    return ended


def judge(stack: Stack, wanted: dict[str, int | None], ended: dict[str, dict], mark: str) -> list[str]:
    problems = [f"{job} never ended" for job in wanted if job not in ended]
    for job, found in ended.items():
        if wanted[job] is None:
            if (found["state"], found["reason"]) != ("cancelled", "dependency_failed"):
                problems.append(f"{job}: {found['state']} ({found['reason']}), where it could never start")
            continue
        events = insist(lambda job=job: stack.api("GET", f"/jobs/{job}/events?limit=500"))["results"]
        ends = [e for e in events if e["kind"] == "task" and e["to_state"] in {"succeeded", "failed", "stopped"}]
        if found["exit_code"] != wanted[job]:
            told = [e["params"] for e in ends]
            problems.append(f"{job}: exit code {found['exit_code']}, not {wanted[job]} ({found['reason']}; {told})")
        if len(ends) != 1:
            problems.append(f"{job} ended {len(ends)} times")
    if left := left_over(mark):
        problems.append(f"processes left over: {left}")
    listed = count_jobs(stack)
    if listed != len(wanted):
        problems.append(f"{listed} jobs are listed, {len(wanted)} were submitted")
    return problems


def judge_links(ids: list[str], links: Links, ended: dict[str, dict]) -> list[str]:
    """Tell of each job that started before one that it comes after had ended."""
    return [
        f"{ids[number]} started at {started}, before {ids[other]} had ended"
        for number, other, started, end in list_held(ids, links, ended)
        if started < end
    ]


def count_held(ids: list[str], links: Links, ended: dict[str, dict]) -> int:
    return len(list(list_held(ids, links, ended)))


def list_held(ids: list[str], links: Links, ended: dict[str, dict]) -> Iterator[tuple[int, int, datetime, datetime]]:
    """Yield each link of a job that ran: (its number, that of the one before it, when it started, when that ended)."""
    for number, after in enumerate(links):
        started = ended.get(ids[number], {}).get("started_at")
        for other in after if started else ():
            if end := ended.get(ids[other], {}).get("ended_at"):
                yield number, other, datetime.fromisoformat(started), datetime.fromisoformat(end)


def count_jobs(stack: Stack) -> int:
    count, cursor = 0, ""
    while True:
        page = insist(lambda cursor=cursor: stack.api("GET", f"/jobs?limit=500{cursor}"))
        count += len(page["results"])
        if page["next_cursor"] is None:
            return count
        cursor = f"&cursor={page['next_cursor']}"


def left_over(mark: str) -> list[int]:
    """Living processes that carry this run's mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


if __name__ == "__main__":
    sys.exit(main())
