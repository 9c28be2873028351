"""Address and host key of the SSH gateway, which creates the key."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from accounts.ssh_keys import fingerprint_of

HOST_KEY = "ssh_host_ed25519_key"


@dataclass(frozen=True)
class SshEndpoint:
    """host_key: as in known_hosts, without host name. fingerprint: as `ssh-keygen -l` prints it."""

    host: str
    port: int
    host_key: str
    fingerprint: str


def host_key_file() -> Path:
    return settings.TESSERA_DATA / HOST_KEY


def public_key_file() -> Path:
    return settings.TESSERA_DATA / f"{HOST_KEY}.pub"


def find_ssh_endpoint() -> SshEndpoint | None:
    """Return the endpoint; None if SSH is off or has no key yet."""
    try:
        kind, blob = public_key_file().read_text().split()[:2]
    except (FileNotFoundError, ValueError):
        return None
    if not settings.TESSERA_SSH_PORT:
        return None
    host = urlsplit(settings.TESSERA_PUBLIC_URL).hostname or "localhost"
    return SshEndpoint(host, settings.TESSERA_SSH_PORT, f"{kind} {blob}", fingerprint_of(blob))
