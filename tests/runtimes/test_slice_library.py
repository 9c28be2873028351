"""The slice library is built once for its sources, and put where a task finds it."""

import os
import shutil
import subprocess

import pytest

from config.embedded import slice_build
from runtimes import slice_library
from runtimes.local.slices.driver import Driver
from tests.agent_slice import CARDS, NO_COMPILER, SOURCES

HALF = 16255


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not slice_library.can_build():
        pytest.skip(NO_COMPILER)
    path = slice_library.library_path(tmp_path_factory.mktemp("a place with spaces"))
    slice_library.build_library(path)
    return path


def test_it_is_built_whole_and_found_again(library):
    assert slice_library.is_built(library) and library == slice_library.library_path(library.parents[1])
    assert [path.name for path in library.parent.iterdir()] == [library.name]


def test_a_failed_build_leaves_nothing_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(OSError, match="compiler failed"):
        slice_library.build_library(tmp_path / "slice" / "new")
    assert list((tmp_path / "slice").iterdir()) == []


def test_other_sources_are_another_build_and_the_old_one_goes(library, tmp_path, monkeypatch):
    old, new = tmp_path / "slice" / ("0" * 16), tmp_path / "slice" / "new"
    other = tmp_path / "slice" / "mine"
    old.mkdir(parents=True)
    other.mkdir()
    slice_library.build_library(new)
    assert slice_library.is_built(new) and not old.exists() and other.exists()
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES, sources)
    (sources / "src" / "core.h").write_text("/* changed */")
    monkeypatch.setattr(slice_library, "SOURCES", sources)
    assert slice_library.hash_sources.__wrapped__() != library.name


@pytest.mark.parametrize("odd", ["", "x"])
def test_a_shim_looks_where_it_was_told_to(library, tmp_path, odd):
    """Its dependency is the real library's path, as the loader reads it."""
    driver = tmp_path / f"driver{odd}"
    slice_library.install_shim(library, "libcuda.so.1", tmp_path, driver_dir=str(driver), slice_dir=str(tmp_path))
    (tmp_path / "empty.c").write_text("int cuThis(void) { return 7; }\n")
    driver.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "empty.c", "-o", driver / "libcuda.so.1"], check=True)
    environment = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_LIBRARY_PATH": str(tmp_path), "LD_PRELOAD": "libcuda.so.1"}
    seen = subprocess.run(["/bin/true"], env=environment, capture_output=True, text=True, check=True).stdout
    loaded = [line.split(" ")[0].strip() for line in seen.splitlines() if "driver" in line]
    assert loaded and os.path.samefile(loaded[0], driver / "libcuda.so.1")


def test_a_place_that_is_too_long_is_said(library, tmp_path):
    with pytest.raises(OSError, match="room for"):
        slice_library.install_shim(library, "libcuda.so.1", tmp_path, driver_dir="/x" * 120, slice_dir="/y")


def test_a_slice_grows_and_shrinks_to_what_is_used(library, tmp_path):
    slice_library.create_slice(library, tmp_path, {CARDS[0]: HALF}, 0)
    slice_library.resize_slice(library, tmp_path, CARDS[0], 2 * HALF)
    assert slice_library.read_slice(library, tmp_path)["cards"][0]["limit_bytes"] == 2 * HALF << 20
    with pytest.raises(OSError, match="there is a slice already"):
        slice_library.create_slice(library, tmp_path, {CARDS[0]: HALF}, 0)


def test_a_start_builds_it_only_where_there_is_a_driver(library, tmp_path, monkeypatch):
    monkeypatch.setattr(slice_build, "find_driver", lambda: None)
    assert not slice_build.is_wanted(tmp_path)
    monkeypatch.setattr(slice_build, "find_driver", lambda: Driver({}, ()))
    assert slice_build.is_wanted(tmp_path) and not slice_build.is_wanted(library.parents[1])
    monkeypatch.setenv("TESSERA_SLICE", "off")
    assert not slice_build.is_wanted(tmp_path)


def test_the_command_says_where_it_is(library, capsys):
    assert slice_build.main(["build", "--data", str(library.parents[1])]) == 0
    assert str(library) in capsys.readouterr().out
