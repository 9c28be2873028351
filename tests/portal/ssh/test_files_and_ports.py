"""Files and ports through the SSH gateway: sftp, scp, rsync and forwarding, by OpenSSH's own programs."""

import filecmp
import os
import shutil
import subprocess

import pytest

from tests.runtimes.worlds import wait_for
from tests.ssh_gateway import MIB, ask, forwarding, free_port, is_open, listener, needs_sftp, serving, ssh
from tests.whole import part_of

pytestmark = pytest.mark.django_db(transaction=True)


@needs_sftp
@pytest.mark.slow
def test_sftp_brings_64_mb_there_and_back(world, tmp_path):
    round_trip(world, tmp_path, 64 * MIB)


@needs_sftp
@pytest.mark.slow
def test_sftp_brings_a_gigabyte_or_a_part_of_it_there_and_back(world, tmp_path):
    round_trip(world, tmp_path, part_of(1024, 200) * MIB)


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


@needs_sftp
def test_a_tilde_is_where_sftp_begins_and_a_whole_path_reaches_the_home(world, tmp_path):
    """OpenSSH's client takes the place where a session begins for the home, and strips ~/ by itself."""
    (tmp_path / "a").write_text("kept")
    home = ssh(world, "echo $HOME").stdout.decode().strip()
    for there, found in (("~/tilde", "tilde"), (f"{home}/whole", "$HOME/whole"), ("-O", "$HOME/old")):
        protocol, there = (["-O"], "~/old") if there == "-O" else ([], there)
        copy = ["scp", "-q", *protocol, *world.gateway.options(), tmp_path / "a", f"{world.name}@127.0.0.1:{there}"]
        subprocess.run(copy, check=True, timeout=60)
        assert ssh(world, f"cat {found}").stdout == b"kept", there


@pytest.mark.skipif(not shutil.which("rsync"), reason="needs rsync")
def test_rsync(world, tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "from/a").write_bytes(os.urandom(MIB))
    rsh = " ".join(["ssh", *world.gateway.options()])
    there = f"{world.name}@127.0.0.1:synced/"
    subprocess.run(["rsync", "-a", "-e", rsh, f"{tmp_path}/from/", there], check=True, timeout=60)
    subprocess.run(["rsync", "-a", "-e", rsh, there, f"{tmp_path}/to/"], check=True, timeout=60)
    assert (tmp_path / "to/a").read_bytes() == (tmp_path / "from/a").read_bytes()


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
