"""A registry that speaks as much of the OCI distribution protocol as asking for a digest and a slow pull take."""

import base64
import gzip
import hashlib
import json
import os
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PIECES = 20


class Registry:
    """manifests: {(repository, tag): bytes}. login: (user, password) without which nothing is told, by tokens or by
    the password itself. blob_s: so long a blob takes, piece by piece.
    """

    def __init__(self, address: str, port: int):
        self.host = f"{address}:{port}"
        self.manifests: dict[tuple[str, str], bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.blob_s = 0.0
        self.login: tuple[str, str] | None = None
        self.by_token = True
        self.tells_digest = True
        self.asked: list[tuple[str, str]] = []

    def push(self, repository: str, tag: str, content: bytes) -> str:
        self.manifests[repository, tag] = content
        return digest_of(content)

    def push_image(self, repository: str, tag: str) -> str:
        """Of one layer that nobody has yet, with nothing in it to run."""
        return self._push(repository, tag, [gzip.compress(os.urandom(2000))], [])

    def push_layers(self, repository: str, tag: str, layers: list[bytes]) -> str:
        """Of layers that can be unpacked: uncompressed archives."""
        return self._push(repository, tag, [gzip.compress(layer, 1) for layer in layers], list(map(digest_of, layers)))

    def _push(self, repository: str, tag: str, packed: list[bytes], unpacked: list[str]) -> str:
        rootfs = {"type": "layers", "diff_ids": unpacked}
        config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}
        kind = "application/vnd.oci.image"
        described = [self._keep(json.dumps(config).encode(), f"{kind}.config.v1+json")]
        described += [self._keep(layer, f"{kind}.layer.v1.tar+gzip") for layer in packed]
        whole = {"schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json"}
        content = json.dumps(whole | {"config": described[0], "layers": described[1:]}).encode()
        self.manifests[repository, digest_of(content)] = content
        return self.push(repository, tag, content)

    def _keep(self, blob: bytes, kind: str) -> dict:
        self.blobs[digest_of(blob)] = blob
        return {"mediaType": kind, "digest": digest_of(blob), "size": len(blob)}

    def challenge(self) -> str:
        if self.by_token:
            return f'Bearer realm="http://{self.host}/token",service="here"'
        return 'Basic realm="here"'


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def basic(login: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(login).encode()).decode()


@contextmanager
def serve_registry(address: str = "127.0.0.1"):
    server = ThreadingHTTPServer((address, 0), Handler)
    server.registry = Registry(address, server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.registry  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
    server: Any

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        registry: Registry = self.server.registry
        registry.asked.append((self.command, self.path))
        url = urlsplit(self.path)
        sent = self.headers.get("Authorization", "")
        if url.path == "/token":
            if registry.login and sent != basic(registry.login):
                return self.refuse(401, "UNAUTHORIZED", "incorrect username or password")
            scope = parse_qs(url.query)["scope"][0]
            return self.say(200, json.dumps({"token": f"for {scope}"}).encode())
        kind = "/blobs/" if "/blobs/" in url.path else "/manifests/"
        repository, _, tag = url.path.removeprefix("/v2/").partition(kind)
        wanted = f"Bearer for repository:{repository}:pull" if registry.by_token else basic(registry.login or ("", ""))
        if registry.login and sent != wanted:
            return self.refuse(401, "UNAUTHORIZED", "authentication required", registry.challenge())
        if url.path == "/v2/":
            return self.say(200, b"{}")
        if (digest := url.path.rpartition("/")[2]) in registry.blobs:
            return self.say(200, registry.blobs[digest], pause_s=registry.blob_s)
        if (repository, tag) not in registry.manifests:
            return self.refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
        content = registry.manifests[repository, tag]
        told = {"Docker-Content-Digest": digest_of(content)} if registry.tells_digest else {}
        return self.say(200, content, {"Content-Type": "application/vnd.oci.image.manifest.v1+json", **told})

    def refuse(self, status, code, message, challenge=""):
        told = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self.say(status, told, {"WWW-Authenticate": challenge} if challenge else {})

    def say(self, status, content, headers=(), pause_s=0.0):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            piece = max(len(content) // PIECES, 1) if pause_s else max(len(content), 1)
            for start in range(0, len(content), piece):
                self.wfile.write(content[start : start + piece])
                time.sleep(pause_s / PIECES)

    def log_message(self, *_):
        pass
