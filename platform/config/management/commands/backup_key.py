"""Make the key that opens the secrets of backups."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.backup.sealing import make_key_files


class Command(BaseCommand):
    help = "Write FILE, the private key that opens the secrets of backups, and FILE.pub, by which they are sealed."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            public = make_key_files(options["file"].absolute())
        except FileExistsError as there:
            raise CommandError(
                f"{there.filename} is there already. A key is never replaced: name another file."
            ) from None
        except OSError as error:
            raise CommandError(f"The key could not be written: {error}.") from None
        self.stdout.write(f"{options['file']}: keep it away from this machine; without it a restore has no secrets.")
        self.stdout.write(f"{public}: seals them, and may stay here: backup --key {public} FOLDER")
