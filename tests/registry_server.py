"""A registry on loopback that speaks as much of the OCI distribution protocol as asking for a digest takes."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Registry:
    """manifests: {(repository, tag): bytes}. login: (user, password) without which nothing is told, by tokens or by
    the password itself.
    """

    def __init__(self, port: int):
        self.host = f"127.0.0.1:{port}"
        self.manifests: dict[tuple[str, str], bytes] = {}
        self.login: tuple[str, str] | None = None
        self.by_token = True
        self.tells_digest = True
        self.asked: list[tuple[str, str]] = []

    def push(self, repository: str, tag: str, content: bytes) -> str:
        self.manifests[repository, tag] = content
        return digest_of(content)

    def challenge(self) -> str:
        if self.by_token:
            return f'Bearer realm="http://{self.host}/token",service="here"'
        return 'Basic realm="here"'


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def basic(login: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(login).encode()).decode()


@contextmanager
def serve_registry():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.registry = Registry(server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.registry  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
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
        repository, _, tag = url.path.removeprefix("/v2/").partition("/manifests/")
        wanted = f"Bearer for repository:{repository}:pull" if registry.by_token else basic(registry.login or ("", ""))
        if registry.login and sent != wanted:
            return self.refuse(401, "UNAUTHORIZED", "authentication required", registry.challenge())
        if (repository, tag) not in registry.manifests:
            return self.refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
        content = registry.manifests[repository, tag]
        return self.say(200, content, {"Docker-Content-Digest": digest_of(content)} if registry.tells_digest else {})

    def refuse(self, status, code, message, challenge=""):
        told = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self.say(status, told, {"WWW-Authenticate": challenge} if challenge else {})

    def say(self, status, content, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass
