"""kill -9 at random of web, worker, beat, Valkey and PostgreSQL while 200 short jobs run.

bin/bench faults [--jobs 200] [--seed 1] [--no-monitoring]. Every job must end exactly once with its own exit code, and
no process of a job may be left over. --no-monitoring: all tables of monitoring are gone meanwhile, so that whatever
takes, keeps or judges samples fails. Bounded: it stops by itself, and it signals only what its own platform started.
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
from pathlib import Path

from bench.stack import Stack, running_stack

VICTIMS = ("web", "worker", "beat", "valkey", "postgres")
KILL_EVERY_S = (1.5, 4.0)
END_WITHIN_S = 420
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench faults", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-monitoring", action="store_true")
    options = parser.parse_args()
    mark = f"{os.getpid()}-{options.seed}"
    with running_stack(variables=ONE_IS_MANY) as stack:
        lift_limits(stack)
        if options.no_monitoring:
            stack.manage("shell", "-v", "0", "-c", BREAK_MONITORING)
        killer = Killer(stack, random.Random(options.seed))
        killer.start()
        wanted = submit_all(stack, options.jobs, mark)
        calm_after = time.monotonic() + 60
        ended = wait_for_all(stack, wanted, killer, calm_after)
        killer.stop()
        problems = judge(stack, wanted, ended, mark)
        print(f"killed: {dict(killer.killed)}; ended: {dict(Counter(job['state'] for job in ended.values()))}")
    for problem in problems:
        print("PROBLEM", problem)
    print(f"{len(wanted) - len(problems)} of {len(wanted)} jobs ended exactly once with the right exit code")
    return 1 if problems else 0


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


def submit_all(stack: Stack, count: int, mark: str) -> dict[str, int]:
    """{job id: the exit code that it must have}. A submit whose answer is lost is sent again with the same key."""
    wanted = {}
    for number in range(count):
        code = number % 4
        body = {
            "name": f"fault {number}",
            "run": f"sleep 0.{number % 7}; exit {code}",
            "gpu": ("1/8", 0)[number % 2],
            "cpu": "100m",
            "memory": "128MiB",
            "env": {MARK: mark},
            "retry": 0,
        }
        answer = insist(lambda body=body, number=number: stack.api("POST", "/jobs", body, key=f"fault-{mark}-{number}"))
        wanted[answer["id"]] = code
    return wanted


def insist(call, seconds: float = 60):
    """Call again while the platform does not answer. A 4xx is an answer."""
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (OSError, ValueError, http.client.HTTPException):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def wait_for_all(stack: Stack, wanted: dict[str, int], killer: Killer, calm_after: float) -> dict[str, dict]:
    ended: dict[str, dict] = {}
    until = time.monotonic() + END_WITHIN_S
    while len(ended) < len(wanted) and time.monotonic() < until:
        if time.monotonic() > calm_after:
            killer.over.set()
        for job in [job for job in wanted if job not in ended][:40]:
            found = insist(lambda job=job: stack.api("GET", f"/jobs/{job}"))
            if found["state"] in FINAL:
                ended[job] = found
        time.sleep(0.3)
    return ended


def judge(stack: Stack, wanted: dict[str, int], ended: dict[str, dict], mark: str) -> list[str]:
    problems = [f"{job} never ended" for job in wanted if job not in ended]
    for job, found in ended.items():
        if found["exit_code"] != wanted[job]:
            problems.append(f"{job}: exit code {found['exit_code']}, not {wanted[job]} ({found['reason']})")
        events = insist(lambda job=job: stack.api("GET", f"/jobs/{job}/events?limit=500"))["results"]
        ends = [e for e in events if e["kind"] == "task" and e["to_state"] in {"succeeded", "failed", "stopped"}]
        if len(ends) != 1:
            problems.append(f"{job} ended {len(ends)} times")
    if left := left_over(mark):
        problems.append(f"processes left over: {left}")
    listed = insist(lambda: stack.api("GET", "/jobs?limit=500"))["results"]
    if len(listed) != len(wanted):
        problems.append(f"{len(listed)} jobs are listed, {len(wanted)} were submitted")
    return problems


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
