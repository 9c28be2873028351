"""The portal's own web process on the tests' servers and database, and a browser that is signed in to it."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import WeakSet

from django.conf import settings
from django.db import connections

from tests.told_stacks import ask

ROOT = Path(__file__).parents[1]
STARTS_S = 60
started: WeakSet["WebProcess"] = WeakSet()


class WebProcess:
    """On a free port. Its sockets outlive it, as under the supervisor, so that it can be killed and started again.

    host: what it is called. ssh: whether it listens for SSH too, else that is off. environment: more of it.
    """

    def __init__(self, host: str = "localhost", ssh: bool = False, **environment: object):
        self._sockets = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(1 + ssh)]
        self._stacks = TemporaryDirectory(prefix="tessera-stacks-")
        self._told = Path(self._stacks.name) / "stacks"
        self.port, *more = (listener.getsockname()[1] for listener in self._sockets)
        self.ssh_port = more[0] if more else 0
        self.url = f"http://{host}:{self.port}"
        self.environment = {
            **os.environ,
            "PGDATABASE": connections["default"].settings_dict["NAME"],
            "TESSERA_LISTEN_FDS": str(self._sockets[0].fileno()),
            "TESSERA_PUBLIC_URL": self.url,
            "TESSERA_ROLE": "web",
            "TESSERA_SECRET_KEY": settings.SECRET_KEY,
            "TESSERA_SSH_PORT": str(self.ssh_port),
            **({"TESSERA_SSH_FDS": str(self._sockets[1].fileno())} if ssh else {}),
            **{name: str(value) for name, value in environment.items()},
        }

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.told_stacks", str(self._told), "config.embedded.web"]
        fds = [listener.fileno() for listener in self._sockets]
        self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment, pass_fds=fds)
        wait_for(f"{self.url}/livez")
        started.add(self)

    def ask_stacks(self) -> str:
        """Where its threads and its asynchronous tasks stand; "" if it does not run."""
        return ask(self.process.pid, self._told) if self.process.poll() is None else ""

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(20) in {0, -signal.SIGTERM}

    def close(self) -> None:
        for listener in self._sockets:
            listener.close()
        self._stacks.cleanup()


@contextmanager
def running_web(**how):
    """A WebProcess that answers, until the block ends."""
    web = WebProcess(**how)
    try:
        web.start()
        yield web
    finally:
        web.stop()
        web.close()


@contextmanager
def browsing(chromium, url: str, session: str, **window):
    """A page of the one whose session it is. Whatever the CSP refuses or a script throws fails the test."""
    context = chromium.new_context(base_url=url, **window)
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": url}])
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda asked: print("failed:", asked.url, asked.failure))  # told beside a failed test
    page.on("response", lambda answer: answer.ok or print(answer.status, answer.url))
    page.on("websocket", lambda opened: print("socket:", opened.url))
    yield page
    context.close()
    assert wrong == []


def wait_for(url: str) -> None:
    deadline = time.monotonic() + STARTS_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"{url} did not answer within {STARTS_S} s"
            time.sleep(0.1)


def elsewhere(act, *args, **named):
    """Do it in another thread: Playwright's event loop runs in this one, where Django would not ring its doorbells."""

    def act_and_close():
        try:
            return act(*args, **named)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act_and_close).result()
