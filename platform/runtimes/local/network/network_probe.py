"""Whether this machine can give jobs networks of their own, found by trying, or the sentence that says why not."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from runtimes.local.network.joining import build_settings, join_network
from runtimes.local.network.namespace import receive_network

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHARED = "Jobs share the machine's network: "
OFF = f"{SHARED}TESSERA_TASK_NETWORKS is 0."
NO_NAMESPACES = f"{SHARED}it allows no namespaces. Run Tessera on it directly, not in a container."
NO_PASTA = f"{SHARED}apt install passt (or your system's own package with pasta), then start Tessera anew."
FAILED = f"{SHARED}{{why}} In a container that may make none, run Tessera on the machine directly."


@dataclass(frozen=True)
class NetworkSupport:
    """words: why jobs share the machine's network, and what to do; "" if they have their own. pasta: its path."""

    words: str
    pasta: str = ""

    @property
    def works(self) -> bool:
        return not self.words


def probe_networks(folder: Path, *, wanted: bool, namespaces: bool) -> NetworkSupport:
    """Return whether tasks can have networks of their own here. folder: a new path for the test."""
    if not wanted:
        return NetworkSupport(OFF)
    if not namespaces:
        return NetworkSupport(NO_NAMESPACES)
    pasta = shutil.which("pasta", path=PATH)
    if pasta is None:
        return NetworkSupport(NO_PASTA)
    why = try_network(folder, pasta)
    return NetworkSupport(FAILED.format(why=why), pasta) if why else NetworkSupport("", pasta)


def try_network(folder: Path, pasta: str) -> str:
    """Have a network as a job would; return why it fails, or ""."""
    try:
        joined = join_network(folder, build_settings(pasta, ()))
    except OSError as error:
        return f"no network could be held: {error}."
    with joined.conn:
        if joined.holder is not None:
            joined.holder.wait()
        try:
            for fd in receive_network(joined.conn):
                os.close(fd)
        except OSError as error:
            return str(error)
    return ""
