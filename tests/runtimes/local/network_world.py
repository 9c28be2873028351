"""A machine of its own for tests of jobs' networks: a namespace with a neighbour, of which no packet leads further.

`machine()` is a program in it, run by `unshare --net --mount`: it has jobs, of two people, try what they reach.
"""

import asyncio
import ctypes
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from runtimes.local.isolation import CLONE_NEWNET
from tests.runtimes.worlds import LocalWorld

REQUIRED = "TESSERA_REQUIRE_PASTA"
PUBLIC, PUBLIC_6 = "203.0.113.9", "2001:db8:9::9"
OWN, OWN_6 = "198.51.100.2", "2001:db8::2"
NEIGHBOUR = {
    "public": PUBLIC,
    "public by IPv6": PUBLIC_6,
    "private": "10.77.0.1",
    "link-local": "169.254.77.1",
    "unique local": "fd77::1",
}
WEB, DATABASE, SERVICE, DECLARED = 8470, 5432, 7000, 6379
NAME_SERVER = "127.0.0.53"
TRY = """
import json, socket, subprocess, sys
def ask(host, port):
    try:
        with socket.create_connection((host, port), 10) as conn:
            return conn.recv(99).decode()
    except OSError as error:
        return ""
def resolve():
    server = [line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver")][0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(2)
        try:
            asking.sendto(b"who", (server, 53))
            return asking.recv(99).decode()
        except OSError:
            return ""
opened = subprocess.run(["/usr/sbin/ip", "rule", "del", "to", "10.0.0.0/8"], capture_output=True).returncode == 0
said = {name: ask(*where) for name, where in json.loads(sys.argv[1]).items()}
said |= {"names": resolve(), "opened by itself": "yes" if opened else ""}
print(json.dumps({name: words for name, words in said.items() if words}))
"""
SERVE = f"""
import socket
listener = socket.create_server(("", {DECLARED}))
print("up", flush=True)
while True:
    conn, _ = listener.accept()
    conn.sendall(__import__("os").environ["USER"].encode())
    conn.close()
"""


def make_network_world(**options) -> LocalWorld:
    """A world where jobs have networks of their own, if this machine can; skip, unless that is demanded."""
    world = LocalWorld(networks=True, **options)
    words = world.runtime.machine.networks.words
    if words and os.environ.get(REQUIRED) != "1":
        print(f"NO NETWORKS OF JOBS' OWN HERE: {words}", file=sys.stderr)
    else:
        assert not words, words
    return world


def ask_on_machine(**options) -> dict:
    """Run `machine` with options of the local runtime; return what it says. Skips where no machine can be made."""
    missing = [
        name for name in ("ip", "pasta", "unshare") if shutil.which(name, path="/usr/sbin:/usr/bin:/bin") is None
    ]
    missing += ["root"] if os.geteuid() != 0 else []
    if missing and os.environ.get(REQUIRED) != "1":
        pytest.skip(f"NO NETWORKS OF JOBS' OWN HERE: without {missing}")
    assert not missing, missing
    code = "import sys; from tests.runtimes.local.network_world import machine; machine(sys.argv[1])"
    command = ["unshare", "--net", "--mount", sys.executable, "-c", code, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def machine(options: str) -> None:
    """Print what a job reaches, by name, and what is to be known besides."""
    told = json.loads(options)
    url, places = told.pop("url", ""), told.pop("places", {})
    with _Wires():
        world = LocalWorld(gpus_text="none", **told)
        try:
            print(json.dumps(_ask_all(world, url, places)))
        finally:
            world.close()


def _ask_all(world: LocalWorld, url: str, places: dict) -> dict:
    bob = world.spec(f"exec python3 -c '{SERVE}'", uid=20002, user="bob")
    world.runtime.start(bob)
    while "up" not in world.log(bob.uuid):
        assert world.view(bob.uuid).phase != "exited", world.view(bob.uuid)
    wanted = {name: (address, SERVICE) for name, address in NEIGHBOUR.items()} | {
        "web": ("127.0.0.1", WEB),
        "database": ("127.0.0.1", DATABASE),
        "web at the machine's address": (OWN, WEB),
        "web at the machine's IPv6 address": (OWN_6, WEB),
        "another's declared port": ("127.0.0.1", DECLARED),
        "another's declared port at the machine's address": (OWN, DECLARED),
        **places,
    }
    path = world.base / "try.py"
    path.write_text(TRY)
    ada = world.spec(f"python3 {path} {shlex.quote(json.dumps(wanted))}", platform_url=url)
    world.runtime.start(ada)
    view = world.until(ada.uuid, "exited")
    assert view.exit_code == 0, (view.detail, world.log(ada.uuid))
    return {
        "reached": json.loads(world.log(ada.uuid)),
        "dialled": asyncio.run(_dial(world, bob.uuid)),
        "works": world.runtime.machine.networks.words,
    }


async def _dial(world: LocalWorld, uuid: str) -> str:
    conn = await world.access().dial(uuid, DECLARED)
    with conn:
        return (await asyncio.get_running_loop().sock_recv(conn, 99)).decode()


class _Wires:
    """The machine's interface, with a neighbour at its other end, and what listens on both."""

    def __enter__(self) -> None:
        self.made, up = threading.Event(), threading.Event()
        threading.Thread(target=self._be_neighbour, args=(up,), daemon=True).start()
        self.made.wait()
        _ip(f"link add wire type veth peer name wire netns {self.neighbour}")
        addresses = [f"{OWN}/24", "10.77.0.2/24", "169.254.77.2/16", f"{OWN_6}/64", "fd77::2/64"]
        _set_up("wire", addresses)
        up.set()
        self.made.clear()
        self.made.wait()
        _ip("route add default via 198.51.100.1")
        _ip("-6 route add default via 2001:db8::1")
        for address, port, words in ((OWN, WEB, "web"), (OWN_6, WEB, "web"), ("127.0.0.1", WEB, "web")):
            _serve(address, port, words)
        _serve("127.0.0.1", DATABASE, "database")
        _answer_names()
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write(f"nameserver {NAME_SERVER}\n")
        self.resolv_conf = Path(file.name)
        self.resolv_conf.chmod(0o644)
        subprocess.run(["mount", "--bind", file.name, "/etc/resolv.conf"], check=True)

    def __exit__(self, *_) -> None:
        self.resolv_conf.unlink()

    def _be_neighbour(self, up: threading.Event) -> None:
        """In a thread with a network namespace of its own."""
        assert ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0
        self.neighbour = threading.get_native_id()
        self.made.set()
        up.wait()
        addresses = ["198.51.100.1/24", "10.77.0.1/24", "169.254.77.1/16", "2001:db8::1/64", "fd77::1/64"]
        _set_up("wire", addresses)
        _set_up("lo", [f"{PUBLIC}/32", f"{PUBLIC_6}/128"])
        _serve("::", SERVICE, "neighbour")
        _serve("::", SERVICE + 1, "neighbour's other")
        self.made.set()
        threading.Event().wait()


def _set_up(interface: str, addresses: list[str]) -> None:
    Path(f"/proc/sys/net/ipv6/conf/{interface}/accept_dad").write_text("0")  # else IPv6 waits for a second
    for address in addresses:
        _ip(f"address add {address} dev {interface}{' nodad' if ':' in address else ''}")
    _ip(f"link set {interface} up")
    _ip("link set lo up")


def _ip(words: str) -> None:
    subprocess.run(["/usr/sbin/ip", *words.split()], check=True)


def _serve(address: str, port: int, words: str) -> None:
    """Tell words to whoever connects, in the calling thread's network."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family, dualstack_ipv6=address == "::")

    def answer() -> None:
        while True:
            conn, _ = listener.accept()
            with conn:
                conn.sendall(words.encode())

    threading.Thread(target=answer, daemon=True).start()


def _answer_names() -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((NAME_SERVER, 53))

    def answer() -> None:
        while True:
            _, whose = listener.recvfrom(99)
            listener.sendto(b"names", whose)

    threading.Thread(target=answer, daemon=True).start()
