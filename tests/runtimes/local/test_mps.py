"""Slices that share a card's compute by MPS: real shims and processes, doubles of the driver and of NVIDIA's daemon."""

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from agent.gpu.mps_daemon import Daemon
from runtimes.contract.errors import Rejected
from runtimes.contract.task import GpuShare
from runtimes.local.slices import compute_sharing
from tests.mps_double import DoubledMps
from tests.runtimes.local.conftest import WAYS_SLOW_BUT_ONE
from tests.runtimes.local.doubled_driver import UUID
from tests.runtimes.local.test_access import running
from tests.runtimes.worlds import wait_for

HALF = 16255


@pytest.fixture(params=WAYS_SLOW_BUT_ONE)
def world(request, make_world, monkeypatch, tmp_path):
    """Where MPS is allowed, and looked at again at once."""
    monkeypatch.setattr(compute_sharing, "CHECK_EVERY_S", 0.0)
    world = make_world(mps=True, **request.param)
    world.mps = DoubledMps(world.base / "bin")
    monkeypatch.setenv("PATH", f"{world.mps.folder}:{os.environ['PATH']}")
    yield world
    daemon_of(world).end([])


def daemon_of(world) -> Daemon:
    return Daemon(UUID, world.base / "run/mps" / UUID, world.runtime.machine.isolation.separate_uids, world.mps.program)


def clients(world) -> list[list[str]]:
    """[account, percent, limit] of each program that came, in order; the first one is the node's trial."""
    return [line.split() for line in (daemon_of(world).folder / "log/clients").read_text().splitlines()]


def share(memory_mib: int = HALF, percent: int = 50, *, whole: bool = False) -> tuple[GpuShare]:
    return (GpuShare(UUID, 0, memory_mib, percent, whole),)


def facts(world) -> dict[str, str]:
    (node,) = world.runtime.list_nodes()
    return node.facts


def test_a_program_in_a_slice_comes_to_the_cards_daemon_with_its_share(world, doubled):
    assert (facts(world)["compute"], facts(world)["compute_words"]) == ("mps", "")
    run = f"{doubled.program} tell; sleep 0.5"
    view = world.run(run, gpus=share(), uid=1234, gid=1234)
    assert view.exit_code == 0, (view, world.log(view.uuid))
    account = "1234" if world.runtime.machine.isolation.separate_uids else str(os.geteuid())
    assert clients(world)[-1] == [account, "50", "0=16255M"]
    assert len(clients(world)) == 2, "the trial and the job"


def test_two_users_run_on_a_card_at_the_same_time(world, doubled):
    if not world.runtime.machine.isolation.separate_uids:
        pytest.skip("all jobs have one account here")
    facts(world)
    hold = f"sleep 60 | {doubled.program} hold 1048576"
    first, second = (world.spec(hold, gpus=share(4096, 12), uid=uid, gid=uid) for uid in (1234, 1235))
    for spec in (first, second):
        world.runtime.start(spec)
    wait_for(lambda: {line[0] for line in clients(world)} >= {"1234", "1235"})


def test_the_page_learns_which_task_has_it(world, doubled):
    view = world.run("sleep 4", gpus=share())
    assert [use.compute for use in view.gpu_use] == ["mps"]
    assert world.task(view.uuid).read("spec.json")["plan"]["mps"]["limit_mib"] == HALF


def test_whole_cards_take_no_part(world):
    facts(world)
    view = world.run("env | grep -c MPS; true", gpus=share(32510, 100, whole=True))
    assert world.log(view.uuid).strip() == "0"


def test_a_pool_that_allows_no_mps_has_its_slices_take_turns(world, doubled):
    assert facts(world)["compute"] == "mps"
    view = world.run(f"env | grep -c MPS; {doubled.program} tell; sleep 3", gpus=share(), mps=False)
    assert world.log(view.uuid).splitlines()[0] == "0" and len(clients(world)) == 1  # the trial's
    assert [use.compute for use in view.gpu_use] == ["turns"]


def test_a_daemon_that_hangs_is_left_to_its_task_and_others_take_turns(world, doubled, monkeypatch, caplog):
    facts(world)
    spec = world.spec("sleep 60", gpus=share(), label="job-7 main.0", grace_s=1)
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    before = daemon_of(world)._processes()
    world.mps.behave("stuck")
    monkeypatch.setattr("agent.gpu.mps_daemon.ANSWER_S", 0.5)
    told = facts(world)
    assert told["compute"] == "turns" and "did not answer" in told["compute_words"]
    assert "job-7" not in told["compute_words"] and "job-7 main.0" in caplog.text
    view = world.run("env | grep -c MPS; true", gpus=share(4096, 12))
    assert world.log(view.uuid).strip() == "0"
    assert daemon_of(world)._processes() == before and world.view(spec.uuid).phase == "running"
    world.mps.behave("")
    monkeypatch.setattr("agent.gpu.mps_daemon.ANSWER_S", 10.0)
    world.runtime.stop(spec.uuid, 1, epoch=spec.epoch)
    world.until(spec.uuid, "exited")
    assert facts(world)["compute"] == "mps"


def test_a_daemon_that_died_with_nobody_on_it_is_back_at_the_next_look(world):
    facts(world)
    (first, *_) = daemon_of(world)._processes()
    for pid in daemon_of(world)._processes():
        os.kill(pid, signal.SIGKILL)
    assert facts(world)["compute"] == "mps" and first not in daemon_of(world)._processes()


@pytest.mark.parametrize(("how", "words"), [("crash", "MPS cannot be started"), ("refuse", "MPS was tried: ")])
def test_what_does_not_work_is_not_promised_and_jobs_run(world, doubled, how, words):
    world.mps.behave(how)
    told = facts(world)
    assert told["compute"] == "turns" and words in told["compute_words"], told
    view = world.run(f"{doubled.program} tell", gpus=share())
    assert view.exit_code == 0
    assert daemon_of(world)._processes() == []


def test_a_driver_that_serves_one_user_at_a_time_serves_none_where_users_have_accounts(world):
    world.mps.behave("single")
    assert facts(world)["compute"] == ("turns" if world.runtime.machine.isolation.separate_uids else "mps")


def test_without_the_program_or_the_permission_the_node_says_turns(world, make_world, monkeypatch):
    facts(world)
    world.runtime.config.mps = False
    told = facts(world)
    assert (told["compute"], told["compute_words"]) == ("turns", "MPS is not allowed on this machine.")
    assert not daemon_of(world)._processes()
    world.runtime.config.mps = True
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert facts(world)["compute_words"] == "There is no nvidia-cuda-mps-control on this machine."


async def test_a_slice_by_mps_does_not_grow_beyond_what_it_began_with(world, doubled):
    uuid = await running(world, "sleep 60", gpus=share(4096, 12))
    with pytest.raises(Rejected, match="whose limit of 4096 MiB was set at its start"):
        await asyncio.to_thread(world.runtime.resize, uuid, {UUID: 4097}, serial=1)


def test_a_task_with_two_cards_takes_turns(world):
    cards = world.runtime.machine.cards
    two = {UUID: cards[UUID], "GPU-b": replace(cards[UUID], uuid="GPU-b")}
    shares = (*share(), GpuShare("GPU-b", 1, HALF, 50, whole=False))
    assert world.runtime.machine.compute.of_task(shares, two, "580") is None
