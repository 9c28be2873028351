"""Send one job through the tree in the working directory, and print as JSON which of its files the job reaches.

Run by dev.job_path as a file, beside servers of its own, in this revision and in older ones: it uses what both have.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import django

django.setup()  # before any model

from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from accounts.scopes import SCOPES  # noqa: E402
from accounts.services import create_token  # noqa: E402
from scheduler.first_run import prepare  # noqa: E402
from scheduler.tasks import cycle, reconcile, take_inventory  # noqa: E402

COMMIT = "run_steps"
"""The function that carries out a plan, in every revision."""
WITHIN_S = 60
CHILD = """
import os, sys, threading
def _trace(out, roots):
    def profile(frame, event, arg, seen=set()):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(roots) and code.co_name[0] != "<":
            if code.co_filename not in seen:
                seen.add(code.co_filename)
                fd = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
                os.write(fd, (code.co_filename + chr(10)).encode())
                os.close(fd)
    sys.setprofile(profile)
    threading.setprofile(profile)
    spawn = os.posix_spawn
    os.posix_spawn = lambda path, argv, env, **more: spawn(path, _traced(argv), env, **more)
def _traced(argv):
    return [text + part if before == "-c" else part for before, part in zip(["", *argv], argv)]
"""
"""Stands in front of the code of each child process."""


class Trace:
    """The files of ours in which a function is called, in order, and those of the commit stretch, call by call."""

    def __init__(self, root: Path) -> None:
        names = ("platform", "scheduler", "portal", "agent")
        self.root, self.roots = root, tuple(f"{root / name}{os.sep}" for name in names)
        self.files: dict[str, None] = {}
        self.commit: list[str] = []
        self.in_commit = 0

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(self.roots) or code.co_name.startswith("<"):  # a module, a comprehension
            return
        if event == "call":
            self.in_commit += code.co_name == COMMIT
            self.files[code.co_filename] = None
            if self.in_commit:
                self.commit.append(code.co_filename)
        elif event == "return":
            self.in_commit -= code.co_name == COMMIT

    def run(self, act: Callable[[], Any]) -> Any:
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        try:
            return act()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def relative(self, names: list[str]) -> list[str]:
        return [os.path.relpath(name, self.root) for name in names]


def main() -> None:
    os.chmod(Path(os.environ["TESSERA_RUN"]).parent, 0o711)  # noqa: S103 - the job's account passes through
    call_command("migrate", verbosity=0)
    client = sign_in()
    send_job(client, lambda act: act())  # loads what is loaded once
    trace = Trace(Path.cwd())
    with tempfile.TemporaryDirectory() as directory:
        children = Path(directory) / "children"
        os.chmod(directory, 0o777)  # noqa: S103 - the job's account writes
        children.touch()
        trace_children(children, trace.roots)
        send_job(client, trace.run)
        files = dict.fromkeys([*trace.files, *children.read_text().splitlines()])
    print(json.dumps({"files": trace.relative([*files]), "commit": trace.relative(trace.commit)}))


def sign_in() -> Client:
    """A client of the API for the first admin of a new installation."""
    take_inventory()
    admin, _ = prepare()
    _, secret = create_token(user=admin, name="trace", scopes=list(SCOPES), days=1)
    return Client(headers={"Authorization": f"Bearer {secret}", "Host": "localhost"})


def send_job(client: Client, traced: Callable[[Callable[[], Any]], Any]) -> None:
    """Submit a job, let it start, and wait until its program has run."""
    sent = traced(lambda: client.post("/api/v1/jobs", {"run": "true", "gpu": "1/4"}, content_type="application/json"))
    assert sent.status_code == 201, sent.content
    traced(cycle)
    traced(reconcile)
    until = time.monotonic() + WITHIN_S
    while client.get(f"/api/v1/jobs/{sent.json()['id']}").json()["state"] != "succeeded":
        assert time.monotonic() < until, "the job does not end well"
        time.sleep(0.2)
        reconcile()


def trace_children(out: Path, roots: tuple[str, ...]) -> None:
    """Children write the files that they reach to `out`."""
    text = CHILD + f"_trace({str(out)!r}, {roots!r})\n"
    text = f"text = {text!r}\nexec(text)\n"
    popen = subprocess.Popen

    class Traced(popen):  # type: ignore[type-arg, valid-type, misc]
        def __init__(self, command: Any, *args: Any, **more: Any) -> None:
            if isinstance(command, list) and command[:1] == [sys.executable]:
                command = [
                    text + part if before == "-c" else part
                    for before, part in zip(["", *command], command, strict=False)
                ]
            super().__init__(command, *args, **more)

    subprocess.Popen = Traced  # type: ignore[assignment,misc]


if __name__ == "__main__":
    main()
