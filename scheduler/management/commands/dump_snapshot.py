"""Write the scheduler's input and plan as JSON, to reproduce wrong plans in tests."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from common.steady_clock import steady_time
from scheduler.core.cycle import run_cycle
from scheduler.core.cycle_dump import CycleDump, encode_dump, strip_names
from scheduler.loading.snapshots import load_world


class Command(BaseCommand):
    help = "Dump the scheduler's snapshot, its policy and the plan that it makes of them as JSON, without names."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--names", action="store_true", help="with the names of machines, pools and teams")

    def handle(self, *args: Any, names: bool, **options: Any) -> None:
        world, now = load_world(), steady_time()
        snapshot = world.snapshot if names else strip_names(world.snapshot)
        plan = run_cycle(snapshot, world.policy, now)
        self.stdout.write(json.dumps(encode_dump(CycleDump(now, snapshot, world.policy, plan), names=names), indent=1))
