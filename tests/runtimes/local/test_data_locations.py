"""What a machine says that it holds of people's data: what its tasks named, as much as lies there."""

import os
import time

import pytest

from runtimes.contract.task import Mount
from runtimes.local.node import data_locations
from runtimes.local.node.data_locations import DataLocations, is_own_disk
from runtimes.storage.areas import AreaId, get_area_path
from tests.runtimes.worlds import UID

HOME, TEAM = AreaId("home", 23_001), AreaId("team", 23_900)


@pytest.fixture
def files(tmp_path):
    for place, path in ((HOME, "sets/a"), (TEAM, "b"), (TEAM, "never-named")):
        folder = get_area_path(tmp_path / "files", place) / path
        folder.mkdir(parents=True)
        (folder / "data").write_bytes(b"x" * 100_000)
    return tmp_path / "files"


@pytest.fixture
def data(tmp_path, files):
    return DataLocations(tmp_path / "held", files)


def named(place, path):
    return Mount(place, path, "data", True)


def shown(data):
    return [(view.kind, view.key, view.bytes // 100_000) for view in data.list_data()]


def test_what_no_task_named_is_not_told(data):
    assert data.list_data() == ()


def test_what_tasks_named_is_told_with_its_size_by_all_processes(data, tmp_path, files):
    data.record_use([named(HOME, "sets/a"), named(TEAM, "b"), named(None, "/opt/tools")])
    told = [("data", "home:23001/sets/a", 1), ("data", "team:23900/b", 1)]
    assert shown(data) == told == shown(DataLocations(tmp_path / "held", files))


def test_a_single_file_counts_too(data):
    data.record_use([named(TEAM, "b/data")])
    assert shown(data) == [("data", "team:23900/b/data", 1)]


@pytest.mark.parametrize("path", ["missing", "out"])
def test_what_is_not_there_or_leads_out_is_not_told(data, files, path):
    os.symlink("/usr/lib", get_area_path(files, TEAM) / "out")
    data.record_use([named(TEAM, path)])
    assert data.list_data() == ()


def test_a_size_is_kept_for_a_while_and_then_counted_again(data, files, monkeypatch):
    data.record_use([named(TEAM, "b")])
    data.list_data()
    (get_area_path(files, TEAM) / "b/more").write_bytes(b"x" * 100_000)
    assert shown(data)[0][2] == 1
    later = time.time() + data_locations.FRESH_S
    monkeypatch.setattr(data_locations.time, "time", lambda: later)
    assert shown(data)[0][2] == 2


def test_only_those_that_were_named_last_are_kept(data, monkeypatch, tmp_path):
    monkeypatch.setattr(data_locations, "MOST", 1)
    data.record_use([named(HOME, "sets/a")])
    for file in (tmp_path / "held").iterdir():
        os.utime(file, (1, 1))
    data.record_use([named(TEAM, "b")])
    assert [key for _, key, _ in shown(data)] == ["team:23900/b"]
    assert len(list((tmp_path / "held").iterdir())) == 1


def test_what_lies_on_a_network_file_system_is_fetched_by_everybody(data, monkeypatch):
    data.record_use([named(TEAM, "b")])
    monkeypatch.setattr(data_locations, "is_own_disk", lambda _: False)
    assert data.list_data() == ()


@pytest.mark.parametrize(("kind", "own"), [("ext4", True), ("nfs4", False), ("fuse.juicefs", False), ("fuseblk", True)])
def test_a_disk_is_ones_own_by_the_kind_of_the_nearest_mount(tmp_path, monkeypatch, kind, own):
    lines = f"1 0 8:1 / / rw - overlay none rw\n2 1 8:2 / {tmp_path} rw shared:1 - {kind} host:/export rw\n"
    monkeypatch.setattr(data_locations.Path, "read_text", lambda _: lines)
    assert is_own_disk(tmp_path / "deep" / "er") is own


def test_a_name_that_a_crash_left_half_written_does_not_matter(data, tmp_path):
    data.record_use([named(TEAM, "b")])
    (tmp_path / "held" / "half").write_text('{"place": "ho')
    assert len(data.list_data()) == 1


def test_a_node_reports_what_a_task_has_written_there(world):
    mount = Mount(AreaId("home", UID), "sets/new", "new", False)
    view = world.run("dd if=/dev/zero of=new/data bs=1000 count=100 2>/dev/null", mounts=(mount,))
    assert view.exit_code == 0, world.log(view.uuid)
    (node,) = world.runtime.list_nodes()
    told = [(held.kind, held.key, held.bytes // 100_000) for held in node.held]
    assert told == ([("data", f"home:{UID}/sets/new", 1)] if is_own_disk(world.base) else [])
