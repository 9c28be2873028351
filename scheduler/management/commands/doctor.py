"""Check this installation and print a remedy for each fault."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.health.installation_checks import run_installation_checks

MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


class Command(BaseCommand):
    help = "Check the database, the loops, the machines' agents and the cluster. Ends with 1 where something is bad."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--probe", action="store_true", help="start a pod that tries what only trying tells")
        parser.add_argument("--json", action="store_true", help="print the findings as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        found = run_installation_checks(probe=options["probe"])
        if options["json"]:
            self.stdout.write(json.dumps([asdict(one) for one in found], indent=2))
        else:
            for one in found:
                self.stdout.write(f"{MARKS[one.tone]}  {one.about:<9}  {one.words} {one.remedy}".rstrip())
        if bad := sum(one.tone == "bad" for one in found):
            raise CommandError(f"{bad} of {len(found)} are bad.")
