"""The admin's commands on an embedded installation: which data they serve, and what a failed restore leaves."""

from contextlib import contextmanager

import pytest

from config.embedded import copies, data_dir


@pytest.fixture
def managed(monkeypatch, tmp_path):
    """Management commands that would run, with their environment; each ends with `managed.status`."""
    told = type("Managed", (list,), {"status": 0})()

    def manage(command, rest, environment):
        told.append((command, rest, environment))
        return told.status

    @contextmanager
    def running(postgres, run, data):
        postgres.mkdir(exist_ok=True)
        yield

    monkeypatch.setattr(copies, "manage", manage)
    monkeypatch.setattr(copies, "_running_postgres", running)
    monkeypatch.setattr(data_dir, "runtime_home", lambda: tmp_path)
    monkeypatch.delenv("PGHOST", raising=False)
    return told


def test_a_restored_database_takes_its_place_only_after_success(managed, tmp_path, capsys):
    data = tmp_path / "data"
    managed.status = 1
    assert copies.main(["restore", "--data", str(data), "/b"]) == 1
    assert not list(data.glob("postgres*"))
    managed.status = 0
    assert copies.main(["restore", "--data", str(data), "/b", "--secrets-to", "/s"]) == 0
    assert not list(data.glob("postgres*"))
    assert copies.main(["restore", "--data", str(data), "--key", "/k", "/b"]) == 0
    assert [path.name for path in data.glob("postgres*")] == ["postgres"]
    command, rest, environment = managed[-1]
    assert (command, rest) == ("restore", ["--key", "/k", "/b"]) and environment["TESSERA_DATA"] == str(data)
    assert "TESSERA_SECRET_KEY_FILE" not in environment  # it comes from the backup
    assert copies.main(["restore", "--data", str(data), "/b"]) == 1
    assert "holds an installation.\n  Restore into an empty folder" in capsys.readouterr().err


def test_a_backup_starts_the_database_of_a_stopped_platform_and_uses_that_of_a_running_one(managed, tmp_path, capsys):
    data = tmp_path / "data"
    assert copies.main(["backup", "--data", str(data), "/b"]) == 1
    assert "holds no installation" in capsys.readouterr().err and not data.exists()
    (data / "postgres").mkdir(parents=True)
    assert copies.main(["backup", "--data", str(data), "/b"]) == 0
    lock = data_dir.take_lock(data)
    assert copies.main(["backup", "--data", str(data), "/b"]) == 0 and lock
    assert managed[0] == managed[1] and managed[0][2]["TESSERA_SECRET_KEY_FILE"] == str(data / "secret_key")


def test_where_the_database_is_a_server_of_its_own_the_environment_names_it(managed, monkeypatch):
    monkeypatch.setenv("PGHOST", "db.example.net")
    assert copies.main(["backup", "/b", "--key", "/k"]) == 0
    assert managed == [("backup", ["/b", "--key", "/k"], {"TESSERA_ROLE": "command"})]
