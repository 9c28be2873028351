"""Write a backup of this installation while it runs."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.backup.backup import make_backup
from config.backup.manifest import Manifest, Unusable
from config.backup.sealing import BadKey, read_public_key

MOST_NAMED = 10


class Command(BaseCommand):
    help = "Write database, logs, code, homes and sealed secrets into a new folder below FOLDER. Jobs go on meanwhile."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, metavar="FOLDER", help="on another disk than the platform's")
        parser.add_argument(
            "--homes",
            choices=["copy", "reference"],
            default="copy",
            help="reference: homes and team folders are on storage that is backed up by itself; they are only listed",
        )
        secrets = parser.add_mutually_exclusive_group(required=True)
        secrets.add_argument("--key", type=Path, metavar="FILE", help="the public key of `backup_key`")
        secrets.add_argument("--without-secrets", action="store_true", help="leave the platform's keys out")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            key = read_public_key(options["key"]) if options["key"] else None
            made, manifest = make_backup(options["folder"].absolute(), key, copies_homes=options["homes"] == "copy")
        except (Unusable, BadKey) as refused:
            raise CommandError(str(refused)) from None
        except OSError as error:
            raise CommandError(
                f"The backup could not be written: {error}. Nothing of it is left.\n"
                "  Free some space there, or name another folder."
            ) from None
        self.stdout.write("\n".join(describe(manifest)))
        self.stdout.write(str(made))


def describe(manifest: Manifest) -> list[str]:
    """Return what is in a backup, a line each."""
    rows, size = manifest.rows, sum(part.bytes for part in manifest.parts.values())
    files = sum(part.files for part in manifest.parts.values())
    lines = [
        f"As of {manifest.made_at}: {rows['jobs_job']} jobs ({len(manifest.running)} tasks running), "
        f"{rows['accounts_user']} people, {rows['accounts_team']} teams, {rows['events_event']} events; "
        f"{files} files, {size / 1e6:.1f} MB.",
    ]
    if manifest.homes == "reference":
        lines.append(f"Homes and team folders are not in it: {len(manifest.areas)} of them, in {manifest.files_root}.")
    if not manifest.sealed:
        lines.append("The platform's keys are not in it: a restore asks for registry passwords anew.")
    if manifest.missing:
        lines.append(f"The database names {len(manifest.missing)} files that are not there:")
        lines += [f"  {what}" for what in manifest.missing[:MOST_NAMED]]
        lines += ["  ... all of them are in its manifest.json"] if len(manifest.missing) > MOST_NAMED else []
    return lines
