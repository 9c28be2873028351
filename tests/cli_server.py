"""A small HTTP server that answers the `tessera` command as a test tells it, and jobs as the API shows them."""

import gzip
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any


class Script:
    """What the small server answers: for "GET /jobs/job-1" a list, whose last answer stays.

    An answer is a status and data, or a function of the handler that writes it (or breaks off). asked: what came; each
    time, `came` is set.
    """

    def __init__(self, url: str):
        self.url = url
        self.answers: dict[str, list] = {}
        self.asked: list[tuple[str, str, dict, bytes]] = []
        self.came = threading.Event()

    def on(self, what: str, *answers) -> None:
        self.answers[what] = list(answers)

    def of(self, what: str) -> list:
        return [request for request in self.asked if f"{request[0]} {request[1].partition('?')[0]}" == what]


class Handler(BaseHTTPRequestHandler):
    server: Any
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        script, path = self.server.script, self.path.removeprefix("/api/v1")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        script.asked.append((self.command, path, dict(self.headers), body))
        script.came.set()
        answers = script.answers.get(
            f"{self.command} {path.partition('?')[0]}", [(404, {"status": 404, "detail": "No."})]
        )
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.close_connection = True
        answer(self) if callable(answer) else self.answer(*answer)

    do_POST = do_PATCH = do_DELETE = do_GET

    def answer(self, status: int, data, kind: str = "application/json") -> None:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def drop(handler) -> None:
    """The connection ends without an answer."""
    handler.connection.shutdown(socket.SHUT_RDWR)


def chunks(*pieces: bytes, whole: bool = True, task: str = "t-1"):
    """A log that streams; not whole = it breaks off after the last piece."""

    def write(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain; charset=utf-8")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("X-Task", task)
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if whole:
            handler.wfile.write(b"0\r\n\r\n")

    return write


def a_job(number: int = 1, state: str = "running", **also) -> dict:
    """A job as the API shows it, as far as the command reads it."""
    task = {"uuid": "t-1", "rank": 0, "node": "n1", "gpus": [{"place": "3"}], "ended_at": None}
    wait = {
        "position": 2,
        "of": 5,
        "as_of": None,
        "reasons": [{"code": "team_limit", "text": "the team is at its limit"}],
    }
    return {
        "id": f"job-{number}", "name": "train", "state": state, "owner": "ada", "pool": "dev", "gpu": "1/4", "nodes": 1,
        "reason": "", "reason_text": "", "hint": "", "exit_code": None, "attempt": 1, "held": False, "held_by": "",
        "submitted_at": "2026-01-01T10:00:00Z", "started_at": None, "ended_at": None, "expected_end_at": None,
        "stop_requested_at": None, "wait": wait if state == "queued" else None, "tasks": [task],
        "links": {"html": f"http://localhost/j/job-{number}/"}, **also,
    }  # fmt: skip


def ended(number: int = 1, state: str = "succeeded", **also) -> dict:
    times = {"started_at": "2026-01-01T10:00:05Z", "ended_at": "2026-01-01T12:10:05Z"}
    return a_job(number, state, **{**times, **also})
