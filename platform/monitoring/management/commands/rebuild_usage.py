"""`manage.py rebuild_usage --from 2026-11-01`: sum the days of reports anew from holdings and their uses."""

from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from monitoring.reports.days import rebuild_days


class Command(BaseCommand):
    help = "Sum the days of usage reports anew, from a day on (UTC). Reports go on meanwhile."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="first", required=True, metavar="DAY", help="such as 2026-11-01")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            first = date.fromisoformat(options["first"])
        except ValueError as wrong:
            raise CommandError(f"--from: “{options['first']}” is not a day. Write it as 2026-11-01.") from wrong
        self.stdout.write(f"{rebuild_days(first)} sums of days made.")
