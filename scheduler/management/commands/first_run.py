"""Create the first team and admin if missing, and print JSON."""

import json
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from accounts.services import make_login_link
from cluster.models import Pool
from scheduler.first_run import notes, prepare, submit_demo

MACHINES_WITHIN_S = 90
"""The beat takes the inventory every 30 s; before the first there is no pool for a quota."""


class Command(BaseCommand):
    help = "Prepare a fresh installation, as soon as a machine was seen."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--demo", action="store_true", help="submit the demo job")
        parser.add_argument("--demo-if-new", action="store_true", help="submit it only on the very first start")

    def handle(self, *args: Any, **options: Any) -> None:
        wait_for_machines()
        admin, fresh = prepare()
        wants_demo = options["demo"] or (options["demo_if_new"] and fresh)
        # A new link each start until the admin has a password: a lost terminal must not lock them out.
        link = make_login_link(user=admin) if fresh or not admin.has_usable_password() else None
        job = submit_demo(admin) if wants_demo else None
        said = {"login_link": link, "demo_job": job.public_id if job else None, "new": fresh, "notes": notes()}
        self.stdout.write(json.dumps(said))


def wait_for_machines() -> None:
    """Wait until a worker reported a node, at most MACHINES_WITHIN_S."""
    until = time.monotonic() + MACHINES_WITHIN_S
    while not Pool.objects.exists() and time.monotonic() < until:
        time.sleep(0.5)
