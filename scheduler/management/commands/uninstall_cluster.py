"""Remove this installation from the cluster, without a database but with an administrator's rights."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string

from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import Belonging, Belongings
from scheduler.runtime import get_runtime

LOOK_S = 1.0


class Command(BaseCommand):
    help = "Remove from the cluster what this installation made there, after it has said what that is and asked."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="say what would go, and remove nothing")
        parser.add_argument("--yes", metavar="NAME", help="the installation's name, instead of being asked for it")
        parser.add_argument("--with-files", action="store_true", help="also where people's files may go with it")
        parser.add_argument("--within", type=float, default=300.0, metavar="SECONDS", help="how long it may take (300)")

    def handle(self, *args: Any, **options: Any) -> None:
        runtime = get_runtime()
        if not (dotted := runtime.capabilities.belongings):
            raise CommandError(f"The runtime {runtime.capabilities.name} leaves nothing outside of its data directory.")
        own: Belongings = import_string(dotted)(runtime)
        found = own.list_belongings()
        self.describe(own, found)
        if options["dry_run"] or not found:
            return
        if any(one.risk for one in found) and not options["with_files"]:
            raise CommandError("Nothing was removed. Keep the volumes (reclaim policy Retain), or say --with-files.")
        if (options["yes"] or self.ask(own.name)) != own.name:
            raise CommandError(f"Nothing was removed: that is not {own.name}.")
        self.remove(own, found, options["within"])

    def describe(self, own: Belongings, found: list[Belonging]) -> None:
        if not found:
            self.stdout.write(f"The installation {own.name} has nothing there.")
            return
        self.stdout.write(f"Of the installation {own.name} these would go, with all that is in them:")
        for one in found:
            self.stdout.write(f"  {one.name}: {one.words}")
            if one.risk:
                self.stdout.write(f"    BEWARE: {one.risk}")

    def ask(self, name: str) -> str:
        return input(f"Stop the platform first, or it makes them anew. Type {name} to remove them: ").strip()

    def remove(self, own: Belongings, found: list[Belonging], within_s: float) -> None:
        until, left = time.monotonic() + within_s, found
        while left and time.monotonic() < until:
            try:
                for one in left:
                    own.remove(one)
                time.sleep(LOOK_S)
                left = [one for one in left if not own.is_gone(one)]
            except Unavailable as away:
                self.stderr.write(f"It is asked again: {away}")
                time.sleep(LOOK_S)
        if left:
            names = ", ".join(one.name for one in left)
            raise CommandError(f"Still there after {within_s:.0f} s: {names}. See what holds them, and ask again.")
        self.stdout.write(f"{len(found)} are gone.")
        if again := own.list_belongings():
            raise CommandError(f"{again[0].name} is there anew: the platform still runs. Stop it, and ask again.")
