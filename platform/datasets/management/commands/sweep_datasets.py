"""Remove the files of versions that were deleted a week ago, and what no version has. The platform starts it."""

import os

from django.core.management.base import BaseCommand

from datasets.making import sweep_versions

NICE = 19  # anything else goes first


class Command(BaseCommand):
    help = __doc__

    def handle(self, *args: object, **options: object) -> None:
        os.nice(NICE)
        sweep_versions()
