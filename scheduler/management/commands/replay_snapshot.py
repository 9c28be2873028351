"""Plan a dumped snapshot again and compare with the recorded plan."""

import json
from argparse import ArgumentTypeError
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.core.cycle import run_cycle
from scheduler.core.cycle_dump import CycleDump, InvalidDump, decode_dump, encode_value
from scheduler.core.model.demand import build_demand
from scheduler.core.model.lending import find_reach_at
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Placement, Plan, Policy, Refusal, TaskPlacement, WaitingJob
from scheduler.core.placement.scores import score_nodes
from scheduler.core.placement.shortfall import find_emptying_filter

KINDS: dict[Any, type] = {float: float, float | None: float, int: int, bool: bool}
SETTABLE = {field.name: KINDS[field.type] for field in fields(Policy) if field.type in KINDS}
WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
FIRST = 20
"""How many waiting jobs are printed by default."""


class Command(BaseCommand):
    help = (
        "Run the scheduler's cycle on a file of dump_snapshot, print its plan, and say whether it is the recorded one. "
        "Exits with 1 where it is another."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--policy",
            type=_setting,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=f"in every pool another value of {', '.join(SETTABLE)}; may be said more than once",
        )
        parser.add_argument("--explain", type=int, metavar="JOB", help="tell all that is known of one job")
        parser.add_argument("--all", action="store_true", help=f"all that wait, not only the first {FIRST}")

    def handle(self, *args: Any, file: Path, policy: list, explain: int | None, **options: Any) -> None:
        then = self._load(file)
        changed = _with_settings(then.policy, dict(policy))
        plan = run_cycle(then.snapshot, changed, then.at)
        if explain is not None:
            self._explain(then, plan, explain)
            return
        self._print(plan, then.snapshot, None if options["all"] else FIRST)
        differ = differences(then.plan, plan)
        if not differ:
            self.stdout.write("The plan is the recorded one.")
            return
        self.stdout.write("The plan is not the recorded one:")
        self.stdout.write("\n".join(f"  {line}" for line in differ))
        if not policy:
            raise CommandError("The same snapshot gave another plan.")

    def _load(self, file: Path) -> CycleDump:
        try:
            return decode_dump(json.loads(file.read_text()))
        except (OSError, InvalidDump, json.JSONDecodeError) as wrong:
            raise CommandError(f"{file}: {wrong}") from wrong

    def _print(self, plan: Plan, snapshot: Snapshot, most: int | None) -> None:
        for start in plan.starts:
            self.stdout.write(f"job {start.job} starts: {_places(start, snapshot)}")
        for stop in plan.evictions:
            whom = "" if stop.to is None else f" for job {stop.to}"
            self.stdout.write(f"job {stop.job} is stopped{whom}: {stop.reason}")
        line = sorted(plan.positions, key=lambda job: plan.positions[job])
        for job in line[:most]:
            place, of = plan.positions[job]
            said = "; ".join(map(_show_refusal, plan.refusals[job]))
            self.stdout.write(f"job {job} waits, {place} of {of}: {said}")
        if most is not None and len(line) > most:
            self.stdout.write(f"and {len(line) - most} more wait")

    def _explain(self, then: CycleDump, plan: Plan, number: int) -> None:
        job = next((job for job in then.snapshot.waiting if job.job == number), None)
        if job is None:
            raise CommandError(f"No job {number} waits in this snapshot.")
        for name, value in encode_value(job).items():
            self.stdout.write(f"{name}: {json.dumps(value)}")
        for start in plan.starts:
            if start.job == number:
                self.stdout.write(f"It starts: {_places(start, then.snapshot)}")
        for refusal in plan.refusals.get(number, ()):
            self.stdout.write(f"It waits: {_show_refusal(refusal)}")
        if number in plan.reserved_at:
            self.stdout.write(f"A place is kept for it in {plan.reserved_at[number] - then.at:.0f} s at the latest.")
        for stop in plan.evictions:
            if stop.to == number:
                self.stdout.write(f"Job {stop.job} is stopped for it: {stop.reason}")
        self._print_machines(then.snapshot, job, then.at)

    def _print_machines(self, snapshot: Snapshot, job: WaitingJob, now: float) -> None:
        """Print where a task of each role would fit, or the filter that excludes all."""
        world = snapshot.copy()
        world.open_windows_at(now)
        demand = build_demand(world, job.gang, job.pool, find_reach_at(world, job, now))
        for role, kinds in zip(job.gang, demand.kinds, strict=True):
            request = RequestClass(role.ask, job.pool, kinds, demand.reach)
            left = world.nodes[score_nodes(world, request, world.nodes) > -np.inf]
            there = ", ".join(world.node_name(node) for node in left[:FIRST].tolist())
            fits = f"fits now on {len(left)} machines: {there}"
            if not len(left):
                fits = f"fits on no machine now: {find_emptying_filter(world, request)}"
            self.stdout.write(f"One {role.name} {fits}")


def differences(then: Plan, now: Plan) -> list[str]:
    """Return a line per difference of two plans."""
    return [
        f"{part}, {key}: {json.dumps(was)} was, {json.dumps(is_now)} is"
        for part in (field.name for field in fields(Plan))
        for key, was, is_now in _unlike(
            _by_job(encode_value(getattr(then, part))), _by_job(encode_value(getattr(now, part)))
        )
    ]


def _unlike(then: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    keys = dict.fromkeys((*then, *now))
    return [(key, then.get(key), now.get(key)) for key in keys if then.get(key) != now.get(key)]


def _by_job(part: Any) -> dict[str, Any]:
    found = part if isinstance(part, dict) else {str(one["job"]): one for one in part}
    order = {} if isinstance(part, dict) else {"order": [one["job"] for one in part]}
    return json.loads(json.dumps({**found, **order}))


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if name not in SETTABLE:
        raise ArgumentTypeError(f"{name} is none of {', '.join(SETTABLE)}")
    try:
        return name, WORDS[value.lower()] if SETTABLE[name] is bool else SETTABLE[name](value)
    except (KeyError, ValueError):
        raise ArgumentTypeError(f"{name}: {value!r} is no {SETTABLE[name].__name__}") from None


def _with_settings(policy: Policy, settings: dict[str, Any]) -> Policy:
    pools = tuple(replace(pool, **settings) for pool in policy.pools)
    return replace(policy, pools=pools, **settings)


def _places(start: Placement, snapshot: Snapshot) -> str:
    return ", ".join(_place(task, snapshot) for task in start.tasks)


def _place(task: TaskPlacement, snapshot: Snapshot) -> str:
    cards = " ".join(str(card.gpu) for card in task.cards)
    return f"{task.role} {task.rank} on {snapshot.node_name(task.node)}" + (f" (cards {cards})" if cards else "")


def _show_refusal(refusal: Refusal) -> str:
    return f"{refusal.reason} {json.dumps(encode_value(refusal.params))}" if refusal.params else refusal.reason
