import errno
import os
import socket
import stat
from pathlib import Path
from typing import NamedTuple

import pytest

from config.embedded import data_dir, disk_reserve
from config.embedded.start import parse
from config.embedded.supervisor import Failure


class DiskUsage(NamedTuple):
    free: int


def test_the_run_directory_is_private_and_found_again(tmp_path, monkeypatch):
    monkeypatch.setattr(data_dir, "runtime_home", lambda: tmp_path)
    run = data_dir.open_run(tmp_path / "data")
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert data_dir.open_run(tmp_path / "data") == run


@pytest.mark.parametrize(("euid", "closed_home_is_taken"), [(0, False), (None, True)])
def test_roots_jobs_can_pass_to_the_run_directory(euid, closed_home_is_taken, tmp_path, monkeypatch):
    """Jobs of root run under other accounts; those of anybody else run under the same one."""
    owner = tmp_path.stat().st_uid
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(data_dir.os, "geteuid", lambda: (owner or 1000) if euid is None else euid)
    os.chown(tmp_path, -1, -1) if owner else os.chown(tmp_path, 1000, -1)
    assert (data_dir.runtime_home() == tmp_path) == closed_home_is_taken


def test_a_run_directory_that_others_may_enter_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(data_dir, "runtime_home", lambda: tmp_path)
    data_dir.open_run(tmp_path / "data").chmod(0o755)
    with pytest.raises(Failure, match="not a private directory"):
        data_dir.open_run(tmp_path / "data")


def test_a_run_directory_that_is_a_link_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(data_dir, "runtime_home", lambda: tmp_path)
    run = data_dir.open_run(tmp_path / "data")
    run.rename(tmp_path / "elsewhere")
    run.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Failure, match="not a private directory"):
        data_dir.open_run(tmp_path / "data")


def test_a_second_start_is_told_where_the_first_one_runs(tmp_path):
    descriptor = data_dir.take_lock(tmp_path)
    data_dir.write_running(tmp_path, "http://localhost:9", {"web": 1})
    with pytest.raises(Failure, match=f"http://localhost:9 \\(process {os.getpid()}\\)"):
        data_dir.take_lock(tmp_path)
    os.close(descriptor)


def test_a_taken_port_is_named_with_its_holder_and_another_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Failure, match=f"Port {port} .*process {os.getpid()}") as failure:
            data_dir.listen(port)
        assert f"--port {port + 1}" in failure.value.remedy


def test_the_portal_listens_on_loopback_only():
    sockets = data_dir.listen(0)
    assert {sock.getsockname()[0] for sock in sockets} <= {"127.0.0.1", "::1"}
    for sock in sockets:
        sock.close()


def test_little_room_is_told_and_refuses_no_start(tmp_path, monkeypatch):
    monkeypatch.setattr(data_dir, "disk_usage", lambda path: DiskUsage(300 << 20))
    data_dir.open_data(tmp_path / "data")
    assert data_dir.describe_room(tmp_path / "data").startswith("Only 300 MiB are free")
    monkeypatch.setattr(data_dir, "disk_usage", lambda path: DiskUsage(1 << 30))
    assert data_dir.describe_room(tmp_path / "data") == ""


def test_what_runs_is_noted_and_a_full_disk_keeps_the_older_note(tmp_path, monkeypatch):
    assert data_dir.write_running(tmp_path, "http://localhost:1", {"web": 7})
    monkeypatch.setattr(Path, "write_text", raise_full)
    assert not data_dir.write_running(tmp_path, "http://localhost:1", {"web": 8})
    assert data_dir.read_running(tmp_path)["children"] == {"web": 7}


def raise_full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_reserve_is_given_up_on_a_full_disk_and_made_again_where_there_is_room(tmp_path, monkeypatch):
    free = [4 * disk_reserve.RESERVE_BYTES]
    monkeypatch.setattr(disk_reserve, "disk_usage", lambda path: DiskUsage(free[0]))
    monkeypatch.setattr(disk_reserve, "EVERY_S", 0)
    reserve = disk_reserve.DiskReserve(tmp_path)
    assert reserve.tend() == "" and (tmp_path / "reserve").stat().st_size == disk_reserve.RESERVE_BYTES
    free[0] = disk_reserve.FULL_BYTES
    assert reserve.tend() == "" and (tmp_path / "reserve").exists()
    free[0] -= 1
    assert "is full" in reserve.tend() and not (tmp_path / "reserve").exists()
    free[0] = 3 * disk_reserve.RESERVE_BYTES
    assert reserve.tend() == "" and not (tmp_path / "reserve").exists()
    free[0] += 1
    assert reserve.tend() == "" and (tmp_path / "reserve").exists()


def test_data_of_another_account_is_refused_by_name(tmp_path, monkeypatch):
    data_dir.open_data(tmp_path / "data")
    owner = data_dir.show_account(os.geteuid())
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(Failure, match=f"belongs to {owner}"):
        data_dir.open_data(tmp_path / "data")


def test_the_secret_key_is_made_once_and_readable_by_its_owner_only(tmp_path):
    key = data_dir.secret_key_file(tmp_path).read_text()
    assert data_dir.secret_key_file(tmp_path).read_text() == key
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600
    assert len(key) >= 50


def test_a_restart_without_gpus_keeps_the_cards_of_the_last_start(tmp_path):
    assert data_dir.remembered_gpus(tmp_path, "") == ""
    data_dir.remembered_gpus(tmp_path, "8xA100-NVLink")
    assert data_dir.remembered_gpus(tmp_path, "") == "8xA100-NVLink"


def test_a_relative_data_directory_is_meant_from_where_the_command_was_called(tmp_path, monkeypatch):
    monkeypatch.setenv("TESSERA_CALLED_FROM", str(tmp_path))
    assert parse(["--data", "here"]).data == tmp_path / "here"


@pytest.mark.parametrize("text", ["2xFOO", "0xV100-32GB", "99xV100-32GB"])
def test_cards_that_cannot_be_simulated_are_refused_before_anything_is_made(text, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["--gpus", text, "--data", str(tmp_path / "new")])
    assert ended.value.code == 2 and text in capsys.readouterr().err and not (tmp_path / "new").exists()
