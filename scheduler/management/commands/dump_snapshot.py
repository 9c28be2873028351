"""Write the scheduler's input as it is now and the plan that comes of it, so that a wrong plan can become a test."""

import json
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from scheduler.core.cycle import run_cycle
from scheduler.core.dump import Dump, dump, without_names
from scheduler.snapshots import load_world


class Command(BaseCommand):
    help = "Dump the scheduler's snapshot, its policy and the plan that it makes of them as JSON, without names."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--names", action="store_true", help="with the names of machines, pools and teams")

    def handle(self, *args: Any, names: bool, **options: Any) -> None:
        world, now = load_world(), time.time()
        snapshot = world.snapshot if names else without_names(world.snapshot)
        plan = run_cycle(snapshot, world.policy, now)
        self.stdout.write(json.dumps(dump(Dump(now, snapshot, world.policy, plan), names=names), indent=1))
