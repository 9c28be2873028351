"""The database as a dump of one snapshot, and back."""

import math
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader

from config.backup.manifest import Part, Unusable
from config.backup.trees import HashingWriter
from config.embedded.servers import find_postgres_bin

SESSIONS = ("django_session", "portal_appsession", "portal_appcode")
"""Tables whose keys let whoever reads them in as somebody else. People sign in again."""
COUNTED = (
    "accounts_user",
    "accounts_team",
    "accounts_membership",
    "quotas_quota",
    "jobs_job",
    "jobs_task",
    "events_event",
)
STEP = 1000
GROWTH = 4
"""How many times faster than on average since its beginning an installation may have grown since the backup."""

USED_SEQUENCES = (
    "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
)
VARIABLES = {"NAME": "PGDATABASE", "USER": "PGUSER", "PASSWORD": "PGPASSWORD", "HOST": "PGHOST", "PORT": "PGPORT"}


@contextmanager
def open_snapshot() -> Iterator[tuple[Any, str]]:
    """Hold one snapshot of the database: a cursor that reads in it, and its name for pg_dump."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SELECT pg_export_snapshot()")
        yield cursor, cursor.fetchone()[0]


def dump_database(snapshot: str, target: Path) -> Part:
    """Write a dump of a snapshot. Raises Unusable."""
    left_out = [f"--exclude-table-data={table}" for table in SESSIONS]
    words = ["--format=custom", "--no-owner", "--no-acl", f"--snapshot={snapshot}", *left_out]
    with HashingWriter(target) as writer:
        process = subprocess.Popen(
            _command("pg_dump", *words), env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with process:
            assert process.stdout and process.stderr
            try:
                while block := process.stdout.read(1 << 20):
                    writer.write(block)
            except OSError:
                process.kill()
                raise
            said = process.stderr.read().decode(errors="replace")
        if process.returncode:
            raise Unusable(f"The database could not be dumped: {said.strip()[-1500:]}", "See the lines above.")
        return writer.finish()


def has_rows() -> bool:
    """Return whether somebody has used this database: a migrated one without people is empty."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('accounts_user') IS NOT NULL")
        if not cursor.fetchone()[0]:
            return False
        cursor.execute("SELECT EXISTS (SELECT FROM accounts_user)")
        return cursor.fetchone()[0]


def restore_database(dump: Path) -> None:
    """Fill an empty database from a dump, as a whole or not at all. Raises Unusable."""
    clear_database()
    words = [
        "--exit-on-error",
        "--single-transaction",
        "--no-owner",
        "--no-acl",
        f"--dbname={settings.DATABASES['default']['NAME']}",
    ]
    done = subprocess.run(_command("pg_restore", *words, str(dump)), env=_environment(), capture_output=True, text=True)
    if done.returncode:
        raise Unusable(f"The database could not be filled: {done.stderr.strip()[-1500:]}", "See the lines above.")


def clear_database() -> None:
    """Remove all tables; only for a database that was empty before."""
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE")
        cursor.execute("CREATE SCHEMA public")


def read_migrations(cursor: Any) -> dict[str, list[str]]:
    cursor.execute("SELECT app, array_agg(name ORDER BY name) FROM django_migrations GROUP BY app ORDER BY app")
    return dict(cursor.fetchall())


def list_known_migrations() -> dict[str, set[str]]:
    """Return {app: names} of what this program can have applied, squashed ones and what they replace too."""
    loader = MigrationLoader(None)
    known: dict[str, set[str]] = {}
    names = [*loader.disk_migrations, *(old for one in loader.disk_migrations.values() for old in one.replaces)]
    for app, name in names:
        known.setdefault(app, set()).add(name)
    return known


def count_rows(cursor: Any) -> dict[str, int]:
    """Return {table: how many rows}."""
    cursor.execute(" UNION ALL ".join(f"SELECT '{table}', count(*) FROM {table}" for table in COUNTED))  # noqa: S608
    return dict(cursor.fetchall())


def skip_numbers(made_at: datetime) -> int:
    """Let new rows start beyond all numbers that may have been given since the backup; return the next job's.

    Nothing new takes the number of a job that was made after the backup, which mails, logs and pods still name.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT now(), min(created_at) FROM accounts_team")
        now, began = cursor.fetchone()
        since_s, age_s = ((end - start).total_seconds() for end, start in ((now, made_at), (made_at, began or made_at)))
        cursor.execute(USED_SEQUENCES)
        for name, last in cursor.fetchall():
            cursor.execute("SELECT setval(%s::regclass, %s)", [name, skip_number(last, since_s, age_s)])
        cursor.execute(
            "SELECT coalesce(max(last_value), 0) + 1 FROM pg_sequences WHERE sequencename = 'jobs_job_id_seq'"
        )
        return cursor.fetchone()[0]


def skip_number(last: int, since_s: float, age_s: float) -> int:
    """Return from where to count on (pure): a whole thousand, at least one thousand further."""
    grown = GROWTH * last * max(since_s, 0) / max(age_s, 1)
    return math.ceil((last + max(STEP, grown)) / STEP) * STEP


def _environment() -> dict[str, str]:
    """Return what PostgreSQL's programs connect by: a password does not stand in a command line."""
    told = settings.DATABASES["default"]
    return {**os.environ, **{variable: str(told[key]) for key, variable in VARIABLES.items() if told[key]}}


def _command(name: str, *words: str) -> list[str]:
    return [str(find_postgres_bin() / name), *words]
