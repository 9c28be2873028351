"""Mode `slice` from the probe to the program, on the doubled driver: real shims, real processes, no GPU."""

import asyncio
import os
import shutil
import signal

import pytest

from runtimes import slice_library
from runtimes.contract.access import PtySize
from runtimes.contract.errors import Rejected
from runtimes.contract.task import GpuShare
from runtimes.local import plan, processes
from runtimes.local.shim import gpu_keeper
from runtimes.local.slices import driver
from tests.agent_slice import MIB
from tests.runtimes.local.conftest import WAYS
from tests.runtimes.local.doubled_driver import UUID, use_nvml
from tests.runtimes.local.image_files import build_layer, build_shell_layer, collect_programs, load_image
from tests.runtimes.local.image_world import IMAGE, skip_without_images
from tests.runtimes.local.test_access import output, running
from tests.runtimes.worlds import World, command_line, wait_for

HALF = 16255
OUT_OF_MEMORY = "2"


@pytest.fixture(params=WAYS.values(), ids=list(WAYS))
def world(request, make_world):
    return make_world(**request.param)


def share(memory_mib: int = HALF, *, whole: bool = False) -> tuple[GpuShare]:
    return (GpuShare(UUID, 0, memory_mib, 50, whole),)


def said(world, run: str, **fields) -> str:
    view = world.run(run, gpus=share(), **fields)
    assert view.exit_code == 0, (view, world.log(view.uuid))
    return "\n".join(lines_of(world, view.uuid))


def lines_of(world, uuid: str) -> list[str]:
    """What the job itself wrote: the warning of a full slice comes when it comes."""
    return [line for line in world.log(uuid).splitlines() if not line.startswith("Tessera: ")]


def test_the_probe_tries_it_and_says_what_it_saw(world):
    (node,) = world.runtime.list_nodes()
    (card,) = node.gpus
    assert card.mode == "slice", card.evidence
    assert "saw 64 of 32510 MiB and was refused more" in card.evidence and "Not run on real hardware" in card.evidence
    assert node.facts["slice_placement"] == ("mounts" if world.runtime.machine.isolation.namespaces else "library path")


def test_half_a_card_is_what_a_program_sees(world, doubled):
    assert said(world, f"{doubled.program} tell") == f"0 {HALF * MIB} {HALF * MIB}"


def test_the_edge_is_exact_and_the_answer_honest(world, doubled):
    assert said(world, f"{doubled.program} hold {HALF * MIB} </dev/null") == "0"
    assert said(world, f"{doubled.program} hold {HALF * MIB + 1} </dev/null") == OUT_OF_MEMORY


async def test_sessions_and_terminals_are_inside_the_slice(world, doubled):
    """What ssh, a terminal and exec start shares the account with the job: 1 MiB of 16,255 is held already."""
    run = f"sleep 60 | {doubled.program} hold {MIB}"
    uuid = await running(world, run, gpus=share())
    await _until_held(world, uuid)
    seen = f"0 {(HALF - 1) * MIB} {HALF * MIB}"
    assert (await output(world, uuid, f"{doubled.program} tell")).strip() == seen
    assert (await output(world, uuid, f"{doubled.program} tell", pty=PtySize(80, 24))).strip() == seen
    refused = await output(world, uuid, f"{doubled.program} hold {HALF * MIB} </dev/null")
    assert refused.strip() == OUT_OF_MEMORY
    other = {"LD_LIBRARY_PATH": str(doubled.driver)}
    assert (await output(world, uuid, f"{doubled.program} tell", env=other)).strip() == seen


async def test_two_halves_do_not_disturb_each_other(world, doubled):
    full = f"sleep 60 | {doubled.program} hold {HALF * MIB}"
    uuid = await running(world, full, gpus=share())
    await _until_held(world, uuid)
    assert said(world, f"{doubled.program} hold {HALF * MIB} </dev/null") == "0"
    assert (await output(world, uuid, f"{doubled.program} hold 1 </dev/null")).strip() == OUT_OF_MEMORY


def test_in_a_view_of_its_own_no_way_to_the_driver_leads_past(make_world, doubled, monkeypatch):
    """By its full path, with an emptied environment, with another one first in the path, and by a compat copy."""
    shutil.copytree(doubled.driver, doubled.root / "compat", dirs_exist_ok=True)
    compat = doubled.root / "compat"
    monkeypatch.setattr(driver, "GLOBS", (str(compat)[1:],))
    world = make_world()
    if not world.runtime.machine.isolation.namespaces:
        pytest.skip("NO NAMESPACES here: the library's path alone was tried.")
    seen = f"0 {HALF * MIB} {HALF * MIB}"
    full = f"PROGRAM_LIBRARY={doubled.driver}/libcuda.so.1"
    assert said(world, f"{full} {doubled.program} tell") == seen
    assert said(world, f"{full} {doubled.program} emptied") == seen
    assert said(world, f"PROGRAM_LIBRARY={compat}/libcuda.so.1 {doubled.program} tell") == seen
    assert said(world, f"LD_LIBRARY_PATH={doubled.driver} {doubled.program} emptied") == seen


@pytest.mark.slow
async def test_the_slice_holds_in_an_image_for_its_program_and_for_sessions(make_world, doubled):
    world = make_world()
    skip_without_images(world.runtime.machine.images.words)
    layers = [build_shell_layer(), build_layer(collect_programs([str(doubled.program)]))]
    load_image(world.runtime.config.images_dir, "box", layers)
    spec = World.spec(world, f"sleep 60 | program hold {MIB}", image=IMAGE, gpus=share())
    world.runtime.start(spec)
    await _until_held(world, spec.uuid)
    seen = f"0 {(HALF - 1) * MIB} {HALF * MIB}"
    assert (await output(world, spec.uuid, "program tell")).strip() == seen
    assert (await output(world, spec.uuid, "program tell", pty=PtySize(80, 24))).strip() == seen
    refused = await output(world, spec.uuid, f"program hold {HALF * MIB} </dev/null")
    assert refused.strip() == OUT_OF_MEMORY
    world.runtime.resize(spec.uuid, {UUID: HALF // 2}, serial=1)
    assert (await output(world, spec.uuid, "program tell")).strip().endswith(str((HALF // 2) * MIB))


def test_a_task_may_not_change_its_limit(world):
    if not (world.runtime.machine.isolation.separate_uids or world.runtime.machine.isolation.namespaces):
        pytest.skip("a shared account can write what the platform can: the page says so")
    files = "${LD_LIBRARY_PATH%%:*}"
    untouched = "for file in limits libcuda.so.1; do ! chmod 666 $file && ! test -w $file || exit 9; done"
    said(world, f"(cd {files} && test -w usage && {untouched}) 2>/dev/null; exit $?")


def test_a_whole_card_is_left_alone(world, doubled):
    view = world.run(f"LD_LIBRARY_PATH={doubled.driver} {doubled.program} tell", gpus=share(32510, whole=True))
    assert world.log(view.uuid).split()[2] == str(32510 * MIB)


def test_nothing_is_left_when_the_task_is_forgotten(world, doubled):
    view = world.run(f"{doubled.program} tell", gpus=share())
    folder = world.runtime.machine.slices.folder_of(view.uuid)
    assert (folder / "limits").exists()
    world.runtime.forget(view.uuid)
    assert not folder.exists() and not [path for path in folder.parent.glob("*") if "try" in path.name]


def test_a_task_that_was_refused_memory_and_failed_is_told_so(world, doubled):
    run = f"test $({doubled.program} hold {HALF * MIB + 1} </dev/null) = 0"
    view = world.run(run, gpus=share())
    assert (view.exit_code, view.cause) == (1, "") and "refused requests for more: 1." in view.detail


async def test_a_slice_grows_and_shrinks_down_to_what_is_used(world, doubled):
    uuid = await running(world, f"sleep 60 | {doubled.program} hold {HALF * MIB}", gpus=share())
    await _until_held(world, uuid)
    if not (world.runtime.machine.isolation.separate_uids or world.runtime.machine.isolation.namespaces):
        with pytest.raises(Rejected, match="share the platform's account"):
            world.runtime.resize(uuid, {UUID: 2 * HALF}, serial=1)
        return
    world.runtime.resize(uuid, {UUID: 2 * HALF}, serial=1)
    seen = await output(world, uuid, f"{doubled.program} tell")
    assert seen.strip() == f"0 {HALF * MIB} {2 * HALF * MIB}"
    with pytest.raises(Rejected, match=f"{HALF * MIB} bytes are in use"):
        world.runtime.resize(uuid, {UUID: HALF - 1}, serial=2)
    with pytest.raises(Rejected, match="has no card GPU-other"):
        world.runtime.resize(uuid, {UUID: HALF, "GPU-other": 1}, serial=3)
    world.runtime.resize(uuid, {UUID: HALF}, serial=4)
    world.runtime.resize(uuid, {UUID: 2 * HALF}, serial=1)  # a call that was late
    assert (await output(world, uuid, f"{doubled.program} hold 1 </dev/null")).strip() == OUT_OF_MEMORY


def test_only_a_task_in_a_slice_can_be_resized(world):
    view = world.run("true", gpus=share(32510, whole=True))
    with pytest.raises(Rejected, match="no such task that runs"):
        world.runtime.resize(view.uuid, {UUID: 1}, serial=1)


# the watch: NVML is made up, and says that each process of a job holds 5 GiB


@pytest.fixture
def watched(make_world, monkeypatch, tmp_path):
    world = make_world(gpu_above_s=0.3)
    use_nvml(monkeypatch, tmp_path, "watched_nvml.py.txt")
    monkeypatch.setattr(plan, "GPU_EVERY_S", 0.1)
    return world


def test_a_program_that_gets_past_the_library_is_ended_with_the_figures(watched):
    view = watched.run("exec sleep 60", gpus=share(4096), grace_s=1)
    assert view.cause == "gpu_out_of_memory" and "5120 MiB" in view.detail and "4096 MiB" in view.detail
    assert "Through the library of its slice it had 0 MiB." in view.detail
    (use,) = view.gpu_use
    assert (use.uuid, use.limit_mib, use.peak_mib) == (UUID, 4096, 5120)


def test_what_modules_take_of_a_full_slice_is_no_escape(watched):
    view = watched.run("exec sleep 2", gpus=share(5000))
    assert (view.exit_code, view.cause) == (0, "")


def test_a_task_is_warned_once_before_its_slice_is_full(watched):
    view = watched.run("exec sleep 2", gpus=share(5300))
    log = watched.log(view.uuid)
    assert log.count("Tessera: ") == 1 and f"5120 of the 5300 MiB of this task's slice of {UUID}" in log


def watch_of(world, uuid: str, module: bytes) -> list[processes.Process]:
    """Of this task: its keeper (gpu_keeper), or the watch (gpu_watch)."""
    below = processes.list_descendants({world.shim(uuid).pid}, processes.list_processes())
    return [one for one in below if any(b"." + module + b" import" in word for word in command_line(one.pid))]


@pytest.mark.parametrize("module", [b"gpu_watch", b"gpu_keeper"])
async def test_a_watch_that_is_killed_comes_back_and_both_are_said(watched, module):
    uuid = await running(watched, "exec sleep 60", gpus=share(5300))

    def only_watch():  # while it is started, its parent's copy has the same command line
        found = watch_of(watched, uuid, module)
        return found[0] if len(found) == 1 else None

    first = await asyncio.to_thread(wait_for, only_watch)
    await asyncio.to_thread(wait_for, lambda: watched.view(uuid).gpu_use)
    processes.send_signal(first, signal.SIGKILL)

    def is_back() -> bool:
        now = only_watch()
        again = "is watched again" in watched.log(uuid) and now and now.start != first.start
        return again and watched.view(uuid).gpu_use[0].watched

    await asyncio.to_thread(wait_for, is_back)
    assert "is not watched at the moment: it" in watched.log(uuid)
    assert watched.view(uuid).gpu_use[0].used_mib == 5120


def test_a_task_whose_watch_cannot_look_goes_on_and_is_told_so(watched, tmp_path):
    (tmp_path / "pynvml.py").write_text("raise RuntimeError('no driver')")
    view = watched.run("sleep 3", gpus=share())
    assert view.exit_code == 0 and not view.gpu_use[0].watched
    assert watched.log(view.uuid).count("is not watched at the moment: it ended with 1.") == 1


def test_a_watch_that_hangs_is_found_out_and_only_its_whole_lines_are_handed_on(capfdbinary):
    read, write = os.pipe()
    os.write(write, b"{}\n{}\n{")
    with os.fdopen(write, "wb"):
        assert gpu_keeper._relay_lines(read, 0.2) == "it said nothing for 0.2 s"
    assert gpu_keeper._relay_lines(read, 0.2) == ""
    os.close(read)
    assert capfdbinary.readouterr().out == b"{}\n{}\n"


def test_the_account_is_told_where_the_driver_tells_nothing(make_world, doubled, monkeypatch):
    monkeypatch.setattr(plan, "GPU_EVERY_S", 0.1)
    world = make_world()
    view = world.run(f"sleep 1 | {doubled.program} hold {100 * MIB}", gpus=share())
    (use,) = view.gpu_use
    assert (use.limit_mib, use.peak_mib, use.refused) == (HALF, 100, 0) and use.used_mib in (0, 100)


async def test_what_only_the_driver_knows_is_charged_to_the_slice(watched, doubled):
    """A context and its modules: 5 GiB for the one process, of which it asked for 1 MiB itself."""
    uuid = await running(watched, f"sleep 60 | exec {doubled.program} hold {MIB}", gpus=share())
    folder = watched.runtime.machine.slices.folder_of(uuid)

    def corrected() -> bool:
        account = slice_library.read_slice(doubled.library, folder)
        return account["cards"][0]["used_bytes"] == 3 * 5120 * MIB and account["processes"]

    (row,) = await asyncio.to_thread(wait_for, corrected)
    assert row["cards"][0]["used_bytes"] == MIB  # and bash and sleep hold nothing that a call would show


# the probe


def mode_of(world) -> tuple[str, str]:
    (card,) = world.runtime.list_nodes()[0].gpus
    return card.mode, card.evidence


def test_an_administrator_may_switch_it_off(make_world):
    mode, evidence = mode_of(make_world(slice_library="off"))
    assert mode == "watchdog" and "switched off" in evidence


def test_what_is_not_built_is_not_promised(make_world, tmp_path):
    mode, evidence = mode_of(make_world(slice_library=str(tmp_path)))
    assert mode == "watchdog" and "bin/slice build" in evidence


def test_a_library_that_lets_everything_through_is_found_out(make_world, doubled, tmp_path):
    """The driver itself in the shim's place: it loads, it answers, and it limits nothing."""
    broken = tmp_path / "library"
    shutil.copytree(doubled.library, broken)
    for name in slice_library.SHIMS:
        places = slice_library.DRIVER_PLACE + b"\0" + slice_library.SLICE_PLACE
        (broken / name).write_bytes((doubled.driver / name).read_bytes() + places)
    mode, evidence = mode_of(make_world(slice_library=str(broken)))
    assert mode == "watchdog" and "CUDA says 32510 MiB in a slice of 64" in evidence


def test_a_library_that_does_not_load_is_found_out(make_world, doubled, tmp_path):
    broken = tmp_path / "library"
    shutil.copytree(doubled.library, broken)
    with open(broken / "libcuda.so.1", "r+b") as file:
        file.write(b"not a library")
    mode, evidence = mode_of(make_world(slice_library=str(broken)))
    assert mode == "watchdog" and "a program fails" in evidence


def test_what_worked_once_is_not_tried_again_before_the_driver_changes(make_world, doubled, tmp_path):
    library = tmp_path / "library"
    shutil.copytree(doubled.library, library)
    world = make_world(slice_library=str(library))
    assert mode_of(world)[0] == "slice"
    os.unlink(library / slice_library.TRIAL)
    (library / slice_library.TRIAL).write_text("#!/bin/sh\nexit 1\n")
    assert world.another_runtime().list_nodes()[0].gpus[0].mode == "slice"
    os.unlink(world.base / "data" / "slice-trial.json")
    assert world.another_runtime().list_nodes()[0].gpus[0].mode == "watchdog"


async def _until_held(world, uuid: str) -> None:
    await asyncio.to_thread(wait_for, lambda: lines_of(world, uuid) == ["0"])
