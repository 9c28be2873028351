"""Backups of what `bin/start` runs: `tessera backup`, `restore` and `backup-key` on the machine of the platform.

Where PostgreSQL is a server of its own (PGHOST is set), they are `manage.py backup`, `restore` and `backup_key`.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from config.embedded import data_dir
from config.embedded.servers import running_postgres
from config.embedded.supervisor import Failure

ROOT = Path(__file__).resolve().parents[3]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tessera", add_help=False)
    parser.add_argument("command", choices=["backup", "restore", "backup-key"])
    parser.add_argument("--data", type=Path, default=None)
    options, rest = parser.parse_known_args(arguments)
    if options.command == "backup-key" or "--help" in rest or "-h" in rest:
        return manage(options.command, rest, {"TESSERA_ROLE": "command"})
    if options.data is None and "PGHOST" in os.environ:
        return manage(options.command, rest, {"TESSERA_ROLE": "command"})
    data = (options.data or ROOT / ".tessera").resolve()
    try:
        if options.command == "restore":
            return restore(data, rest)
        with serving(data) as environment:
            return manage(options.command, rest, environment)
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1


def manage(command: str, rest: list[str], environment: dict[str, str]) -> int:
    argv = [sys.executable, str(ROOT / "manage.py"), command.replace("-", "_"), *rest]
    return subprocess.run(
        argv, env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", **environment}
    ).returncode


@contextmanager
def serving(data: Path) -> Iterator[dict[str, str]]:
    """Return what finds a data directory's database, which is started if the platform does not run. Raises Failure."""
    if not (data / "postgres").exists():
        raise Failure(f"{data} holds no installation.", "Name its data directory: --data DIR.")
    data_dir.open_data(data)
    run = data_dir.open_run(data)
    environment = {**build_environment(data, run), "TESSERA_SECRET_KEY_FILE": str(data_dir.secret_key_file(data))}
    try:
        lock = data_dir.take_lock(data)
    except Failure:  # it runs
        yield environment
        return
    try:
        with _running_postgres(data / "postgres", run, data):
            yield environment
    finally:
        os.close(lock)


def restore(data: Path, rest: list[str]) -> int:
    """Restore into a data directory without a database, which is there when all else succeeded. Raises Failure."""
    postgres, fresh = data / "postgres", data / "postgres.restored"
    data_dir.open_data(data)
    lock = data_dir.take_lock(data)
    try:
        if postgres.exists():
            raise Failure(
                f"{data} holds an installation.",
                "Restore into an empty folder: --data DIR. If only its database is to be replaced, "
                f"and its jobs run on: move {postgres} away, and add --database-only.",
            )
        shutil.rmtree(fresh, ignore_errors=True)
        run = data_dir.open_run(data)
        with _running_postgres(fresh, run, data):
            status = manage("restore", rest, build_environment(data, run))
        if status == 0 and not {"--secrets-to"} & {word.partition("=")[0] for word in rest}:
            fresh.rename(postgres)
            print(f"Start it: bin/start --data {data}" + (" --cluster" if (data / data_dir.MARK).exists() else ""))
        return status
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        os.close(lock)


def build_environment(data: Path, run: Path) -> dict[str, str]:
    """Return the settings of an embedded installation, as far as commands need them. Raises Failure."""
    told = {
        "TESSERA_EMBEDDED": "1",
        "TESSERA_ROLE": "command",
        "TESSERA_DATA": str(data),
        "TESSERA_RUN": str(run),
        "TESSERA_VALKEY_SOCK": str(run / "valkey.sock"),
        "PGHOST": str(run),
        "PGUSER": "tessera",
        "PGDATABASE": "tessera",
    }
    if not (data / data_dir.MARK).exists():
        return told
    on_cluster = import_module("config.embedded.on_cluster")  # loaded on request, as it brings the Kubernetes client
    told |= on_cluster.cluster_environment(data)
    return told | on_cluster.storage_environment(on_cluster.connect(), told["TESSERA_INSTALL"])


@contextmanager
def _running_postgres(postgres: Path, run: Path, data: Path) -> Iterator[None]:
    try:
        with running_postgres(postgres, run, data / "logs-of-platform" / "postgres.log"):
            yield
    finally:
        with contextlib.suppress(OSError):  # not empty: a running job may have a socket there
            run.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
