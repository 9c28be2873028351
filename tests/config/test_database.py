"""The connections of the web process, on real PostgreSQL, in a process of their own: the suite itself has no pool."""

import os
import subprocess
import sys

CUT_AND_ASK = """
import django, psycopg
django.setup()
from django.db import connection

def ask():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    connection.close()  # back to the pool, as after a request
    return pid

pooled = {ask() for _ in range(4)}
with psycopg.connect(dbname=connection.settings_dict["NAME"], autocommit=True) as other:
    for pid in pooled:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
again = {ask() for _ in range(4)}
connection.close_pool()
print(len(pooled) > 0 and not again & pooled)
"""


def test_no_request_meets_a_pooled_connection_that_died_with_the_server():
    asked = subprocess.run(
        [sys.executable, "-c", CUT_AND_ASK],
        env={**os.environ, "TESSERA_ROLE": "web", "TESSERA_SECRET_KEY": "of a test"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert asked.stdout.strip() == "True", asked.stderr


ALL_IN_USE = """
import django, psycopg, threading
django.setup()
from django.db import connection, connections
from portal import lanes
from portal.error_pages import find_outage

pool = connection.settings_dict["OPTIONS"]["pool"]
assert lanes.PAGES + lanes.READS + lanes.WRITES < pool["max_size"]
pool.update(min_size=1, max_size=1, timeout=0.2)
connection.ensure_connection()
told = []

def ask():
    try:
        connection.ensure_connection()
    except Exception as error:
        told.append(find_outage(error))

def ask_elsewhere():
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

ask_elsewhere()
connections.settings["default"]["HOST"] = "/nowhere"
ask_elsewhere()
print([(one.code, one.params) for one in told])
connection.close()
connection.close_pool()
"""


def test_a_pool_in_use_is_not_called_a_database_that_is_away():
    asked = subprocess.run(
        [sys.executable, "-c", ALL_IN_USE],
        env={**os.environ, "TESSERA_ROLE": "web", "TESSERA_SECRET_KEY": "of a test"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    busy, away = ("platform_busy", {"retry_after_s": 5}), ("database_away", {"retry_after_s": 10})
    assert asked.stdout.strip() == str([busy, away]), asked.stderr
