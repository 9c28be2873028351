"""A Git server on this machine: a repository that is open, and one for who has the canary alone."""

import base64
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CANARY = "c4nary-t0ken-1234"
GIT = {
    "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip


def git(folder: Path, *argv: str) -> str:
    done = subprocess.run(["git", "-C", folder, *argv], env=GIT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class GitServer(http.server.BaseHTTPRequestHandler):
    """Serves `folder` by git http-backend; below /private to who has the canary alone."""

    folder = ""
    stalls: threading.Event | None = None
    """Given, packs are not sent before it is set."""
    asked: threading.Event
    """Set once a pack was asked for."""

    def do_GET(self):
        self._answer(b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.set()
        if self.stalls is not None:
            self.stalls.wait(60)
        self._answer(body)

    def log_message(self, *_):
        pass

    def _answer(self, body: bytes) -> None:
        given = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if self.path.startswith("/private") and given != f"oauth2:{CANARY}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        env = GIT | {
            "GIT_PROJECT_ROOT": self.folder, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        said = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True).stdout
        head, _, content = said.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(lines.pop("Status", "200").split()[0]))
        for name, value in lines.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def serve_repositories(served: Path) -> Iterator[tuple[str, type[GitServer]]]:
    """Make two repositories with one commit, and yield their server's address and its handler."""
    for name in ("open", "private"):
        folder = served / name
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main")
        (folder / "src").mkdir()
        (folder / "src" / "say.sh").write_text("echo first\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "one")
        git(folder, "tag", "-a", "v1", "-m", "v1")
    handler = type("Handler", (GitServer,), {"folder": str(served), "asked": threading.Event()})
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{web.server_port}", handler
    finally:
        web.shutdown()
        web.server_close()
