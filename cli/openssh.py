"""Use of OpenSSH with the gateway's address and host key; no trust on first use."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from cli.failures import SERVER, USAGE, Failure
from cli.http.credentials import config_file, write_private_file
from cli.session import Session


@dataclass(frozen=True)
class Gateway:
    """alias: its name in our known_hosts, from the portal's address, since its port may change."""

    host: str
    port: int
    host_key: str
    alias: str


def find_gateway(session: Session) -> Gateway:
    """Ask the platform for its SSH gateway. Raises Failure."""
    client = session.client()
    ssh = client.get("/version").get("ssh")
    if not ssh:
        raise Failure(SERVER, f"SSH is switched off on {client.server}. Use the terminal of its pages instead.")
    parts = urlsplit(client.server)
    alias = f"tessera-{parts.hostname}" + (f"-{parts.port}" if parts.port else "")
    return Gateway(ssh["host"], ssh["port"], ssh["host_key"], alias)


def ssh_options(gateway: Gateway) -> dict[str, str]:
    return {
        "HostName": gateway.host,
        "Port": str(gateway.port),
        "HostKeyAlias": gateway.alias,
        "UserKnownHostsFile": f'"{known_hosts()}"',
        "StrictHostKeyChecking": "yes",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ServerAliveInterval": "30",
    }


def ssh_arguments(gateway: Gateway) -> list[str]:
    return [part for name, value in ssh_options(gateway).items() for part in ("-o", f"{name}={value}")]


def known_hosts() -> Path:
    return config_file().parent / "known_hosts"


def store_host_key(gateway: Gateway) -> None:
    try:
        lines = known_hosts().read_text().splitlines()
    except FileNotFoundError:
        lines = []
    ours = f"{gateway.alias} {gateway.host_key}"
    others = [line for line in lines if line.partition(" ")[0] != gateway.alias]
    if [*others, ours] != lines:
        write_private_file(known_hosts(), "\n".join([*others, ours, ""]))


def exec_program(program: str, *arguments: str) -> NoReturn:
    """Replace this process by a program. Raises Failure."""
    if not shutil.which(program):
        raise Failure(USAGE, f"There is no {program} here. Install the OpenSSH client.")
    os.execvp(program, [program, *arguments])
