"""Getting into a pod as a person does: the terminal and a port in Chromium, the command line, OpenSSH and its files.

All of it on the platform that `bin/start --cluster` starts: through its web process, SSH gateway and the API server.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.stack import ROOT, Stack, free_port, running_stack
from config.embedded.data_dir import MARK
from dev.cluster.registry import default_image
from tests.runtimes.kubernetes.world import PYTHON, leave_nothing
from tests.terminal_page import run, sees, size_of, state_is

pytestmark = [pytest.mark.kubernetes, pytest.mark.browser, pytest.mark.slow]
pytestmark += [pytest.mark.timeout(600, func_only=True)]  # to wait for the cluster may take longer

BESIDE_OTHERS = True
SERVES = """\
import functools, http.server, os
os.makedirs("www", exist_ok=True)
open("www/index.html", "w").write("<title>from a pod</title>")
page = functools.partial(http.server.SimpleHTTPRequestHandler, directory="www")
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["TESSERA_PORT_8000"])), page).serve_forever()
"""
SMALL = {"gpu": "1/4", "cpu": 0.1, "memory": "128MB", "image": PYTHON}


@pytest.fixture(scope="module")
def stack(kubeconfig):
    with running_stack(cluster={"KUBECONFIG": str(kubeconfig), "TESSERA_IMAGE": default_image()}) as stack:
        install = (stack.data / MARK).read_text()
        try:
            yield stack
        finally:
            stack.end_jobs()
            leave_nothing(kubeconfig, install, within_s=60)


@pytest.fixture(scope="module")
def job(stack) -> str:
    """A quarter of a simulated GPU in a pod that has Python, and serves a page on its own loopback."""
    made = stack.api(
        "POST", "/jobs", {"run": f"cat >s.py <<'END'\n{SERVES}END\nexec python3 s.py", "ports": [8000], **SMALL}
    )
    stack.wait_for(made["id"], "running", seconds=90)
    return made["id"]


@pytest.fixture(scope="module")
def page(stack, chromium):
    context = chromium.new_context(base_url=stack.url, viewport={"width": 1000, "height": 700})
    page = context.new_page()
    page.goto(stack.login_link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{stack.url}/")
    yield page
    context.close()


class Person:
    """Somebody with the command line, OpenSSH and a key, in a home of their own."""

    def __init__(self, stack: Stack, home: Path):
        self.home = home
        self.key = key = home / ".ssh/id_ed25519"
        key.parent.mkdir()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        for program in ("ssh", "scp", "sftp"):  # they take the home of the account, not HOME
            wrapper = home / "bin" / program
            wrapper.parent.mkdir(exist_ok=True)
            wrapper.write_text(f'#!/bin/sh\nexec {shutil.which(program)} -F none -i {key} "$@"\n')
            wrapper.chmod(0o755)
        self.environment = {
            **os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "TESSERA_URL": stack.url,
            "TESSERA_TOKEN": stack.token, "PYTHONPATH": str(ROOT), "PATH": f"{home}/bin:{os.environ['PATH']}",
        }  # fmt: skip
        assert self.tessera("ssh-key", "add").returncode == 0

    def tessera(self, *args: str) -> subprocess.CompletedProcess:
        return self.do(sys.executable, "-m", "cli", *args)

    def do(self, *command: object, **more) -> subprocess.CompletedProcess:
        options = {"env": self.environment, "cwd": self.home, "capture_output": True, "timeout": 120, **more}
        return subprocess.run([str(word) for word in command], **{"stdin": subprocess.DEVNULL, **options})


@pytest.fixture(scope="module")
def person(stack, tmp_path_factory):
    if not shutil.which("ssh"):
        pytest.skip("needs the OpenSSH client")
    return Person(stack, tmp_path_factory.mktemp("home"))


@pytest.fixture
def terminal(page, job):
    """A tab of its own, so a shell of its own."""
    tab = page.context.new_page()
    tab.goto(f"/terminal/{job}/")
    state_is(tab, "connected")
    yield tab
    tab.close()


def test_the_terminal_of_a_pod_types_follows_the_window_and_holds_the_slice(terminal):
    page = terminal
    run(page, "echo $((6 * 7))''is typed, $TESSERA_GPU_MEMORY_MIB MiB as $(id -un) in $PWD")
    sees(page, "42is typed, 8127 MiB as admin in /tessera/work")
    rows, columns = size_of(page, "wide")
    page.set_viewport_size({"width": 700, "height": 500})
    sizes = (size_of(page, f"narrow{number}") for number in range(30))  # the new one is on its way
    assert any(fewer_rows < rows and fewer_columns < columns for fewer_rows, fewer_columns in sizes)


def test_a_cut_connection_finds_the_same_shell_in_the_pod(terminal):
    page = terminal
    run(page, "kept=7; echo re''ady")
    sees(page, "ready")
    page.context.set_offline(True)
    state_is(page, "lost")
    page.context.set_offline(False)
    state_is(page, "again")
    run(page, "echo it-is-$kept")
    sees(page, "it-is-7")
    run(page, "exit 3")
    sees_end(page)


def sees_end(page) -> None:
    page.wait_for_selector("#terminal-state:has-text('The shell has ended with code 3.')")


def test_a_declared_port_of_a_pod_opens_in_the_browser(page, stack, job):
    page.goto(f"{stack.url}/j/{job}/")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name=re.compile("Port 8000")).first.click()
    opened.value.wait_for_load_state()
    assert opened.value.title() == "from a pod"
    opened.value.close()


def test_the_command_line_runs_a_program_in_the_pod(person, job):
    done = person.tessera("exec", job, "--", "sh", "-c", "printf '%s|' \"$@\"; echo err >&2; exit 7", "sh", "two words")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"two words|", b"err\n")
    assert person.tessera("ssh", job, "--", "echo", "here").stdout == b"here\n"


def test_openssh_forwards_a_port_of_the_pod(person, stack, job):
    assert person.tessera("ssh-config", "--write").returncode == 0
    config, port = person.home / ".ssh/config", free_port()
    with config.open("a") as more:  # for the login before the login, too
        more.write(f"Host *\n  IdentityFile {person.key}\n")
    ssh = [str(shutil.which("ssh")), "-F", str(config), "-o", "BatchMode=yes"]
    told = person.do(*ssh, job, "echo $TESSERA_PORT_8000")
    assert told.returncode == 0, told.stderr
    with subprocess.Popen([*ssh, "-N", "-L", f"{port}:localhost:{int(told.stdout)}", job]) as client:
        try:
            assert b"from a pod" in get(port)
        finally:
            client.kill()


def get(port: int) -> bytes:
    until = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
                sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return b"".join(iter(lambda: sock.recv(65536), b""))
        except ConnectionRefusedError:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_files_go_in_and_out_of_a_pod_whose_image_has_no_sftp_server(person, job):
    """By `tessera cp`, so by OpenSSH's scp: a tree, and a file that is larger than what may be on its way."""
    (person.home / "tree/in ner").mkdir(parents=True)
    (person.home / "tree/in ner/small").write_text("small")
    large = os.urandom(8 * 1024 * 1024 + 3)
    (person.home / "large").write_bytes(large)
    there = f"{job}:"
    for source, target in (("tree", there), ("large", there), (f"{there}tree", "back"), (f"{there}large", "came")):
        done = person.tessera("cp", source, target)
        assert done.returncode == 0, done.stderr
    assert (person.home / "back/in ner/small").read_text() == "small"
    assert (person.home / "came").read_bytes() == large
    assert b"sftp-server" not in person.tessera("exec", job, "--", "sh", "-c", "ls /usr/lib/openssh; true").stdout
