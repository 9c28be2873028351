"""Join the network of a job's tasks on this machine: its holder is started with the first of them."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from runtimes.local.access.packet_sockets import connect_in, listen_in
from runtimes.local.network.holder import DOOR
from runtimes.local.node.isolation_probe import run_python
from runtimes.private_networks import Opened
from runtimes.storage.file_lock import hold_file_lock

LOCK = ".lock"


class Joined(NamedTuple):
    """A use of a network, which lasts until `conn` is closed in all processes. holder: if it was started for it."""

    conn: socket.socket
    holder: subprocess.Popen | None


def build_settings(pasta: str, opened: Iterable[Opened], url: str = "") -> dict:
    """Return what a holder is told. url: of the platform's web server, for a job with a token."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {"pasta": pasta, "opened": list(opened), "portal": [parts.hostname, port] if parts.hostname else None}


def join_network(folder: Path, settings: dict) -> Joined:
    """Connect to the holder of a folder, started if there is none. Raises OSError."""
    folder.parent.mkdir(mode=0o711, exist_ok=True)
    with hold_file_lock(folder.parent / LOCK):
        try:
            return Joined(connect_in(folder, DOOR), None)
        except (FileNotFoundError, ConnectionRefusedError):
            shutil.rmtree(folder, ignore_errors=True)  # of a holder that was killed
        folder.mkdir(mode=0o700)
        with listen_in(folder, DOOR) as listener, open(folder / "log", "ab") as log:
            start = "from runtimes.local.network.holder import main; main(*sys.argv[1:])"
            told = str(listener.fileno()), str(folder.parent / LOCK), str(folder), json.dumps(settings)
            holder = subprocess.Popen(
                run_python(start, *told),
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
            return Joined(connect_in(folder, DOOR), holder)


def forget_network(folder: Path) -> None:
    """Remove what a holder that was killed has left. Raises OSError."""
    if not folder.is_dir():
        return
    with hold_file_lock(folder.parent / LOCK):
        try:
            connect_in(folder, DOOR).close()
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
