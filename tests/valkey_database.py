"""Loaded by pytest before the settings are: each xdist worker has a Valkey database and channel prefix of its own."""

import os

worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
os.environ["TESSERA_VALKEY_DB"] = str(1 + int(worker.removeprefix("gw")))
