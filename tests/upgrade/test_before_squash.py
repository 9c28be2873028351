"""A database of the last state with numbered migrations moves over with its jobs, quotas and history.

before_squash.sql is a dump of a real installation of that state (`bin/start --demo-once` on simulated GPUs, then one
row in most tables that were empty).
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from psycopg import sql

ROOT = Path(__file__).resolve().parents[2]
DUMP = Path(__file__).with_name("before_squash.sql")
# Tables that migrate itself writes: its own record, and the names of models and permissions.
WRITTEN_BY_MIGRATE = {"django_migrations", "django_content_type", "auth_permission"}
CASTS = re.compile(r"::(character varying|text)(\[\])?|[()]")  # a dump writes the same condition with other casts
COLUMNS = """SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default
    FROM information_schema.columns WHERE table_schema = 'public'"""
CONSTRAINTS = """SELECT conrelid::regclass::text, contype::text, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'"""
INDEXES = r"""SELECT tablename, regexp_replace(indexdef, 'INDEX \S+ ON', 'INDEX ON') FROM pg_indexes
    WHERE schemaname = 'public'"""


@pytest.fixture
def old_database() -> Iterator[str]:
    """The name of a database that holds the dump."""
    name = f"before_squash_{os.getpid()}"
    with psycopg.connect(dbname="postgres", autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            with psycopg.connect(dbname=name) as database:
                database.execute(DUMP.read_text())
            yield name
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def migrate(database: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-W", "ignore", "manage.py", "migrate", "--no-input"]
    environment = {**os.environ, "PGDATABASE": database}
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True)


def rows_of(database: psycopg.Connection, columns: dict[str, set[str]] | None = None) -> dict[str, list[str]]:
    """{table: rows as JSON}. columns: of these tables and columns only, if given."""
    query = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1"
    tables = [name for (name,) in database.execute(query) if name not in WRITTEN_BY_MIGRATE]
    text, rows = "SELECT to_jsonb(t) FROM {} t", {}
    for table in tables if columns is None else columns:
        found = [row for (row,) in database.execute(sql.SQL(text).format(sql.Identifier(table)))]
        kept = [{name: row[name] for name in row if columns is None or name in columns[table]} for row in found]
        rows[table] = sorted(json.dumps(row, sort_keys=True) for row in kept)
    return rows


def columns_of(rows: dict[str, list[str]]) -> dict[str, set[str]]:
    """Of a table without rows, none."""
    return {table: set(json.loads(found[0])) if found else set() for table, found in rows.items()}


def shape_of(cursor) -> dict[str, set[tuple]]:
    shape = {}
    for name, query in (("columns", COLUMNS), ("constraints", CONSTRAINTS), ("indexes", INDEXES)):
        cursor.execute("SET search_path TO public")
        cursor.execute(query)
        shape[name] = {tuple(CASTS.sub("", str(part)) for part in row) for row in cursor.fetchall()}
    return shape


def test_rows_stay_and_the_shape_is_that_of_a_new_database(db, old_database):
    with psycopg.connect(dbname=old_database) as database:
        before = rows_of(database)
    assert before["jobs_job"] and before["quotas_quota"] and before["events_event"]
    assert before["events_webhook"] and before["events_delivery"]
    done = migrate(old_database)
    assert done.returncode == 0, done.stdout + done.stderr
    with psycopg.connect(dbname=old_database) as database:
        recorded = {app for (app,) in database.execute("SELECT app FROM django_migrations WHERE name = '0001_schema'")}
        assert rows_of(database, columns_of(before)) == before
        moved = shape_of(database.cursor())
    with connection.cursor() as cursor:
        new = shape_of(cursor)
    for part, wanted in new.items():
        assert moved[part] ^ wanted == set(), part
    assert {
        "accounts",
        "cluster",
        "events",
        "jobs",
        "notebooks",
        "portal",
        "quotas",
        "scheduler",
        "webhooks",
    } <= recorded


def test_an_older_state_is_refused_and_not_guessed(old_database):
    """Of a database between two numbered migrations nobody knows the shape."""
    with psycopg.connect(dbname=old_database) as database:
        database.execute("DELETE FROM django_migrations WHERE app = 'cluster' AND name = '0010_pool_allows_mps'")
    done = migrate(old_database)
    assert done.returncode != 0, done.stdout
