"""The SSH gateway as people meet it: the real web process, a real running task, and OpenSSH's own clients."""

import contextlib
import filecmp
import hashlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import make
import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from accounts.models import SshKey
from accounts.ssh_keys import add_ssh_key, remove_ssh_key
from events.models import Event
from jobs.models import Task
from jobs.states import TaskState
from tests.runtimes.worlds import LocalWorld, wait_for

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not shutil.which("ssh"), reason="needs the OpenSSH client"),
]
ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024
SFTP_SERVER = Path("/usr/lib/openssh/sftp-server")
needs_sftp = pytest.mark.skipif(not SFTP_SERVER.exists(), reason="needs openssh-sftp-server")


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=128)


class Gateway:
    """The web process with its SSH socket, which outlives it as under the supervisor; and the task behind it."""

    def __init__(self, home: Path, local: LocalWorld):
        self.home, self.local = home, local
        self.web_socket, self.ssh_socket = listener(), listener()
        self.port = self.ssh_socket.getsockname()[1]
        self.url = f"http://localhost:{self.web_socket.getsockname()[1]}"
        for name in ("ada", "eve"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / name], check=True)
        self.start()

    def start(self) -> None:
        environment = {
            **os.environ,
            "PGDATABASE": connection.settings_dict["NAME"],
            "TESSERA_DATA": str(self.local.base / "data"),
            "TESSERA_LISTEN_FDS": str(self.web_socket.fileno()),
            "TESSERA_SSH_FDS": str(self.ssh_socket.fileno()),
            "TESSERA_SSH_PORT": str(self.port),
            "TESSERA_PUBLIC_URL": self.url,
            "TESSERA_ROLE": "web",
            "TESSERA_SECRET_KEY": settings.SECRET_KEY,
        }
        fds = [self.web_socket.fileno(), self.ssh_socket.fileno()]
        self.process = subprocess.Popen([sys.executable, "-m", "config.web"], cwd=ROOT, env=environment, pass_fds=fds)

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(20) in {0, -signal.SIGTERM}

    @property
    def key_file(self) -> Path:
        return self.local.base / "data/ssh_host_ed25519_key"

    def options(self, who: str = "ada", batch: str = "yes") -> list[str]:
        known = self.home / "known_hosts"
        wait_for(lambda: Path(f"{self.key_file}.pub").exists())
        known.write_text(f"gateway {Path(f'{self.key_file}.pub').read_text()}")
        told = {
            "StrictHostKeyChecking": "yes", "UserKnownHostsFile": known, "HostKeyAlias": "gateway", "Port": self.port,
            "IdentityFile": self.home / who, "IdentitiesOnly": "yes", "BatchMode": batch, "ConnectTimeout": 20,
        }  # fmt: skip
        return ["-F", "none", *(part for name, value in told.items() for part in ("-o", f"{name}={value}"))]

    def ssh(self, *args, name="", who="ada", batch="yes", **also) -> subprocess.CompletedProcess:
        also = {"stdin": subprocess.DEVNULL} | also if "input" not in also else also
        command = ["ssh", *self.options(who, batch), "-l", name, "127.0.0.1", *args]
        return subprocess.run(command, capture_output=True, timeout=60, **also)


@pytest.fixture(scope="module")
def gateway(django_db_setup, tmp_path_factory):
    local = LocalWorld()
    gateway = Gateway(tmp_path_factory.mktemp("keys"), local)
    yield gateway
    gateway.stop()
    gateway.web_socket.close()
    gateway.ssh_socket.close()
    local.close()


@pytest.fixture
def world(gateway, transactional_db):
    """ada's running job, with a real process behind it, and a key each for her and for eve."""
    cast = make.cast()
    spec = gateway.local.spec("sleep 600")
    task = make.start(make.job(cast.ada, gpu="1/4", pool="dev"))[0]
    Task.objects.filter(pk=task.pk).update(uuid=spec.uuid)
    gateway.local.runtime.start(spec)
    gateway.local.until(spec.uuid, "running")
    wait_for(lambda: os.path.exists(gateway.local.task(spec.uuid) / "door"))
    for person in (cast.ada, cast.eve):
        add_ssh_key(user=person, key=(gateway.home / f"{person.username}.pub").read_text())
    yield SimpleNamespace(
        cast=cast, gateway=gateway, job=task.job, task=Task.objects.get(pk=task.pk), name=task.job.public_id
    )
    gateway.local.runtime.stop(spec.uuid, grace_s=0, epoch=1)
    wait_for(nobody_is_inside)  # so that nothing is written any more when the tables are emptied


def nobody_is_inside() -> bool:
    return Event.objects.filter(verb="entered").count() == Event.objects.filter(verb="left").count()


def ssh(world, *args, **also):
    return world.gateway.ssh(*args, **{"name": world.name, **also})


def test_a_command_runs_in_the_task_with_its_output_errors_and_exit_code(world):
    done = ssh(world, "echo out; echo err >&2; echo $TESSERA_TASK_UUID; exit 7")
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith(b"out\n") and done.stderr == b"err\n"


def test_standard_input_goes_in_to_its_end(world):
    sent = os.urandom(8 * MIB)
    done = ssh(world, "sha256sum; cat >/dev/null", input=sent)
    assert done.stdout.split()[0].decode() == hashlib.sha256(sent).hexdigest(), done.stderr


def test_a_large_output_comes_whole(world):
    done = ssh(world, f"head -c {64 * MIB} /dev/zero")
    assert (len(done.stdout), done.returncode) == (64 * MIB, 0)


def test_a_terminal_has_its_size_and_only_safe_variables(world):
    environment = {**os.environ, "TERM": "xterm-256color", "LC_TEST": "kept", "LD_PRELOAD_X": "gone"}
    done = ssh(world, "-tt", "-o", "SendEnv=LC_* LD_PRELOAD_X", "stty size; echo $TERM,$LC_TEST,$LD_PRELOAD_X",
               env=environment)  # fmt: skip
    assert b"24 80" in done.stdout and b"xterm-256color,kept,\r\n" in done.stdout, done.stdout


def test_an_unknown_key_is_refused(world):
    SshKey.objects.filter(user=world.cast.ada).delete()
    done = ssh(world, "true")
    assert done.returncode == 255 and b"Permission denied (publickey" in done.stderr


def test_a_person_with_an_unknown_key_is_told_where_to_add_it(world):
    SshKey.objects.filter(user=world.cast.ada).delete()
    done = ssh(world, "true", batch="no")
    assert done.returncode == 255 and b"None of your keys is known here" in done.stderr


def test_an_expired_key_is_refused_and_says_so(world):
    SshKey.objects.filter(user=world.cast.ada).update(expires_at=timezone.now())
    done = ssh(world, "true", batch="no")
    assert done.returncode == 255 and b"Your key has expired. Add a key: http" in done.stderr, done.stderr
    assert b"known here" not in done.stderr


@pytest.mark.parametrize("name", ["", "job-999999", "nobody", "job-1.main.0"])
def test_a_task_of_another_team_is_there_for_nobody_and_is_told_in_one_line(world, name):
    done = ssh(world, "true", who="eve", name=name or world.name)
    assert (done.returncode, done.stdout) == (255, b"")
    assert done.stderr.startswith(b"tessera: ") and done.stderr.count(b"\n") == 1, done.stderr


def test_a_task_that_has_ended_says_so(world):
    make.move(world.task, TaskState.STOPPING, "stopped_by_user")
    done = ssh(world, "true")
    assert done.returncode == 255 and b"is not running" in done.stderr


def test_a_session_is_in_the_history(world):
    ssh(world, "true")
    wait_for(lambda: Event.objects.filter(verb="left").exists())
    entered, left = Event.objects.filter(verb__in=("entered", "left")).order_by("pk")
    assert (entered.actor, entered.params["kind"], left.verb) == ("ada", "ssh", "left") and "seconds" in left.params


@needs_sftp
def test_sftp_brings_64_mb_there_and_back(world, tmp_path):
    round_trip(world, tmp_path, 64 * MIB)


@needs_sftp
@pytest.mark.slow
def test_sftp_brings_a_gigabyte_there_and_back(world, tmp_path):
    round_trip(world, tmp_path, 1024 * MIB)


def round_trip(world, tmp_path, size):
    piece = os.urandom(MIB)
    with open(tmp_path / "there", "wb") as file:
        for _ in range(size // MIB):
            file.write(piece)
    batch = f"put {tmp_path}/there big\nget big {tmp_path}/back\nrm big\n"
    command = ["sftp", "-q", *world.gateway.options(), "-b", "-", f"{world.name}@127.0.0.1"]
    done = subprocess.run(command, input=batch.encode(), capture_output=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert filecmp.cmp(tmp_path / "there", tmp_path / "back", shallow=False)


@needs_sftp
def test_scp_in_both_protocols(world, tmp_path):
    (tmp_path / "a").write_bytes(os.urandom(MIB))
    for protocol in ([], ["-O"]):
        copy = ["scp", "-q", *protocol, *world.gateway.options()]
        subprocess.run([*copy, tmp_path / "a", f"{world.name}@127.0.0.1:copied"], check=True, timeout=60)
        subprocess.run([*copy, f"{world.name}@127.0.0.1:copied", tmp_path / "b"], check=True, timeout=60)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.skipif(not shutil.which("rsync"), reason="needs rsync")
def test_rsync(world, tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "from/a").write_bytes(os.urandom(MIB))
    rsh = " ".join(["ssh", *world.gateway.options()])
    there = f"{world.name}@127.0.0.1:synced/"
    subprocess.run(["rsync", "-a", "-e", rsh, f"{tmp_path}/from/", there], check=True, timeout=60)
    subprocess.run(["rsync", "-a", "-e", rsh, there, f"{tmp_path}/to/"], check=True, timeout=60)
    assert (tmp_path / "to/a").read_bytes() == (tmp_path / "from/a").read_bytes()


@contextmanager
def forwarding(world, *args):
    command = ["ssh", *world.gateway.options(), "-N", "-o", "ExitOnForwardFailure=yes", *args]
    process = subprocess.Popen([*command, "-l", world.name, "127.0.0.1"], stderr=subprocess.PIPE)
    yield process
    process.terminate()
    process.wait(10)
    process.stderr.close()


def free_port() -> int:
    with listener() as sock:
        return sock.getsockname()[1]


def ask(port: int) -> bytes:
    """What the answer to a plain request is, b"" where the connection is closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            return b"".join(iter(lambda: sock.recv(65536), b""))
    return b""


def is_open(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serving(world):
    """A web server that a session started in the task. Its port."""
    port = free_port()
    command = ["ssh", *world.gateway.options(), "-l", world.name, "127.0.0.1",
               f"exec python3 -m http.server --bind 127.0.0.1 {port}"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: is_open(port))
    yield port
    process.terminate()
    process.wait(10)


def test_a_port_of_the_task_is_forwarded_and_no_other(world):
    local, foreign, low, outside = (free_port() for _ in range(4))
    with serving(world) as port, listener() as other:
        there = [f"{local}:localhost:{port}", f"{foreign}:127.0.0.1:{other.getsockname()[1]}",
                 f"{low}:localhost:80", f"{outside}:192.0.2.1:8000"]  # fmt: skip
        with forwarding(world, *(part for one in there for part in ("-L", one))):
            wait_for(lambda: is_open(outside))
            assert b"200 OK" in ask(local)
            for refused in (foreign, low, outside):
                assert ask(refused) == b""


def test_remote_agent_and_x11_forwarding_are_refused(world):
    remote = ssh(world, "-o", "ExitOnForwardFailure=yes", "-R", f"{free_port()}:localhost:22", "true")
    assert remote.returncode == 255 and b"remote port forwarding failed" in remote.stderr
    environment = {**os.environ, "DISPLAY": ":99"}
    seen = ssh(world, "-A", "-X", "echo agent=$SSH_AUTH_SOCK display=$DISPLAY", env=environment)
    assert seen.stdout == b"agent= display=\n", seen


def test_a_second_login_through_the_first_reaches_a_task_by_its_host_name(world, tmp_path):
    config = tmp_path / "config"
    lines = [f"  {one.replace('=', ' ', 1)}" for one in world.gateway.options()[3::2]]
    jump = ["Host gateway", "  HostName 127.0.0.1", "  User anybody", *lines]
    inside = [line for line in lines if not line.startswith("  Port")]
    config.write_text("\n".join([*jump, "Host job-*", "  ProxyJump gateway", *inside, ""]))
    done = subprocess.run(["ssh", "-F", config, world.name, "echo here"], capture_output=True, timeout=60)
    assert done.stdout == b"here\n", done.stderr


def test_what_a_remote_editor_does_first(world, tmp_path):
    """VS Code's way in: a script on standard input to `bash -s`, a server that it unpacks and leaves running on
    loopback, and a dynamic forward to that server."""
    port, socks = free_port(), free_port()
    pack = io.BytesIO()
    with tarfile.open(fileobj=pack, mode="w:gz") as tar:
        body = f"exec python3 -m http.server --bind 127.0.0.1 {port}\n".encode()
        entry = tarfile.TarInfo("server/run.sh")
        entry.size = len(body)
        tar.addfile(entry, io.BytesIO(body))
    assert ssh(world, "cat > server.tar.gz", input=pack.getvalue()).returncode == 0
    script = b"tar xzf server.tar.gz && (setsid nohup bash server/run.sh >server.log 2>&1 </dev/null &)\necho up==$?\n"
    with forwarding(world, "-D", str(socks)):
        assert b"up==0" in ssh(world, "bash", "-s", input=script).stdout
        wait_for(lambda: is_open(port) and is_open(socks))
        with socket.create_connection(("127.0.0.1", socks), timeout=20) as sock:
            sock.sendall(b"\x05\x01\x00")
            assert sock.recv(2) == b"\x05\x00"
            sock.sendall(b"\x05\x01\x00\x01" + socket.inet_aton("127.0.0.1") + port.to_bytes(2, "big"))
            assert sock.recv(10)[1] == 0
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert sock.recv(65536).startswith(b"HTTP/1.0 200")


@pytest.fixture
def tessera(world, tmp_path):
    """Runs the command as a program of its own, with ada's token, and a home of its own whose SSH key is hers."""
    world.gateway.options()  # waits until the gateway answers
    (tmp_path / ".ssh").mkdir()
    for name in ("ada", "ada.pub"):
        shutil.copy(world.gateway.home / name, tmp_path / ".ssh" / name.replace("ada", "id_ed25519"))
    environment = {
        **os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "TESSERA_URL": world.gateway.url, "TESSERA_TOKEN": make.token(world.cast.ada), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    # ssh takes the home of the account, not HOME: the key is named, as an agent would
    run = {"env": environment, "capture_output": True, "timeout": 60, "cwd": tmp_path, "stdin": subprocess.DEVNULL}
    wrapper = tmp_path / "bin"
    wrapper.mkdir()
    for program in ("ssh", "scp"):
        (wrapper / program).write_text(
            f'#!/bin/sh\nexec {shutil.which(program)} -F none -i {tmp_path}/.ssh/id_ed25519 "$@"\n'
        )
        (wrapper / program).chmod(0o755)
    environment["PATH"] = f"{wrapper}:{os.environ['PATH']}"
    return lambda *args, **also: subprocess.run([sys.executable, "-m", "cli", *args], **{**run, **also})


def test_the_command_line_runs_a_program_and_ends_with_its_exit_code(world, tessera):
    done = tessera("exec", world.name, "--", "sh", "-c", "printf '%s|' \"$@\"; exit 7", "sh", "two words", "$HOME")
    assert (done.returncode, done.stdout) == (7, b"two words|$HOME|"), done.stderr
    assert tessera("ssh", world.name, "--", "echo", "here").stdout == b"here\n"
    nobody = tessera("exec", "job-999999", "--", "true")
    assert nobody.returncode == 255 and nobody.stderr.startswith(b"tessera: ")


@needs_sftp
def test_the_command_line_copies_in_and_out(world, tessera, tmp_path):
    (tmp_path / "a").write_bytes(os.urandom(MIB))
    assert tessera("cp", "a", f"{world.name}:there").returncode == 0
    assert tessera("cp", f"{world.name}:there", "b").returncode == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert tessera("cp", "a", "b").returncode == 2


def test_the_written_ssh_config_serves_plain_ssh_and_keeps_what_was_there(world, tessera, tmp_path):
    own = tmp_path / ".ssh/config"
    own.write_text("Host elsewhere\n  Port 2222\n")
    assert b"would be written" in tessera("ssh-config", "--dry-run").stdout
    assert own.read_text().startswith("Host")
    for _ in range(2):
        assert tessera("ssh-config", "--write").returncode == 0
    assert own.read_text().count("Include") == 1 and own.read_text().endswith("Host elsewhere\n  Port 2222\n")
    key = ["-i", str(tmp_path / ".ssh/id_ed25519")]
    plain = ["/usr/bin/env", "ssh", "-F", str(own), *key, "-o", "BatchMode=yes"]
    jump = own.read_text() + f"Host *\n  IdentityFile {tmp_path}/.ssh/id_ed25519\n"
    own.write_text(jump)
    done = subprocess.run([*plain, world.name, "echo here"], capture_output=True, timeout=60)
    assert done.stdout == b"here\n", done.stderr


def test_the_command_line_adds_lists_and_removes_a_key(world, tessera):
    SshKey.objects.all().delete()
    assert b"opens your notebooks" in tessera("ssh-key", "add", "--name", "laptop").stdout
    assert b"laptop" in tessera("ssh-key", "ls").stdout
    assert b"private half" in tessera("ssh-key", "add", ".ssh/id_ed25519").stderr
    assert tessera("ssh-key", "rm", "laptop").returncode == 0
    assert not SshKey.objects.exists() and tessera("ssh-key", "rm", "laptop").returncode == 3


@pytest.mark.slow
def test_fifty_sessions_at_once(world):
    command = ["ssh", *world.gateway.options(), "-l", world.name, "127.0.0.1", "cat"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    sessions = [subprocess.Popen(command, **pipes) for _ in range(50)]
    for number, session in enumerate(sessions):
        session.stdin.write(b"%d\n" % number)
        session.stdin.flush()
    assert [session.stdout.readline() for session in sessions] == [b"%d\n" % number for number in range(50)]
    assert [session.communicate(timeout=60) and session.returncode for session in sessions] == [0] * 50


def test_a_killed_web_process_ends_the_connection_and_the_next_has_the_same_host_key(world):
    gateway, before = world.gateway, world.gateway.key_file.read_bytes()
    command = ["ssh", *gateway.options(), "-l", world.name, "127.0.0.1", "echo in; sleep 100"]
    session = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert session.stdout.readline() == b"in\n"
    gateway.process.kill()
    gateway.process.wait()
    assert session.wait(20) == 255 and b"closed" in session.stderr.read()
    Event.objects.filter(verb="entered").delete()  # nobody was left to write the end of this session
    session.stdout.close()
    session.stderr.close()
    gateway.start()
    assert ssh(world, "echo again").stdout == b"again\n"
    assert gateway.key_file.read_bytes() == before and gateway.key_file.stat().st_mode & 0o777 == 0o600


def test_a_platform_that_stops_says_so(world):
    command = ["ssh", *world.gateway.options(), "-l", world.name, "127.0.0.1", "echo in; sleep 100"]
    session = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert session.stdout.readline() == b"in\n"
    began = time.monotonic()
    world.gateway.stop()
    assert time.monotonic() - began < 10
    assert b"The platform is restarting" in session.communicate(timeout=20)[1]
    world.gateway.start()


@pytest.mark.slow
def test_a_removed_key_closes_within_half_a_minute_what_it_had_opened(world):
    command = ["ssh", *world.gateway.options(), "-l", world.name, "127.0.0.1", "echo in; sleep 100"]
    session = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert session.stdout.readline() == b"in\n"
    remove_ssh_key(user=world.cast.ada, key_id=world.cast.ada.ssh_keys.get().pk)
    assert b"tessera: You may not stay here any more." in session.communicate(timeout=30)[1]
    assert session.returncode == 255
