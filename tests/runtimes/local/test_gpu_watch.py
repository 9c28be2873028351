"""The watchdog of GPU memory, with real shims and real processes; only NVML itself is made up."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtimes.contract.task import GpuShare
from runtimes.local import plan
from runtimes.local.node import cards_and_numa
from runtimes.local.node.cards_and_numa import NodeCards
from runtimes.local.node.simulated_cards import simulate_cards
from tests.runtimes.worlds import LocalWorld

PYNVML = Path(__file__).parent / "watched_nvml.py.txt"  # each process of a job holds 5 GiB, a stranger 90


@pytest.fixture
def world(monkeypatch, tmp_path):
    shutil.copy(PYNVML, tmp_path / "pynvml.py")
    cards = tuple(replace(gpu, simulated=False, mode="watchdog") for gpu in simulate_cards("1xV100-32GB", "here").gpus)
    found = NodeCards(cards, (("X",),), (("X",),), "580.95.05")
    monkeypatch.setattr(cards_and_numa, "read_real_cards", lambda *_: found)
    monkeypatch.setattr(plan, "pynvml", SimpleNamespace(__file__=str(tmp_path / "pynvml.py")))
    monkeypatch.setattr(plan, "GPU_EVERY_S", 0.1)
    world = LocalWorld(gpu_above_s=0.3)
    yield world
    world.close()


def share(world, memory_mib: int, *, whole: bool = False) -> tuple[GpuShare]:
    return (GpuShare(world.runtime.list_nodes()[0].gpus[0].uuid, 0, memory_mib, 50, whole),)


def test_a_job_above_its_slice_is_ended_and_told_by_how_much(world):
    view = world.run("sleep 60", gpus=share(world, 4096), grace_s=1)
    assert (view.cause, view.signal) == ("gpu_out_of_memory", 15)
    assert "5120 MiB" in view.detail and "4096 MiB" in view.detail


def test_the_processes_of_a_job_are_summed(world):
    view = world.run("sleep 60 & sleep 60 & wait", gpus=share(world, 12000), grace_s=1)
    assert view.cause == "gpu_out_of_memory" and "15360 MiB" in view.detail


def test_a_job_within_its_slice_goes_on_whatever_its_neighbour_does(world):
    view = world.run("exec sleep 2", gpus=share(world, 6000))
    assert (view.exit_code, view.cause) == (0, "")


def test_a_whole_card_is_not_watched(world):
    spec = world.spec("true", gpus=share(world, 32510, whole=True))
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    assert world.task(spec.uuid).read("spec.json")["plan"]["gpu_limits"] == {}
