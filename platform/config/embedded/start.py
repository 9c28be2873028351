"""`bin/start`: run the whole platform on this machine under one supervisor.

PostgreSQL and Valkey, migrations, then web, worker, sender and beat; a demo job on the first start. Ctrl-C leaves
running jobs alone. With --cluster jobs are pods.
"""

import argparse
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from urllib.parse import urljoin

from config.embedded import data_dir, slice_build
from config.embedded.disk_reserve import DiskReserve
from config.embedded.servers import build_postgres_program, build_valkey_program, create_database
from config.embedded.supervisor import (
    POLL_S,
    Child,
    Failure,
    Program,
    die_with_parent,
    kill_all,
    kill_session,
    open_log,
    say,
    stop_all,
    tail,
)
from runtimes import slice_library
from runtimes.local.node.simulated_cards import UnknownProfile, simulate_cards

ROOT = Path(__file__).resolve().parents[3]
DEMO_LIMIT_S = 300
APPS_STOP_WITHIN_S, SERVERS_STOP_WITHIN_S = 6.0, 1.5  # then killed; all of it within 10 s
CELERY = [sys.executable, "-m", "celery", "-A", "config.celery"]


class Stop(BaseException):
    """A signal asked for the end. Not an Exception, so that nothing catches it."""


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    on_stop_signals(ask_to_stop)
    platform = Platform(options)
    try:
        return platform.run()
    except Stop:
        say("")
        return 0
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    finally:
        platform.stop()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/start", description="Start Tessera on this machine.")
    parser.add_argument("--port", type=int, default=8470, help="of the portal on localhost (default %(default)s)")
    parser.add_argument(
        "--gpus", default="", metavar="TEXT", help="cards to simulate where there are none: 2xV100-32GB"
    )
    parser.add_argument(
        "--cluster", action="store_true", help="run jobs on the Kubernetes cluster of KUBECONFIG, not on this machine"
    )
    parser.add_argument(
        "--data", default="", metavar="DIR", help="where everything is kept (default .tessera, or .tessera-cluster)"
    )
    demo = parser.add_mutually_exclusive_group()
    demo.add_argument("--demo-once", action="store_true", help="run a demo job, stop, exit 0 if it succeeded")
    demo.add_argument("--no-demo", action="store_true", help="no demo job on the first start")
    options = parser.parse_args(arguments)
    if not 1 <= options.port <= 65535:
        parser.error("--port must be from 1 to 65535")
    try:
        simulate_cards(options.gpus, node="")
    except UnknownProfile as unknown:  # now, since the text is stored and would fail later starts
        parser.error(f"--gpus: {unknown}")
    if options.cluster and options.gpus:
        parser.error("--gpus simulates cards of this machine: with --cluster the cluster's nodes have them")
    called_from = Path(os.environ.get("TESSERA_CALLED_FROM", ROOT))
    usual = ROOT / (".tessera-cluster" if options.cluster else ".tessera")
    options.data = (called_from / options.data).resolve() if options.data else usual
    return options


class Platform:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        # Loaded on request, as it brings the Kubernetes client.
        self.on_cluster = import_module("config.embedded.on_cluster") if options.cluster else None
        self.api: object = None
        self.data: Path = options.data
        self.url = f"http://localhost:{options.port}"
        self.lock: int | None = None
        self.run_dir: Path | None = None
        self.reserve: DiskReserve | None = None
        self.running_is_written = True
        self.sockets: list[socket.socket] = []
        self.ssh_sockets: list[socket.socket] = []
        self.servers: list[Child] = []
        self.apps: list[Child] = []
        self.commands: subprocess.Popen | None = None
        self.follower: subprocess.Popen | None = None
        self.preparer: subprocess.Popen | None = None

    def run(self) -> int:
        """Start everything; return the exit status."""
        self.open_place()
        first_start = not (self.data / "postgres").exists()
        with step("Starting PostgreSQL and Valkey"):
            # Python starts slower than the servers, and needs them only later.
            self.commands = self.start_command(
                "-m", "config.embedded.commands", stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self.start_app(self.build_web_program())
            self.start_servers()
        with step("Bringing the database up to date"):
            self.manage("migrate", "--verbosity", "0")
        if not self.options.cluster and slice_build.is_wanted(self.data):
            self.build_slice_library()
        with step("Taking the cluster's inventory" if self.options.cluster else "Taking this machine's inventory"):
            self.start_app(self.build_worker_program())
            self.manage("take_inventory")
        with step("Waiting for the portal"):
            if self.options.demo_once or (first_start and not self.options.no_demo):
                self.follower = self.start_follower()  # before the job, so that no line is late
            self.apps[0].wait_until_ready(120)
        self.start_app(self.build_sender_program())
        self.start_app(self.build_beat_program())
        if self.on_cluster:
            self.start_app(self.on_cluster.build_watch_program(self.log_path("watch"), ROOT / "manage.py"))
            if here := self.on_cluster.node_here(self.api):
                token = self.manage("invite_agent", here[0]).strip()
                self.start_app(
                    self.on_cluster.build_agent_program(
                        self.log_path("agent"), self.data / "agent", self.url, here[1], token
                    )
                )
        self.write_running()
        if not self.options.demo_once and not self.options.cluster:
            self.preparer = self.start_preparer()
        demo_job = self.run_first_run()
        if not demo_job:
            return 1 if self.options.demo_once else self.restart_dead_forever()
        status = self.follow(demo_job)
        return status if self.options.demo_once else self.restart_dead_forever()

    def open_place(self) -> None:
        if self.on_cluster:
            self.api = self.on_cluster.connect()
        data_dir.open_data(self.data)
        data_dir.check_data(self.data, cluster=self.options.cluster)
        self.lock = data_dir.take_lock(self.data)
        self.reserve = DiskReserve(self.data)
        for note in (self.reserve.tend(), data_dir.describe_room(self.data)):
            if note:
                say(f"Note: {note}")
        self.sockets = data_dir.listen(self.options.port)
        ssh_port, self.ssh_sockets = data_dir.listen_for_ssh(self.options.port + 1)
        run = self.run_dir = data_dir.open_run(self.data)
        os.environ.update(
            TESSERA_EMBEDDED="1",
            TESSERA_DATA=str(self.data),
            TESSERA_RUN=str(run),
            TESSERA_PORT=str(self.options.port),
            TESSERA_PUBLIC_URL=self.url,
            TESSERA_SSH_PORT=str(ssh_port),
            TESSERA_SECRET_KEY_FILE=str(data_dir.secret_key_file(self.data)),
            TESSERA_VALKEY_SOCK=str(run / "valkey.sock"),
            PGHOST=str(run),
            PGUSER="tessera",
            PGDATABASE="tessera",
            DJANGO_SETTINGS_MODULE="config.settings",
        )
        if self.on_cluster:
            os.environ.update(self.on_cluster.cluster_environment(self.data))
            os.environ.update(self.on_cluster.storage_environment(self.api, os.environ["TESSERA_INSTALL"]))
        elif gpus := data_dir.remembered_gpus(self.data, self.options.gpus):
            os.environ["TESSERA_GPUS"] = gpus

    def start_servers(self) -> None:
        run = Path(os.environ["TESSERA_RUN"])
        for name, build_program in (("postgres", build_postgres_program), ("valkey", build_valkey_program)):
            self.servers.append(Child(build_program(self.data / name, run, self.log_path(name))))
            self.servers[-1].start()
        for server in self.servers:
            server.wait_until_ready(60)  # crash recovery takes time
        create_database(run)

    def build_slice_library(self) -> None:
        """Build the slice library, which is optional."""
        try:
            with step("Building the library that keeps slices of GPU memory, once"):
                slice_library.build_library(slice_library.library_path(self.data))
        except OSError as error:
            say(f"  It could not be built: {error}\n  To try again: bin/slice build")

    def start_app(self, program: Program) -> None:
        self.apps.append(Child(program))
        self.apps[-1].start()

    def build_web_program(self) -> Program:
        descriptors, ssh = (tuple(sock.fileno() for sock in found) for found in (self.sockets, self.ssh_sockets))
        listen = {"TESSERA_LISTEN_FDS": ",".join(map(str, descriptors)), "TESSERA_SSH_FDS": ",".join(map(str, ssh))}
        return Program(
            name="web",
            argv=[sys.executable, "-m", "config.embedded.web"],
            log=self.log_path("web"),
            env={"TESSERA_ROLE": "web", **listen},
            pass_fds=(*descriptors, *ssh),
            is_ready=lambda pid: is_live(self.options.port),
        )

    def build_worker_program(self) -> Program:
        options = ["worker", "-c", "2", "-Q", "scheduler,default", "--without-gossip", "--without-mingle"]
        return Program(
            "worker", [*CELERY, *options], self.log_path("worker"), {"TESSERA_ROLE": "worker", **self.tell_metrics(2)}
        )

    def build_sender_program(self) -> Program:
        """Return the sender, apart since receivers may be slow."""
        options = ["worker", "-P", "solo", "-Q", "outside", "-n", "sender@%h", "--without-gossip", "--without-mingle"]
        return Program(
            "sender", [*CELERY, *options], self.log_path("sender"), {"TESSERA_ROLE": "worker", **self.tell_metrics(3)}
        )

    def build_beat_program(self) -> Program:
        return Program(
            "beat", [*CELERY, "beat"], self.log_path("beat"), {"TESSERA_ROLE": "beat", **self.tell_metrics(4)}
        )

    def tell_metrics(self, offset: int) -> dict[str, str]:
        """Return where a process tells its metrics: at a port after the portal's, and only to who has the token."""
        wanted = os.environ.get("TESSERA_METRICS_TOKEN") or os.environ.get("TESSERA_METRICS_TOKEN_FILE")
        return {"TESSERA_METRICS_LISTEN": f"127.0.0.1:{self.options.port + offset}"} if wanted else {}

    def run_first_run(self) -> str:
        """Set up a new installation, print how to sign in, and return its demo job, if any."""
        demo = ["--demo"] if self.options.demo_once else [] if self.options.no_demo else ["--demo-if-new"]
        told = json.loads(self.manage("first_run", *demo).splitlines()[-1])
        self.end_commands()
        say(f"\n  Tessera is open: {self.url}")
        if told.get("login_link"):
            say(f"  Sign in once with this link: {urljoin(self.url, told['login_link'])}")
        for note in told.get("notes", []):
            say(f"  Note: {note}")
        say("  Ctrl-C stops the platform; running jobs go on.\n")
        return told.get("demo_job") or ""

    def follow(self, job: str) -> int:
        """Stream a job's log; return 0 if it succeeded."""
        began = time.monotonic()
        self.follower = self.follower or self.start_follower()
        assert self.follower.stdin
        with self.follower.stdin as asked:
            asked.write(f"{job}\n")
        while (status := self.follower.poll()) is None:
            self.restart_dead()
            if self.options.demo_once and time.monotonic() - began > DEMO_LIMIT_S:
                raise Failure(f"{job} did not end within {DEMO_LIMIT_S} s.", f"See {self.data / 'logs-of-platform'}.")
            time.sleep(POLL_S)
        if status:
            say(f"{job} did not succeed. What the platform wrote: {self.data / 'logs-of-platform'}")
        return status

    def start_follower(self) -> subprocess.Popen:
        """Start a process that waits on stdin for a job."""
        return self.start_command(str(ROOT / "manage.py"), "follow_job", "-", stdin=subprocess.PIPE)

    def start_preparer(self) -> subprocess.Popen:
        return self.start_command("-m", "notebooks.build_environment", str(self.data))

    def restart_dead_forever(self) -> int:
        while True:
            self.restart_dead()
            time.sleep(POLL_S)

    def restart_dead(self) -> None:
        started = [child.program.name for child in [*self.servers, *self.apps] if child.restart_if_dead()]
        if started:
            say(f"Started again: {', '.join(started)}")
        if started or not self.running_is_written:
            self.write_running()
        if self.reserve and (told := self.reserve.tend()):
            say(told)

    def manage(self, *command: str) -> str:
        """Run a management command. Raises Failure."""
        assert self.commands and self.commands.stdin and self.commands.stdout
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(command), file=self.commands.stdin, flush=True)
        if answer := self.commands.stdout.readline():
            return json.loads(answer)
        last = "\n".join(tail(self.log_path("commands")).splitlines()[-8:])
        raise Failure(f"manage.py {command[0]} failed:\n{last}", f"All of it: {self.log_path('commands')}")

    def end_commands(self) -> None:
        if self.commands:
            self.commands.communicate()

    def start_command(
        self, *command: str, stdin: int = subprocess.DEVNULL, stdout: int | None = None
    ) -> subprocess.Popen:
        with open_log(self.log_path("commands")) as errors:
            return subprocess.Popen(
                [sys.executable, *command],
                stdin=stdin,
                stdout=stdout,
                stderr=errors,
                env={**os.environ, "TESSERA_ROLE": "command"},
                text=True,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def write_running(self) -> None:
        self.running_is_written = data_dir.write_running(
            self.data, self.url, {c.program.name: c.pid for c in [*self.servers, *self.apps]}
        )

    def log_path(self, name: str) -> Path:
        return self.data / "logs-of-platform" / f"{name}.log"

    def stop(self) -> None:
        """Stop everything within 10 s; another signal kills."""
        children = [*self.servers, *self.apps]
        on_stop_signals(lambda number, frame: self.give_up(children))
        for command in (self.commands, self.follower, self.preparer):
            if command and command.poll() is None:
                command.terminate()
        if self.preparer:
            kill_session(self.preparer.pid)  # its children would go on writing
        if children:
            with step("Stopping"):
                stop_all(self.apps, APPS_STOP_WITHIN_S)
                for server in reversed(self.servers):  # PostgreSQL last
                    stop_all([server], SERVERS_STOP_WITHIN_S)
        if self.run_dir:
            (self.data / "running.json").unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty: a running job may have a socket there
                self.run_dir.rmdir()

    def give_up(self, children: list[Child]) -> None:
        say("\nKilled what was still stopping; running jobs go on.")
        kill_all(children)
        os._exit(130)


def on_stop_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Handle stop signals, unless our caller ignores them (nohup)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def ask_to_stop(number: int, frame: FrameType | None) -> None:
    raise Stop


def is_live(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/livez", headers={"Host": f"localhost:{port}"})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@contextmanager
def step(what: str) -> Iterator[None]:
    began = time.monotonic()
    say(f"{what} ... ", end="")
    try:
        yield
    except BaseException:
        say("failed" if sys.exc_info()[0] is Failure else "")
        raise
    say(f"{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
