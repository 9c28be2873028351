"""An API server that says what a test tells it to, over a real socket. For the client's own manners; it proves nothing
about Kubernetes, which the tests marked `kubernetes` do.
"""

import json
import math
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from kubernetes.client import Configuration

from runtimes.kubernetes.api.credentials import Credentials, build_credentials

DROP = object()
"""Instead of an answer: the connection is cut."""


class FixedSource:
    """Credentials that are never renewed. refused: how often the server refused them."""

    def __init__(self, url: str, token: str = ""):
        configuration = Configuration(host=url, api_key={"BearerToken": f"Bearer {token}"} if token else {})
        self.credentials = build_credentials(configuration, math.inf)
        self.refused = 0

    def current(self) -> Credentials:
        return self.credentials

    def report_status(self, used: Credentials, status: int) -> None:
        self.refused += status == 401

    def close(self) -> None:
        self.credentials.client.close()


class ScriptedServer:
    """answers: one for each request, in order: (status, body), (status, body, headers), DROP, or a function that writes
    to the handler. asked: (verb, path, query, body) of each request.
    """

    def __init__(self, *answers, tls: ssl.SSLContext | None = None):
        self.answers, self.asked, self.scheme = list(answers), [], "https" if tls else "http"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                url = urlsplit(self.path)
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                outer.asked.append((self.command, url.path, dict(parse_qsl(url.query)), body))
                said = outer.answers.pop(0)
                if said is DROP:
                    self.close_connection = True
                elif isinstance(said, Callable):
                    said(self)
                else:
                    self.say(*said)

            def say(self, status, body, headers=()):
                sent = json.dumps(body).encode() if not isinstance(body, bytes) else body
                self.send_response(status)
                for name, value in dict(headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


def stream(*pieces: bytes, then=None):
    """A watch's answer: chunks as they are; then: waits for this event before it ends, to be silent meanwhile."""

    def write(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
        if then is not None:
            then.wait(10)
        handler.wfile.write(b"0\r\n\r\n")

    return write


def failure(status: int, reason: str, message: str, **headers):
    return status, {"kind": "Status", "reason": reason, "message": message}, headers
