"""The API server's address and credentials, from a kubeconfig or a service account."""

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class BadKubeconfig(ValueError):
    """Says what is missing and what to do."""


@dataclass(frozen=True)
class Connection:
    """Server and credentials. token_file: read per request; the kubelet rotates it."""

    server: str
    tls: ssl.SSLContext
    token: str = ""
    token_file: Path | None = None

    def authorization(self) -> dict[str, str]:
        token = self.token_file.read_text().strip() if self.token_file else self.token
        return {"Authorization": f"Bearer {token}"} if token else {}


def find_connection(kubeconfig: str | os.PathLike | None = None, context: str = "") -> Connection:
    """Use the kubeconfig, or this pod's service account. Raises BadKubeconfig."""
    if kubeconfig:
        return read_kubeconfig(Path(kubeconfig), context)
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (IN_POD / "token").exists():
        raise BadKubeconfig("There is no cluster: set KUBECONFIG to a kubeconfig file, or run in a pod of the cluster.")
    host = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(IN_POD / "ca.crt"))
    return Connection(f"https://{host}:{port}", tls, token_file=IN_POD / "token")


def read_kubeconfig(path: Path, context: str = "") -> Connection:
    try:
        document = YAML(typ="safe").load(path.read_text())
        name = context or document["current-context"]
        chosen = _named(document["contexts"], name, "context")
        cluster = _named(document["clusters"], chosen["cluster"], "cluster")
        user = _named(document["users"], chosen["user"], "user")
        server = cluster["server"].rstrip("/")
    except OSError as error:
        raise BadKubeconfig(f"The kubeconfig {path} cannot be read: {error.strerror}.") from error
    except (YAMLError, KeyError, TypeError, AttributeError) as error:
        raise BadKubeconfig(f"The kubeconfig {path} cannot be understood: {error!r}.") from error
    if not server.startswith("https://"):
        raise BadKubeconfig(f"The kubeconfig {path} names the server {server}: only https is spoken.")
    if cluster.get("insecure-skip-tls-verify"):
        raise BadKubeconfig(f"The kubeconfig {path} trusts any server: give certificate-authority instead.")
    if user.get("exec") or user.get("auth-provider"):
        raise BadKubeconfig(f"The kubeconfig {path} starts a program to sign in: give a client certificate or a token.")
    token_file = Path(path.parent, user["tokenFile"]) if user.get("tokenFile") else None
    return Connection(server, _tls(path, cluster, user), user.get("token", ""), token_file)


def _named(entries: list[dict[str, Any]], name: str, kind: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry[kind]
    raise KeyError(f"no {kind} {name}")


def _tls(path: Path, cluster: dict, user: dict) -> ssl.SSLContext:
    try:
        authority = _content(path, cluster, "certificate-authority")
        certificate, key = _content(path, user, "client-certificate"), _content(path, user, "client-key")
        tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if certificate and key:
            with tempfile.NamedTemporaryFile() as both:  # ssl loads from files only
                both.write(certificate.rstrip() + b"\n" + key)
                both.flush()
                tls.load_cert_chain(both.name)
        return tls
    except (OSError, ValueError, binascii.Error) as error:
        raise BadKubeconfig(f"The certificates of the kubeconfig {path} cannot be used: {error}.") from error


def _content(path: Path, entry: dict, field: str) -> bytes:
    if data := entry.get(f"{field}-data"):
        return base64.b64decode(data, validate=True)
    return Path(path.parent, entry[field]).read_bytes() if entry.get(field) else b""
