"""slicehook as a runtime calls it: a mount namespace, and a root with copies of the driver's library."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.agent_slice import CARDS, MIB, SOURCES, Built, must

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="NOT ROOT: only root mounts.")
SHIMS = ("libcuda.so.1", "libnvidia-ml.so.1")
MOUNTED, COMPAT = "usr/lib/driver", "opt/env/compat"
TASK = "0123456789abcdef" * 2
PASS = [
    "TESSERA_TASK=" + TASK,
    "TESSERA_GPU_3=" + CARDS[0],
    "CUDA_VISIBLE_DEVICES=" + CARDS[0],
    "TESSERA_GPU_MEMORY_MIB=16255",
    "PATH=/bin",
]


@pytest.fixture(scope="session")
def made(tmp_path_factory, built: Built) -> Path:
    """For a host: as the agent publishes it."""
    folder = tmp_path_factory.mktemp("host")
    must(["make", "-s", "-j2", "-C", SOURCES, "all", "hook", f"BUILD={folder}"])
    return folder


class Box:
    """A container that is about to start. The driver is mounted, an older copy lies in its image."""

    def __init__(self, folder: Path, made: Path, built: Built):
        self.folder, self.home, self.driver = folder, folder / "home", built.driver
        self.root, self.spec = folder / "bundle/rootfs", {"root": {"path": "rootfs"}}
        self.environment(PASS)
        for place in (MOUNTED, COMPAT, "proc"):
            (self.root / place).mkdir(parents=True)
        self.home.mkdir()
        for name in SHIMS:
            shutil.copy(made / name, self.home)
            shutil.copy(built.driver / name, self.root / COMPAT / f"{name}.9")
            (self.root / COMPAT / name).symlink_to(f"{name}.9")
            (self.root / MOUNTED / name).touch()
        self.hook = shutil.copy(made / "slicehook", self.home)

    def environment(self, lines: list[str]) -> None:
        self.spec["process"] = {"env": lines, "user": {"uid": 20001}}

    def enter(self, then: str = "", name: str = "c1", mounted: bool = True) -> subprocess.CompletedProcess:
        """As the runtime does it: with the container's mounts, before its root is entered. then: what is done in it."""
        (self.folder / "bundle/config.json").write_text(json.dumps(self.spec))
        (self.folder / "state").write_text(json.dumps({"id": name, "bundle": str(self.folder / "bundle")}))
        mounts = [f"mount --bind {self.root} {self.root}", f"mount -t tmpfs tmpfs {self.root}/proc"]
        for shim in SHIMS if mounted else ():
            mounts.append(f"mount --bind {self.folder}/driver-{shim} {self.root}/{MOUNTED}/{shim}")
        driver = [f"cp {self.driver}/{shim} driver-{shim}" for shim in SHIMS]
        # an image is on a file system of its own
        image = [f"cp -a {self.root} image", f"mount -t tmpfs tmpfs {self.root}", f"cp -a image/. {self.root}"]
        script = "\n".join(["set -e", *driver, *image, *mounts[1:], f"{self.hook} enter {self.home} 7 < state", then])
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60)

    def tasks(self) -> list[str]:
        return sorted(os.listdir(self.home / "tasks")) if (self.home / "tasks").exists() else []


@pytest.fixture
def box(tmp_path, made, built) -> Box:
    return Box(tmp_path, made, built)


def test_ours_stand_over_every_copy_and_the_real_ones_behind(box, made):
    files = [f"{place}/{name}" for place in (MOUNTED, COMPAT) for name in SHIMS] + ["run/tessera/slice/limits"]
    look = [f"sha256sum < {box.root}/{path}" for path in files]
    look += [f"sha256sum < {box.root}/run/tessera/driver/{name}" for name in SHIMS]
    look += [f"! touch {box.root}/run/tessera/slice/x {box.root}/run/tessera/slice/limits 2>&1"]
    look += [f"stat -c %u:%a {box.root}/run/tessera/slice/usage"]
    done = box.enter("\n".join(look))
    assert done.returncode == 0, done.stderr
    *sums, real_cuda, real_nvml = [line for line in done.stdout.splitlines() if line.endswith("-")]
    assert sums[0] == sums[2] == checksum(made / SHIMS[0]) and sums[1] == sums[3] == checksum(made / SHIMS[1])
    assert (real_cuda, real_nvml) == tuple(checksum(box.driver / name) for name in SHIMS)
    assert "Read-only" in done.stdout and done.stdout.endswith("20001:660\n")
    assert box.tasks() == ["c1"]
    assert (box.home / "tasks/c1/task").read_text() == TASK
    shown = json.loads(must([made / "slicectl", "show", box.home / "tasks/c1/slice", "--json"]))
    assert [(card["uuid"], card["limit_bytes"], card["context_bytes"]) for card in shown["cards"]] == [
        (CARDS[0], 16_255 * MIB, 7)
    ]


def checksum(path: Path) -> str:
    return must(["sh", "-c", f"sha256sum < {path}"]).strip()


def test_its_folder_goes_with_the_container(box):
    assert box.enter().returncode == 0
    must([box.hook, "leave", box.home], input=(box.folder / "state").read_text())
    assert box.tasks() == []


REFUSED = {
    "no cards": (["TESSERA_GPU_MEMORY_MIB=16255"], "names no cards"),
    "a card that the kubelet did not give": (
        [*PASS, f"CUDA_VISIBLE_DEVICES={CARDS[1]}"],
        "the kubelet did not give this card",
    ),
    "fewer sizes than cards": ([*PASS, f"CUDA_VISIBLE_DEVICES={CARDS[0]},{CARDS[1]}"], "as many cards as sizes"),
    "no size": ([*PASS, "TESSERA_GPU_MEMORY_MIB=all"], "no card and its memory"),
    "twice": ([*PASS, f"CUDA_VISIBLE_DEVICES={CARDS[0]},{CARDS[0]}", "TESSERA_GPU_MEMORY_MIB=1,1"], "twice the same"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_plain_does_not_start_and_leaves_nothing(box, name):
    lines, words = REFUSED[name]
    box.environment(lines)
    done = box.enter()
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert box.tasks() == []


def test_without_the_drivers_own_library_it_does_not_start(box):
    done = box.enter(mounted=False)
    assert done.returncode == 1 and "the driver's is not in the container" in done.stderr
    assert box.tasks() == []


def test_links_of_an_image_lead_nowhere_outside(box):
    (box.root / "run").symlink_to("../../../../../../../.." + str(box.folder / "outside"))
    (box.folder / "outside").mkdir()
    (box.root / str(box.folder / "outside").lstrip("/")).mkdir(parents=True)
    assert box.enter().returncode == 0
    assert not os.listdir(box.folder / "outside")


@pytest.mark.parametrize("state", ["", "{", "[]", '{"id": 7}', '{"id": "../x", "bundle": "/"}', '{"id": "a"}', "nul"])
def test_words_that_are_none_are_refused(made, tmp_path, state):
    done = subprocess.run([made / "slicehook", "enter", tmp_path], input=state, capture_output=True, text=True)
    assert done.returncode == 1 and "the runtime's state" in done.stderr
    assert not os.listdir(tmp_path)
