"""One migrated database, of which each worker's is a copy: to migrate takes ten seconds of a processor."""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import django
from django.apps import apps
from django.db import connection

from config.embedded.servers import find_postgres_bin

ROOT = Path(__file__).parents[1]
NAME, UNFINISHED = "tests_migrated", "tests_migrating"
KEPT = ROOT / ".pytest_cache/tessera-migrated"


def prepare_migrated_database() -> str:
    """Return its name. The first worker makes it, the next run of the same migrations reads it from a file."""
    with open(Path(os.environ["TESSERA_RUN"]) / f"{NAME}.lock", "wb") as lock, connection._nodb_cursor() as cursor:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cursor.execute("SELECT datname FROM pg_database WHERE datname IN (%s, %s)", [NAME, UNFINISHED])
        found = {name for (name,) in cursor.fetchall()}
        if NAME in found:
            return NAME
        if UNFINISHED in found:
            cursor.execute(f"DROP DATABASE {UNFINISHED}")
        cursor.execute(f"CREATE DATABASE {UNFINISHED}")
        fill(KEPT / f"{identify_migrations()}.sql")
        cursor.execute(f"ALTER DATABASE {UNFINISHED} RENAME TO {NAME}")
    return NAME


def fill(kept: Path) -> None:
    """Read the tables from the file; if it is not there, migrate and write it."""
    if kept.exists():
        run("psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file", str(kept), stdout=subprocess.DEVNULL)
        return
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment(), check=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    for older in kept.parent.glob("*.sql"):
        older.unlink(missing_ok=True)
    being_written = kept.with_suffix(f".{os.getpid()}")
    run("pg_dump", "--file", str(being_written))
    being_written.rename(kept)


def run(program: str, *words: str, **how) -> None:
    subprocess.run([find_postgres_bin() / program, "--no-password", *words], env=environment(), check=True, **how)


def environment() -> dict[str, str]:
    return {**os.environ, "PGDATABASE": UNFINISHED}


def identify_migrations() -> str:
    """Return a digest of all that the migrated rows come of: tables, permissions and types of content."""
    digest = hashlib.sha256(django.__version__.encode())
    for app in apps.get_app_configs():
        for pattern in ("migrations/*.py", "models.py", "models/*.py"):
            for source in sorted(Path(app.path).glob(pattern)):
                digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
