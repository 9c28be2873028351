"""Make the first team and admin where there are none, and print what a person needs as JSON."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from accounts.services import make_login_link
from scheduler.first_run import notes, prepare, submit_demo


class Command(BaseCommand):
    help = "Prepare a fresh installation."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--demo", action="store_true", help="submit the demo job")
        parser.add_argument("--demo-if-new", action="store_true", help="submit it only on the very first start")

    def handle(self, *args: Any, **options: Any) -> None:
        admin, fresh = prepare()
        wants_demo = options["demo"] or (options["demo_if_new"] and fresh)
        # Until the admin has chosen a password each start prints a link: a lost terminal must not lock the house.
        link = make_login_link(user=admin) if fresh or not admin.has_usable_password() else None
        job = submit_demo(admin) if wants_demo else None
        said = {"login_link": link, "demo_job": job.public_id if job else None, "new": fresh, "notes": notes()}
        self.stdout.write(json.dumps(said))
