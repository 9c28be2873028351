"""`bin/test` and `bin/bench`: run a command beside throw-away servers.

``python -m dev.testing [--all] [pytest arguments]`` or ``python -m dev.testing --run PROGRAM [ARGUMENT...]``.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from config.embedded.servers import build_postgres_program, build_valkey_program, create_database
from config.embedded.supervisor import Child, Failure, kill_all, stop_all

ROOT = Path(__file__).resolve().parents[1]
QUICK = "not slow and not kubernetes"
WORKERS = min(2 * (os.cpu_count() or 1), 16)


def main(arguments: list[str]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):  # exit normally, so that the servers are removed
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    running = arguments[:1] == ["--run"]
    command = arguments[1:] if running else pytest_command(arguments)
    try:
        with throw_away_servers(durable=running) as environment:
            return run(command, environment | ({} if running else examples(arguments)))
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1


@contextmanager
def throw_away_servers(durable: bool = False) -> Iterator[dict[str, str]]:
    """Run empty PostgreSQL and Valkey; yield the environment for settings.

    durable: keep fsync, as bin/start does, for measurements.
    """
    began = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="tessera-"))
    home.chmod(0o711)  # jobs of tests, under accounts of their own, pass to the notebooks' environment that tests share
    children: list[Child] = []
    try:
        (home / "run").mkdir(mode=0o700)
        run, logs = home / "run", {name: home / f"{name}.log" for name in ("postgres", "valkey")}
        postgres = build_postgres_program(home / "postgres", run, logs["postgres"], throw_away=not durable)
        for program in (postgres, build_valkey_program(home / "valkey", run, logs["valkey"])):
            children.append(Child(program))
            children[-1].start()
        for child in children:
            child.wait_until_ready(30)
        create_database(home / "run")
        print(f"PostgreSQL and Valkey started in {time.monotonic() - began:.1f} s", flush=True)
        yield environment_of(home)
        stop_all(children, within_s=5)
    finally:
        kill_all(children)
        shutil.rmtree(home, ignore_errors=True)


def environment_of(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "TESSERA_VALKEY"))}
    return kept | {
        "TESSERA_DATA": str(home / "data"),
        "TESSERA_RUN": str(home / "run"),
        "TESSERA_STACK_DATABASE": str(home / "stack-database"),
        "TESSERA_ROLE": "command",
        "TESSERA_EMBEDDED": "1",
        "TESSERA_PIN_IMAGES": "0",  # ask no public registry
        "TESSERA_IMAGES_MIB": "0",  # so that pages and answers are the same with and without podman
        "TESSERA_TASK_NETWORKS": "0",  # the same with and without pasta
        "TESSERA_CLOCK_STEADY_S": "0",  # tests set the clock, and mean it
        "TESSERA_VALKEY_SOCK": str(home / "run/valkey.sock"),
        "PGHOST": str(home / "run"),
        "PGUSER": "tessera",
        "PGDATABASE": "tessera",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'platform'}",
        "PYTEST_PLUGINS": "tests.valkey_database",
    }


def pytest_command(arguments: list[str]) -> list[str]:
    """Return pytest's command, by default for quick tests."""
    given = [argument for argument in arguments if argument != "--all"]
    command = [sys.executable, "-m", "pytest"]
    if not any(argument.startswith(("-n", "--pdb")) for argument in given):
        command += ["-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder"]
    if not chooses(arguments):
        command += ["-m", QUICK]
    return command + given


def examples(arguments: list[str]) -> dict[str, str]:
    """Return variables for fewer property-test examples."""
    return {} if chooses(arguments) else {"TESSERA_FEWER_EXAMPLES": "1"}


def chooses(arguments: list[str]) -> bool:
    return any(argument == "--all" or argument.startswith("-m") for argument in arguments)


def run(command: list[str], environment: dict[str, str]) -> int:
    """Run a command; on Ctrl-C wait for its summary."""
    process = subprocess.Popen(command, env=environment, cwd=ROOT)
    try:
        return process.wait()
    except KeyboardInterrupt:
        return process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(10)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
