"""Restore a backup onto an empty installation."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from common.private_file import create_private_file
from config.backup.manifest import Unusable, read_manifest
from config.backup.restore import Wishes, open_secrets, restore_backup
from config.backup.sealing import BadKey, read_private_key


class Command(BaseCommand):
    help = "Restore the backup in FOLDER onto an empty installation, migrate it, and say what ran in between."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, metavar="FOLDER", help="that `backup` made")
        parser.add_argument("--key", type=Path, metavar="FILE", help="the private key of `backup_key`")
        parser.add_argument("--without-secrets", action="store_true", help="go on without the platform's keys")
        parser.add_argument(
            "--database-only", action="store_true", help="logs, code, homes and what runs are still in their places"
        )
        parser.add_argument(
            "--hold-waiting", action="store_true", help="hold all waiting jobs: some may have run since"
        )
        parser.add_argument("--runtime-away", action="store_true", help="the cluster is gone: do not ask what runs")
        parser.add_argument(
            "--secrets-to", type=Path, metavar="FILE", help="only write the key of the platform to a new file"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        wishes = Wishes(**{name: options[name] for name in Wishes.__dataclass_fields__})
        try:
            key = read_private_key(options["key"]) if options["key"] else None
            if options["secrets_to"]:
                secrets = open_secrets(options["folder"], read_manifest(options["folder"]), key, without=False)
                with create_private_file(options["secrets_to"]) as file:
                    file.write(f"TESSERA_SECRET_KEY={secrets['secret_key']}\n")
                self.stdout.write(f"{options['secrets_to']}: set this for every process of the platform.")
                return
            lines = restore_backup(options["folder"], key, wishes)
        except (Unusable, BadKey) as refused:
            raise CommandError(str(refused)) from None
        except OSError as error:
            raise CommandError(f"The backup could not be restored: {error}.") from None
        self.stdout.write("\n".join(lines))
