"""Make one version of a dataset. The platform starts it; people ask for versions by page, REST or command."""

import os

from django.core.management.base import BaseCommand, CommandParser

from datasets.making import make_version

NICE = 10  # jobs and pages go first


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("version", type=int)
        parser.add_argument("holder")

    def handle(self, *args: object, **options: str) -> None:
        os.nice(NICE)
        make_version(int(options["version"]), options["holder"])
