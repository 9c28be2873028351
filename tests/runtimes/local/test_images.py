"""Tasks in images on this machine: what they see, what hostile images cannot do, how images come and go."""

import asyncio
import itertools
import os
import re
import statistics
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from portal.wording.image_pulls import pull_hint
from runtimes.contract.errors import Rejected
from runtimes.contract.node import IMAGE as IMAGE_KIND
from runtimes.contract.task import Checkpoint, Mount
from runtimes.images.names import RegistryLogin, make_image_key
from runtimes.local.images import podman as podman_module
from runtimes.local.images.image_store import ImageStore
from runtimes.local.images.podman import Podman, PodmanFailed
from runtimes.local.images.pull import measure_store
from runtimes.local.node.isolation_probe import SHARED, Isolation, run_python
from runtimes.storage.areas import AreaId
from tests.registry_server import Registry, serve_registry
from tests.runtimes.contract.access_suite import output, running
from tests.runtimes.contract.secrets_suite import list_processes_with
from tests.runtimes.local.image_files import (
    build_archive,
    build_layer,
    build_python_layer,
    build_shell_layer,
    collect_programs,
    load_image,
)
from tests.runtimes.local.image_world import IMAGE, ImageWorld, image_world
from tests.runtimes.worlds import GID, UID, LocalWorld, wait_for

pytestmark = pytest.mark.slow
__all__ = ["image_world"]
SLACK = 4
"""The check's machine runs other tests meanwhile."""
LOGIN = ("robot", "c4nary-s3cret")


@pytest.fixture
def world(image_world):
    return image_world


def log_of(world, run: str, **fields) -> str:
    spec = world.spec(run, **fields)
    world.runtime.start(spec)
    view = world.until(spec.uuid, "exited")
    assert (view.exit_code, view.detail) == (0, ""), (view, world.log(spec.uuid))
    return world.log(spec.uuid)


# what a task sees


def test_it_sees_its_image_and_nothing_of_the_machine(world):
    text = log_of(
        world, f"echo $GREETING ${{LD_PRELOAD-none}}; ls -A /; ls -d {world.base} {Path(__file__).parent} 2>&1 || true"
    )
    greeting, *rest = text.splitlines()
    assert greeting == "hello none"
    assert {"bin", "dev", "etc", "lib", "proc", "sys", "tessera", "tmp"} <= set(rest) and "root" not in rest
    assert text.count("No such file") == 2


def test_its_python_environment_is_at_one_place_and_comes_first(world):
    kept = Mount(AreaId("home", UID), ".kept", "env", read_only=False)
    assert log_of(world, "echo $VIRTUAL_ENV; echo 1 >$VIRTUAL_ENV/made", environment=kept).split() == ["/tessera/env"]
    programs = Path(world.runtime.config.areas_dir, "home", str(UID), ".kept", "bin")
    assert (programs.parent / "made").exists()
    programs.mkdir()
    (programs / "greet").write_text("#!/bin/sh\necho kept\n")
    (programs / "greet").chmod(0o755)
    use = "greet; (echo 1 >$VIRTUAL_ENV/x) 2>/dev/null || echo closed; echo $PYTHONNOUSERSITE"
    used = replace(kept, read_only=True)
    assert log_of(world, use, environment=used).split() == ["kept", "closed", "1"]


def test_it_runs_as_its_person_without_any_right(world):
    text = log_of(world, "id -un; id -u; id -g; grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status; pwd; echo $HOME")
    lines = text.split()
    assert lines[:3] == ["ada", str(UID), str(GID)] and lines[-2:] == ["/tessera/work", "/tessera/home"]
    assert "NoNewPrivs:\t1" in text and "CapEff:\t0000000000000000" in text


def test_what_it_writes_is_its_own_and_goes_with_it(world):
    first = world.spec("echo mine > /var/tmp/mine; cat /var/tmp/mine; sleep 60")
    world.runtime.start(first)
    wait_for(lambda: "mine" in world.log(first.uuid))
    assert "mine" not in log_of(world, "ls -A /var/tmp; ls -A /tmp; ls /proc/1/root/var/tmp 2>/dev/null || true")
    world.runtime.stop(first.uuid, 0, epoch=5)
    world.until(first.uuid, "exited")
    layers = Path(world.task(first.uuid).path, "rootfs")
    assert (layers / "upper/var/tmp/mine").exists()
    world.runtime.forget(first.uuid)
    assert not layers.exists()


def test_home_team_data_and_code_are_there(world, tmp_path):
    with tarfile.open(tmp_path / "code.tar.gz", "w:gz") as archive:
        archive.add(__file__, "sub/main.py")
    tmp_path.chmod(0o755)
    data = Mount(AreaId("team", GID), "sets/one", "data/one", read_only=True)
    run = "echo kept > $HOME/kept; cat sub/main.py >/dev/null; ls -d data/one; touch data/one/x 2>&1 || echo read-only"
    run += "; ls $TESSERA_TEAM_FOLDER"
    text = log_of(world, run, mounts=(data,), code_path=str(tmp_path / "code.tar.gz"))
    assert "data/one\n" in text and "read-only" in text and "sets" in text
    assert (world.runtime.config.areas_dir / f"home/{UID}/kept").read_text() == "kept\n"


def test_a_workdir_may_be_one_of_the_image(world):
    assert log_of(world, "pwd", workdir="/var/tmp") == "/var/tmp\n"


def test_its_memory_limit_holds(world):
    view = world.run("exec /usr/bin/python3 -c 'bytearray(b\"x\") * (200 << 20)'", memory_mib=64)
    assert view.cause == "out_of_memory"


async def test_a_session_is_inside(world):
    assert await output(world, await running(world), "echo $GREETING; ls -d /tessera") == "hello\n/tessera\n"


def test_who_enters_an_image_imports_nothing_more():
    code = "from runtimes.local.isolation import forbid_imports; forbid_imports(); import colorsys"
    done = subprocess.run(run_python(code), env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "ModuleNotFoundError: No module named 'colorsys'" in done.stderr


CLAIM = b"import os; open('/loaded', 'a').write(str(os.getuid()))\n"


async def test_no_code_of_an_image_is_loaded_by_what_enters_it(world):
    """Modules that our Python has not loaded yet lie where it looks for its own, and so do those of its C library."""
    folders = {path.lstrip("/") for path in sys.path if path.startswith("/")} | {str(Path(os.__file__).parent)[1:]}
    modules = ("dataclasses", "asyncio", "traceback", "pwd", "encodings/idna", "runtimes/__init__")
    planted = build_layer({f"{folder}/{module}.py": CLAIM for folder in folders for module in modules})
    load_image(world.runtime.config.images_dir, "planted", [build_shell_layer(), planted])
    checkpoint = Checkpoint("ckpt", "", 5)
    uuid = await running(world, image="localhost/planted:1", checkpoint=checkpoint)
    with pytest.raises(Rejected, match="no-such-thing"):
        await world.access().exec(uuid, ["no-such-thing"])
    assert await output(world, uuid, "ls /loaded 2>/dev/null || echo none") == "none\n"


# where it is not possible


def test_a_machine_without_namespaces_refuses_with_what_to_do():
    world = LocalWorld(isolation=Isolation(SHARED, False, False))
    try:
        assert not world.runtime.capabilities.containers
        with pytest.raises(Rejected, match="namespaces"):
            world.runtime.start(world.spec("true", image=IMAGE))
    finally:
        world.close()


def test_they_can_be_switched_off():
    world = LocalWorld(images_mib=0)
    try:
        assert not world.runtime.capabilities.containers
        with pytest.raises(Rejected, match="switched off"):
            world.runtime.start(world.spec("true", image=IMAGE))
    finally:
        world.close()


def test_a_bad_name_is_rejected(world):
    with pytest.raises(Rejected, match="Not the name"):
        world.runtime.start(world.spec("true", image="localhost/../x:1"))


# its end, and that of all


def list_mounts(text: str) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if text in line]


def test_killing_everything_leaves_no_mount(world):
    spec = world.spec("sleep 60")
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    assert list_mounts(str(world.base)) == []
    world.kill_shim(spec.uuid)
    other = world.another_runtime()
    wait_for(lambda: next(v for v in other.list_containers() if v.uuid == spec.uuid).cause == "container_lost")
    assert list_mounts(str(world.base)) == []


def test_two_tasks_share_the_layers(world):
    specs = [world.spec("cat /proc/self/mountinfo | head -1; sleep 60") for _ in range(2)]
    before = measure_store(ImageStore(world.runtime.config.images_dir))
    for spec in specs:
        world.runtime.start(spec)
    wait_for(lambda: all("lowerdir" in world.log(spec.uuid) for spec in specs))
    lowers = {world.log(spec.uuid).split("lowerdir=")[1].split(",")[0] for spec in specs}
    assert len(lowers) == 1 and measure_store(ImageStore(world.runtime.config.images_dir)) == before
    for spec in specs:
        world.runtime.stop(spec.uuid, 0, epoch=5)


# hostile images


def device(kind: bytes, major: int, minor: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.devmajor, info.devminor, info.mode = kind, major, minor, 0o666
    return info


def hard_link(to: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = tarfile.LNKTYPE, to
    return info


PLACES = ("tmp", "proc", "sys", "dev", "etc", "tessera", "tessera/home", "usr/local", "etc/passwd", "etc/resolv.conf")
LINKS = {
    f"{place} leads to {to}": {place: to} for place in PLACES for to in ("/proc/self/fd/3", "../../../../{outside}")
}
OTHERS = {
    "a file above the root": {"../../../../{outside}/planted": b"x"},
    "an absolute file": {"/{outside}/planted": b"x"},
    "a file through a link": {"door": "/{outside}", "door/planted": b"x"},
    "a file through a link that climbs": {"door": "../../../../../../{outside}", "door/planted": b"x"},
    "a hard link out": {"planted": hard_link("../../../../{outside}/canary")},
    "a hard link to an absolute path": {"planted": hard_link("/{outside}/canary")},
    "a disk": {"dev/disk": device(tarfile.BLKTYPE, 254, 0), "disk": device(tarfile.BLKTYPE, 254, 0)},
    "kernel memory": {"kmem": device(tarfile.CHRTYPE, 1, 1)},
    "a fifo as passwd": {"etc/passwd": device(tarfile.FIFOTYPE, 0, 0)},
    "a folder as passwd": {"etc/passwd/x": b""},
    "a file as proc": {"proc": b"no folder"},
    "a file as dev": {"dev": b"no folder"},
    "a file as tessera": {"tessera": b"no folder"},
    "a whiteout above": {".wh...": b""},
    "a whiteout of nothing": {"etc/.wh.nothing": b""},
    "an opaque root": {".wh..wh..opq": b""},
    "a name of 4 kB": {"/".join(["d" * 200] * 20): b"x"},
    "a name of 300 letters": {"n" * 300: b"x"},
    "a name of bytes": {"caf\udce9\n\x01": b"x"},
    "a hundred folders deep": {"d/" * 100 + "f": b"x"},
}
HOSTILE: dict[str, dict] = {**LINKS, **OTHERS}
RUN = """
test ! -e /{outside}/canary || exit 9
for each in /disk /kmem /dev/disk; do cat $each >/dev/null 2>&1 && exit 8; done
exit 0
"""


def test_forty_hostile_images_change_nothing_outside_of_the_store(world):
    """An image may be refused, or its task fail to start: but none reads, writes or replaces a file of the machine."""
    outside = world.base / "outside"
    outside.mkdir()
    (outside / "canary").write_text("sings")
    passwd, shell = Path("/etc/passwd").read_bytes(), build_shell_layer(("sh", "bash", "cat"))
    names = {}
    for number, (what, entries) in enumerate(HOSTILE.items()):

        def place(text):
            return text.replace("{outside}", str(outside).lstrip("/")) if isinstance(text, str) else text

        for entry in entries.values():
            if isinstance(entry, tarfile.TarInfo):
                entry.linkname = place(entry.linkname)
        layer = build_layer({place(name): place(entry) for name, entry in entries.items()})
        try:
            load_image(world.runtime.config.images_dir, f"hostile{number}", [shell, layer])
            names[what] = f"localhost/hostile{number}:1"
        except PodmanFailed:
            continue
    run = RUN.replace("{outside}", str(outside).lstrip("/"))
    specs = {what: replace(world.spec(run, image=name, cpu_milli=10), run=run) for what, name in names.items()}
    for spec in specs.values():
        world.runtime.start(spec)
    ended = {what: world.until(spec.uuid, "exited") for what, spec in specs.items()}
    assert len(HOSTILE) >= 40 and len(names) > 20
    for what, view in ended.items():
        assert view.exit_code == 0 or view.cause in ("start_failed", "image_pull"), (what, view)
    assert sorted(path.name for path in outside.iterdir()) == ["canary"] and (outside / "canary").read_text() == "sings"
    assert Path("/etc/passwd").read_bytes() == passwd


def test_a_program_of_the_image_with_the_set_user_bit_gains_nothing(world):
    setuid = build_layer({"bin/rootid": (0o4755, collect_programs(["id"])["bin/id"])})
    load_image(world.runtime.config.images_dir, "setuid", [build_shell_layer(), setuid])
    assert log_of(world, "rootid -u", image="localhost/setuid:1").split() == [str(UID)]


def test_a_bomb_is_given_up_before_the_disk_is_full(world):
    bomb = build_layer({"zeros": bytes(200 << 20)})
    podman = Podman(ImageStore(world.runtime.config.images_dir), most_bytes=20 << 20)
    archive = world.base / "bomb.tar"
    archive.write_bytes(build_archive("localhost/bomb:1", [bomb]))
    with pytest.raises(PodmanFailed, match="no space left on device"):
        podman.load(archive)


class DiskOf(NamedTuple):
    free: int


def test_what_others_write_on_the_disk_ends_no_pull(world, monkeypatch):
    """A disk that loses room all the time, to others: this image takes a part of what it may."""
    layer = build_layer({"random": os.urandom(20 << 20)})
    left = itertools.count(64 << 30, -(100 << 20))
    monkeypatch.setattr(podman_module.shutil, "disk_usage", lambda _: DiskOf(next(left)))
    monkeypatch.setattr(podman_module, "LOOK_S", 0.01)
    podman = Podman(ImageStore(world.runtime.config.images_dir), most_bytes=100 << 20)
    archive = world.base / "beside.tar"
    archive.write_bytes(build_archive("localhost/beside:1", [layer]))
    podman.load(archive)
    assert (64 << 30) - next(left) > 300 << 20  # it was looked at, and suspected
    with pytest.raises(PodmanFailed, match="no space left on device"):
        archive.write_bytes(build_archive("localhost/more:1", [build_layer({"zeros": bytes(200 << 20)})]))
        podman.load(archive)


# from a registry


@pytest.fixture(scope="module")
def registry():
    with serve_registry() as registry:
        yield registry


@pytest.fixture(scope="module")
def pulling(registry):
    """A machine with little room for images, which knows the registry."""
    world = ImageWorld(registry_plain=[registry.host], images_mib=70)
    yield world
    world.close()


def push(registry: Registry, repository: str, *extra: bytes) -> str:
    """The pinned name of an image with a shell."""
    digest = registry.push_layers(repository, "1", [build_shell_layer(), *extra])
    registry.manifests[repository, digest] = registry.manifests[repository, "1"]
    return f"{registry.host}/{repository}:1@{digest}"


def end_of(world, **fields):
    spec = world.spec("exit 7", **fields)
    world.runtime.start(spec)
    return world.until(spec.uuid, "exited")


def test_an_image_is_pulled_once_and_then_starts_without_its_registry(pulling, registry):
    image = push(registry, "once")
    assert end_of(pulling, image=image).exit_code == 7
    asked = len(registry.asked)
    assert end_of(pulling, image=image).exit_code == 7 and len(registry.asked) == asked
    held = {held.key: held.bytes for held in pulling.runtime.list_nodes()[0].held if held.kind == IMAGE_KIND}
    assert held[make_image_key(image)] > 1 << 20


def test_a_tag_is_asked_for_anew_each_time(pulling, registry):
    push(registry, "moving")
    assert end_of(pulling, image=f"{registry.host}/moving:1").exit_code == 7
    registry.push_layers("moving", "1", [build_shell_layer(), build_layer({"new": b"er"})])
    assert "er" in log_of(pulling, "cat /new", image=f"{registry.host}/moving:1")


def test_a_private_image_runs_for_whom_has_the_login_and_not_for_another(pulling, registry):
    image, login = push(registry, "private"), RegistryLogin(registry.host, *LOGIN)
    registry.login = LOGIN
    try:
        assert end_of(pulling, image=image, logins=(login,)).exit_code == 7
        asked = len(registry.asked)
        assert end_of(pulling, image=image, logins=(login,)).exit_code == 7 and len(registry.asked) == asked
        for logins in ((), (replace(login, password="old"),)):
            refused = end_of(pulling, image=image, logins=logins)
            assert refused.cause == "image_pull" and refused.started_at is None
            assert "denies access" in pull_hint(refused.detail), refused.detail
    finally:
        registry.login = None
    assert end_of(pulling, image=image).exit_code == 7  # it is everybody's now, as the registry says


def test_a_login_is_in_no_file_and_on_no_command_line(pulling, registry):
    image, login = push(registry, "secret"), RegistryLogin(registry.host, *LOGIN)
    registry.blob_s = 2
    try:
        spec = pulling.spec("true", image=image, logins=(login,))
        pulling.runtime.start(spec)
        wait_for(lambda: pulling.view(spec.uuid).fetching_since)
        until = time.monotonic() + 1
        while time.monotonic() < until:
            assert not list_processes_with(LOGIN[1])
        pulling.until(spec.uuid, "exited")
    finally:
        registry.blob_s = 0
    data = pulling.base / "data"
    ours = [path for path in data.rglob("*") if path.is_file() and "layers/overlay/" not in str(path)]
    assert ours and not [path for path in ours if LOGIN[1].encode() in path.read_bytes()]


def test_while_it_is_pulled_since_when_is_told_and_a_stop_ends_it(pulling, registry):
    image = push(registry, "slow", build_layer({"more": os.urandom(1 << 20)}))
    registry.blob_s = 30
    try:
        spec = pulling.spec("true", image=image)
        pulling.runtime.start(spec)
        view = wait_for(lambda: (seen := pulling.view(spec.uuid)) and seen.fetching_since and seen)
        assert view.phase == "starting"
        pulling.runtime.stop(spec.uuid, 0, epoch=5)
        assert pulling.until(spec.uuid, "exited").cause == "never_started"
        wait_for(lambda: not list_processes_with("slow@sha256"))
    finally:
        registry.blob_s = 0


SAYS = {
    "{host}/nothing:1": "no such image",
    "{host}/nothing@sha256:" + "a" * 64: "no such image",
    "nohost.invalid/x:1": "There is no registry|did not respond",
    "127.0.0.1:9/x:1": "did not respond",
    "localhost/nothing:1": "no such image",
}


@pytest.mark.parametrize("name", SAYS)
def test_what_cannot_be_had_ends_in_words_with_something_to_do(pulling, registry, name):
    view = end_of(pulling, image=name.format(host=registry.host))
    assert view.cause == "image_pull" and re.search(SAYS[name], pull_hint(view.detail)), view.detail


def test_an_image_is_fetched_ahead_of_jobs(pulling, registry):
    image = push(registry, "ahead")
    spec = replace(pulling.spec(":", image=image, uid=65534, gid=65534, memory_mib=16, cpu_milli=10), run=":")
    pulling.runtime.start(spec)
    view = pulling.until(spec.uuid, "exited")
    assert view.started_at and make_image_key(image) in {held.key for held in pulling.runtime.list_nodes()[0].held}


def test_the_store_stays_below_its_limit_and_keeps_what_runs(pulling, registry):
    store = ImageStore(pulling.runtime.config.images_dir)
    kept = push(registry, "kept", build_layer({"kept": os.urandom(8 << 20)}))
    spec = pulling.spec("sleep 60", image=kept)
    pulling.runtime.start(spec)
    pulling.until(spec.uuid, "running")
    for number in range(4):
        image = push(registry, f"big{number}", build_layer({"big": os.urandom(8 << 20)}))
        assert end_of(pulling, image=image).exit_code == 7
    local_mib = 30  # of the image that was loaded, which stays
    assert measure_store(store) < (64 + local_mib) << 20
    keys = {record.key for record in store.list_records()}
    assert make_image_key(kept) in keys and not any("/big0@" in key for key in keys)
    assert asyncio.run(output(pulling, spec.uuid, "wc -c /kept")).startswith(str(8 << 20))
    pulling.runtime.stop(spec.uuid, 0, epoch=5)


def test_a_warm_start_takes_less_than_a_second(pulling, registry):
    """From `start` to the program's first line, of an image with Python."""
    digest = registry.push_layers("python", "1", [build_shell_layer(), build_python_layer()])
    registry.manifests["python", digest] = registry.manifests["python", "1"]
    image = f"{registry.host}/python@{digest}"
    assert end_of(pulling, image=image).exit_code == 7
    took = []
    for _ in range(7):
        spec = pulling.spec("exec /usr/bin/python3 -c 'print(\"up\")'", image=image)
        began = time.monotonic()
        pulling.runtime.start(spec)
        wait_for(lambda: "up" in pulling.log(spec.uuid))  # noqa: B023
        took.append(time.monotonic() - began)
    print(f"warm start p50: {statistics.median(took):.2f} s")
    assert statistics.median(took) < 1.0 * SLACK
