"""The whole platform in a directory of its own, started by bin/start as a person would: for measurements and tests.

Talks to it over REST on the loopback, and ends it by Ctrl-C. Only processes that it started are ever signalled.
"""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from config.embedded.data_dir import open_data, open_run, read_running, secret_key_file
from config.embedded.servers import running_postgres
from notebooks.environment import FAILED, READY, environment_home, environment_path, read_state

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"Sign in once with this link: (\S+)")
START_WITHIN_S = 300
ENDED = ("succeeded", "failed", "cancelled")
PREPARED_WITHIN_S = 600
DATABASE = "TESSERA_STACK_DATABASE"
"""Names a folder where the first stack leaves a database with its tables for the others; bin/test sets it."""


class ApiError(Exception):
    """The platform refused a request: the status and the problem+json text."""


class Stack:
    """A running platform. `url` is the portal's; `api` speaks with a token of the first admin."""

    def __init__(
        self,
        data: Path,
        port: int,
        gpus: str = "2xV100-32GB",
        cluster: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ):
        """cluster: what to set besides where its jobs are pods of the cluster that KUBECONFIG names. variables: of all
        its processes.
        """
        self.data, self.port, self.gpus, self.cluster, self.variables = data, port, gpus, cluster, variables or {}
        self.url = f"http://localhost:{port}"
        self.process: subprocess.Popen | None = None
        self.login_link = ""
        self.token = ""

    def start(self) -> float:
        """Start and wait until the banner stands there. Returns the seconds that it took."""
        began = time.monotonic()
        if DATABASE in os.environ and self.cluster is None and not (self.data / "postgres").exists():
            take_database(self.data, Path(os.environ[DATABASE]))
        command = [str(ROOT / "bin/start"), "--port", str(self.port), "--data", str(self.data)]
        where = ["--gpus", self.gpus] if self.cluster is None else ["--cluster"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "TESSERA_"))}
        self.process = subprocess.Popen(
            [*command, *where, "--no-demo"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**clean, **(self.cluster or {}), **self.variables},
            start_new_session=True,
        )
        self._read_banner(began + START_WITHIN_S)
        if not self.token:
            self.token = self.manage("make_token", "admin").strip()
        return time.monotonic() - began

    def stop(self) -> float:
        """As a service manager does. Returns the seconds until everything was down."""
        began = time.monotonic()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(90)
            assert self.process.stdout
            self.process.stdout.close()
        return time.monotonic() - began

    def manage(self, *command: str) -> str:
        """A management command on this platform's database. Raises RuntimeError with what it said."""
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *command],
            env={**os.environ, **self.environment()},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"manage.py {command[0]}: {done.stderr[-2000:]}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        run = open_run(self.data)
        return {
            "TESSERA_DATA": str(self.data),
            "TESSERA_RUN": str(run),
            "TESSERA_VALKEY_SOCK": str(run / "valkey.sock"),
            "TESSERA_ROLE": "command",
            "TESSERA_SECRET_KEY_FILE": str(secret_key_file(self.data)),
            "PGHOST": str(run),
            "PGUSER": "tessera",
            "PGDATABASE": "tessera",
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }

    def children(self) -> dict[str, int]:
        """{name: pid} of web, worker, beat, valkey and postgres."""
        return read_running(self.data).get("children", {})

    def api(self, method: str, path: str, body: dict | None = None, key: str = "", timeout: float = 10) -> dict:
        """The JSON answer. Raises ApiError for a refusal and OSError while nobody answers."""
        return json.loads(self.text(path, method, body, key, timeout) or "{}")

    def text(self, path: str, method: str = "GET", body: dict | None = None, key: str = "", timeout: float = 10) -> str:
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                **({"Idempotency-Key": key} if key else {}),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as refused:
            if refused.code < 500:  # an answer, and its words say what is wrong
                raise ApiError(refused.code, refused.read().decode()) from None
            raise

    def wait_for(self, job: str, *states: str, seconds: float = 30, look_s: float = 0.1) -> dict:
        """The job as soon as it is in one of the states. Of looks anybody has twenty a second."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = self.api("GET", f"/jobs/{job}")
            if found["state"] in states:
                return found
            time.sleep(look_s)
        raise TimeoutError(f"{job} is {found['state']} and not {' or '.join(states)}: {found.get('wait')}")

    def end_jobs(self) -> None:
        """What runs outlives the platform, which is as it should be, but not the directory of a test. Notebooks too."""
        if not self.token:
            return
        ask = "/jobs?state=queued,starting,running&limit=500&kind="
        jobs = [job for kind in ("batch", "interactive") for job in self.api("GET", ask + kind)["results"]]
        for first in range(0, len(jobs), 100):  # as many as one call takes
            ids = [job["id"] for job in jobs[first : first + 100]]
            self.api("POST", "/jobs:stop", {"ids": ids}, timeout=60)
        for job in jobs:
            self.wait_for(job["id"], *ENDED)

    def wait_for_line(self, job: str, text: str, seconds: float = 30) -> None:
        """Until `text` stands in the log of the job's first task."""
        until = time.monotonic() + seconds
        while text not in (said := self.text(f"/jobs/{job}/logs")):
            if time.monotonic() > until:
                raise TimeoutError(f"{job} did not say {text!r}: {said[-2000:]}")
            time.sleep(0.1)

    def wait_for_environment(self) -> None:
        """Until JupyterLab and TensorBoard can be started."""
        until = time.monotonic() + PREPARED_WITHIN_S
        while (told := read_state(self.data))["state"] != READY:
            if told["state"] == FAILED or time.monotonic() > until:
                raise RuntimeError(f"No environment for notebooks: {told}")
            time.sleep(0.5)

    def _read_banner(self, until: float) -> None:
        assert self.process and self.process.stdout
        said = ""
        for line in self.process.stdout:
            said += line
            if found := LINK.search(line):
                self.login_link = found[1] if found[1].startswith("http") else self.url + found[1]
            if "Ctrl-C stops" in line:
                return
            if time.monotonic() > until:
                break
        raise RuntimeError(f"bin/start did not come up:\n{said}")


@contextmanager
def running_stack(
    gpus: str = "2xV100-32GB",
    cluster: Mapping[str, str] | None = None,
    notebooks: bool = True,
    variables: Mapping[str, str] | None = None,
    environment: Path | None = None,
) -> Iterator[Stack]:
    """A fresh platform on a free port, ended and removed afterwards.

    notebooks: whether their environment is prepared beside it, which keeps a core busy for half a minute. variables: of
    all its processes. environment: a prepared one that it takes for its own.
    """
    with tempfile.TemporaryDirectory(prefix="tessera-stack-") as home, ExitStack() as held:
        Path(home).chmod(0o755)  # jobs run under uids of their own and must be able to pass
        if not notebooks:
            held.enter_context(nothing_prepared(Path(home) / "data"))
        if environment:
            take_environment(Path(home) / "data", environment)
        stack = Stack(Path(home) / "data", free_port(), gpus, cluster, variables)
        try:
            stack.start()
            yield stack
        finally:
            held.callback(stack.stop)  # also where a job cannot be ended
            with suppress(OSError):  # it may be down
                stack.end_jobs()


@contextmanager
def nothing_prepared(data: Path) -> Iterator[None]:
    """As if another process were at it: the lock of `notebooks.build_environment` is held."""
    open_data(data)
    environment_home(data).mkdir(mode=0o755)
    with open(environment_home(data) / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def take_environment(data: Path, prepared: Path) -> None:
    open_data(data)
    environment_home(data).mkdir(mode=0o755)
    environment_path(data).symlink_to(prepared)


def take_database(data: Path, made: Path) -> None:
    """Copy a database that has its tables: to make them takes longer than all else of a start."""
    with open(f"{made}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            make_database(made)
    open_data(data)
    subprocess.run(["cp", "-a", str(made), str(data / "postgres")], check=True)


def make_database(made: Path) -> None:
    fresh = made.with_suffix(".fresh")
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        run = Path(folder)
        run.chmod(0o711)
        with running_postgres(fresh, run, run / "log", throw_away=True):
            environment = {**os.environ, "PGHOST": str(run), "PGUSER": "tessera", "PGDATABASE": "tessera"}
            subprocess.run([sys.executable, str(ROOT / "manage.py"), "migrate", "-v0"], env=environment, check=True)
    fresh.rename(made)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
