"""How VS Code's Remote-SSH comes in, walked with the OpenSSH client and a small server in the place of its own.

`ssh -T -D PORT HOST bash` gets a script on its standard input. That looks around, waits for the server's archive (which
comes by scp where the machine cannot download it), unpacks it below ~/.vscode-server, starts it in the background of
that plain bash, without setsid or nohup, and prints where it listens. All else goes through the dynamic forward, and
who comes back after the connection was lost runs the same script and expects the same server.
"""

import io
import socket
import subprocess
import tarfile
from contextlib import contextmanager

import pytest

from events.models import Event
from tests.runtimes.worlds import wait_for
from tests.ssh_gateway import client, free_port, is_open, needs_sftp, ssh

pytestmark = pytest.mark.django_db(transaction=True)

ARCHIVE = "vscode-server.tar.gz"
SERVER = b"""
import os, socket
listener = socket.create_server(("127.0.0.1", 0))
print(f"Extension host agent listening on {listener.getsockname()[1]}", flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(b"%d" % os.getpid())
    connection.close()
"""
SCRIPT = f"""
echo "a1b2: start"
PLACE="$HOME/.vscode-server"; LOG="$PLACE/server.log"; PID="$PLACE/server.pid"
mkdir -p "$PLACE" && cd "$PLACE" || {{ echo "exitCode==1=="; exit 1; }}
if [ -f "$PID" ] && kill -0 "$(cat "$PID")" 2>/dev/null; then found=1; else
  found=0
  echo "a1b2:trigger_server_download"; echo "destFolder==$PLACE=="; echo "a1b2:trigger_server_download_end"
  while [ ! -f {ARCHIVE}.done ]; do sleep 0.05; done
  tar xzf {ARCHIVE}
  python3 server/main.py >"$LOG" 2>&1 </dev/null &
  echo $! >"$PID"
  sh -c 'trap "" HUP; while :; do sleep 0.1; done' & echo $! >stubborn
fi
for i in $(seq 200); do
  port="$(sed -n 's/.*listening on //p' "$LOG" 2>/dev/null)"; [ -n "$port" ] && break; sleep 0.05
done
echo "SSH_AUTH_SOCK==$SSH_AUTH_SOCK=="; echo "listeningOn==$port=="; echo "found==$found=="
echo "arch==$(uname -m)=="; echo "platform==$(uname -s)=="; echo "a1b2: end"
"""


@needs_sftp
def test_the_server_of_a_remote_editor_is_found_again_after_the_connection_was_lost(world, tmp_path):
    with editor(world) as (client, socks):
        send_server(world, tmp_path, said(client, "a1b2:trigger_server_download_end")["destFolder"])
        first = said(client, "a1b2: end")
        assert (first["found"], first["platform"], first["SSH_AUTH_SOCK"]) == ("0", "Linux", "")
        pid = through(socks, int(first["listeningOn"]))
        client.kill()
    wait_for(lambda: Event.objects.filter(verb="left").count() == Event.objects.filter(verb="entered").count())
    gone = 'while kill -0 "$(cat ~/.vscode-server/stubborn)" 2>/dev/null; do sleep 0.05; done'
    assert ssh(world, gone).returncode == 0  # what held the session's output was killed with it
    with editor(world) as (client, socks):
        again = said(client, "a1b2: end")
        assert (again["found"], again["listeningOn"]) == ("1", first["listeningOn"])
        assert through(socks, int(again["listeningOn"])) == pid
    world.gateway.local.runtime.stop(world.task.uuid.hex, grace_s=0, epoch=5)
    wait_for(lambda: not is_open(int(first["listeningOn"])))  # nothing outlives its task


@contextmanager
def editor(world):
    """(the client in which the script runs and whose input stays open, the port of its dynamic forward)."""
    socks = free_port()
    command = ["ssh", *world.gateway.options(), "-T", "-D", str(socks), "-l", world.name, "127.0.0.1", "bash"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with client(command, **pipes, text=True) as process:
        process.stdin.write(SCRIPT)
        process.stdin.flush()
        yield process, socks


def said(client: subprocess.Popen, until: str) -> dict[str, str]:
    """What the script found out, up to the line that begins so: `name==value==`, as Remote-SSH reads it."""
    found = {}
    for line in client.stdout:
        name, is_value, value = line.rstrip().removesuffix("==").partition("==")
        found |= {name: value} if is_value else {}
        if line.startswith(until):
            return found
    raise AssertionError(f"it ended: {found}, {client.stderr.read()}")


def send_server(world, place, folder: str) -> None:
    """The archive, and after it an empty file that says so."""
    with tarfile.open(place / ARCHIVE, mode="w:gz") as tar:
        entry = tarfile.TarInfo("server/main.py")
        entry.size = len(SERVER)
        tar.addfile(entry, io.BytesIO(SERVER))
    (place / f"{ARCHIVE}.done").touch()
    for name in (ARCHIVE, f"{ARCHIVE}.done"):
        there = f"{world.name}@127.0.0.1:{folder}/"
        subprocess.run(["scp", "-q", *world.gateway.options(), place / name, there], check=True, timeout=60)


def through(socks: int, port: int) -> bytes:
    """What the server answers through the dynamic forward (RFC 1928, without authentication)."""
    wait_for(lambda: is_open(socks))
    with socket.create_connection(("127.0.0.1", socks), timeout=20) as sock:
        sock.sendall(b"\x05\x01\x00")
        assert sock.recv(2) == b"\x05\x00"
        sock.sendall(b"\x05\x01\x00\x01" + socket.inet_aton("127.0.0.1") + port.to_bytes(2, "big"))
        assert sock.recv(10)[1] == 0
        return b"".join(iter(lambda: sock.recv(4096), b""))
