"""What an agent says of who holds slices to their memory, and the trial of our own library, on doubles."""

import shutil
import subprocess
from pathlib import Path

import pytest

from agent.gpu.cards import Card, Cards
from agent.gpu.enforcement import AGAIN_S, Prober, check_fractions
from agent.kubelet import slices
from tests.agent_slice import CARDS, SOURCES, must

SOUND = Card(CARDS[0], 0, "V100-32GB", "Tesla V100-SXM2-32GB", 32_768, 258, None, "")
SEEN = Cards((SOUND,), (("X",),), (("X",),), "580.95.05")


def test_what_the_admin_gave_goes_first_and_nothing_is_said_to_be_nothing():
    assert Prober(hami=Path("/opt/libvgpu.so"), trial=lambda uuid: (True, "It holds.")).probe(SEEN).mode == "hami"
    nothing = Prober().probe(SEEN)
    assert nothing.mode == "watchdog" and "--slice" in nothing.evidence


def test_a_trial_that_holds_is_not_repeated_and_one_that_fails_is_after_a_while():
    answers, now = [(False, "It failed."), (True, "It holds."), (False, "Never asked.")], [0.0]
    prober = Prober(trial=lambda uuid: answers.pop(0), clock=lambda: now[0])
    assert [prober.probe(SEEN).mode for _ in range(2)] == ["watchdog"] * 2
    now[0] = AGAIN_S + 1
    assert [prober.probe(SEEN).mode for _ in range(3)] == ["slice"] * 3 and len(answers) == 1


def test_no_trial_on_a_broken_card():
    broken = Cards((Card(**{**SOUND.__dict__, "fault": "It is lost."}),), (("X",),), (("X",),), "580")
    assert "No card answers" in Prober(trial=lambda uuid: pytest.fail("tried")).probe(broken).evidence


@pytest.mark.parametrize(("driver", "mode"), [("615.10", "nvfraction"), ("580.95.05", "watchdog"), ("", "watchdog")])
def test_the_drivers_own_limits_need_a_driver_that_has_them(driver, mode):
    assert check_fractions(driver).mode == mode


@pytest.fixture(scope="module")
def links(tmp_path_factory) -> Path:
    """Where the shims look for the driver's libraries."""
    return tmp_path_factory.mktemp("host") / "links"


@pytest.fixture(scope="module")
def made(built, links) -> Path:
    """What is built for a host."""
    places = [f"DRIVER_DIR={links}", f"SLICE_DIR={built.root / 'nowhere'}"]
    must(["make", "-s", "-j2", "-C", SOURCES, "all", "hook", f"BUILD={links.parent / 'build'}", *places])
    return links.parent / "build"


@pytest.fixture
def trial(built, made, links, tmp_path, monkeypatch):
    """Try out what lies in a folder, on a machine that has the doubled driver."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built.driver))
    return lambda folder=made: slices.run_selftest(folder, tmp_path / "room", CARDS[0], links)


def test_our_library_is_tried_on_the_card_before_it_is_promised(trial, tmp_path):
    holds, words = trial()
    assert holds and words.startswith("A trial in a slice of 64 MiB saw 64 of 32510 MiB"), words
    assert not (tmp_path / "room").exists()


def test_a_library_that_limits_nothing_is_found_out(trial, made, built, tmp_path):
    idle = shutil.copytree(made, tmp_path / "idle")
    for name in slices.SHIMS:
        shutil.copy(built.driver / name, idle)
    holds, words = trial(idle)
    assert not holds and "32510 MiB in a slice of 64" in words


def test_without_a_driver_it_is_said_so(trial, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    holds, words = trial()
    assert not holds and "cannot be loaded" in words


def test_what_slices_of_an_earlier_boot_left_goes_and_those_of_this_one_stay(made, tmp_path):
    left = tmp_path / "home/tasks/c1/slice"
    for boot, stays in (("one", False), ("one", True), ("two", False)):
        left.mkdir(parents=True, exist_ok=True)
        slices.install_library(made, tmp_path / "home", boot)
        assert left.exists() is stays
    assert sorted(path.name for path in (tmp_path / "home").glob("lib*")) == sorted(slices.SHIMS)


def test_the_hook_is_built_for_any_host(made):
    said = subprocess.run(["ldd", made / "slicehook"], capture_output=True, text=True)
    assert "not a dynamic executable" in said.stderr + said.stdout
