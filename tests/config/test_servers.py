import os
import subprocess
import sys

import psycopg
import pytest

from config.embedded.servers import UNPRIVILEGED, clear_lock, is_postmaster_of, lock_status

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")


def test_the_database_is_postgresql_18_as_in_production():
    with psycopg.connect(host=os.environ["PGHOST"], user="tessera", dbname="postgres") as connection:
        assert connection.info.server_version // 10_000 == 18


def test_a_lock_file_that_names_another_program_is_removed(tmp_path):
    lock = tmp_path / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{tmp_path}\n")
    clear_lock(lock, tmp_path)
    assert not lock.exists()


def test_a_lock_file_whose_process_is_gone_is_left_to_postgresql(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock = tmp_path / "postmaster.pid"
    lock.write_text(f"{gone.pid}\n{tmp_path}\n")
    clear_lock(lock, tmp_path)
    assert lock_status(lock)[0] == gone.pid


def test_a_half_written_lock_file_is_no_status(tmp_path):
    (tmp_path / "postmaster.pid").write_text("")
    assert lock_status(tmp_path / "postmaster.pid") == (0, "")


def test_a_process_is_a_postmaster_only_of_the_data_it_names(tmp_path):
    assert not is_postmaster_of(os.getpid(), tmp_path)


@needs_root
@pytest.mark.parametrize("way", ["namespace", "nobody"])
def test_root_runs_postgresql_as_another_uid_below_a_closed_home(way, tmp_path):
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    (closed / "note").write_text("reached")
    note = str(closed / "note")
    code = f"import os; print(os.geteuid(), os.access({note!r}, os.R_OK) and open({note!r}).read())"
    command = [*UNPRIVILEGED, way, sys.executable, "-I", "-S", "-c", code]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "65534 reached\n"
