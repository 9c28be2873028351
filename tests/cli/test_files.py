"""`tessera files` against the real portal: there and back, after a break, and never over what is there."""

import pytest

from cli.commands import files
from cli.failures import Unreachable
from cli.http.transport import Client

DATA = bytes(range(256)) * 4096 * 9  # 9 MiB: two pieces


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "PAUSES_S", (0.0, 0.0))
    return tmp_path


def test_a_file_goes_there_and_comes_back(ada, here):
    (here / "a.bin").write_bytes(DATA)
    assert ada("files", "ls").stderr.startswith("Nothing is here yet")
    assert ada("files", "put", "a.bin").stdout == "a.bin is there, 9.44 MB.\n"
    assert ada("files", "ls").stdout.splitlines()[1].split()[:3] == ["a.bin", "9.44", "MB"]
    assert ada("files", "get", "a.bin", "b.bin").stdout == "b.bin is here, 9.44 MB.\n"
    assert (here / "b.bin").read_bytes() == DATA and not (here / "b.bin.part").exists()
    assert ada("files", "rm", "a.bin", "--yes").exit_code == 0
    assert ada("files", "get", "a.bin", "c.bin").exit_code == 3


def test_nothing_is_overwritten_unless_asked(ada, here):
    (here / "a").write_text("old")
    ada("files", "put", "a", "team:nlp/")
    (here / "a").write_text("new")
    refused = ada("files", "put", "a", "team:nlp/")
    assert refused.exit_code == 2 and "taken. Use --replace" in refused.stderr
    assert ada("files", "put", "a", "team:nlp/a", "--replace").stdout == "team:nlp/a is there, 3 B.\n"
    assert ada("files", "get", "team:nlp/a").exit_code == 2 and (here / "a").read_text() == "new"
    assert ada("files", "rm", "team:nlp/a", input="n\n").exit_code == 2


def test_folders_are_made_and_names_are_changed(ada, here):
    (here / "a").write_text("data")
    missing = ada("files", "put", "a", "docs/")
    assert (missing.exit_code, missing.stderr) == (3, "There is no folder docs. Make it: tessera files mkdir docs\n")
    assert ada("files", "mkdir", "docs").stdout == "docs/ is there.\n"
    assert ada("files", "put", "a", "docs/").stdout == "docs/a is there, 4 B.\n"
    assert ada("files", "mv", "docs/a", "docs/b").stdout == "docs/a is now docs/b.\n"
    assert ada("files", "ls", "docs", "-o", "name").stdout == "b\n"
    assert ada("files", "mv", "docs/b", "team:nlp/b").exit_code == 2
    assert ada("files", "rm", "docs", "--yes").stdout == "docs is deleted.\n"


def test_places_say_how_full_they_are(ada, here):
    assert ada("files", "places", "-o", "name").stdout == "home\nteam:nlp\n"
    assert ada("files", "places").stdout.splitlines()[0].split() == ["PLACE", "USED", "LIMIT"]
    assert ada("files", "ls", "team:none").exit_code == 3


def test_after_a_break_it_goes_on_where_it_ended(ada, here, monkeypatch):
    (here / "broken.bin").write_bytes(DATA)
    whole, offsets = Client.patch_body, []

    def shaky(self, path, body, headers):
        offsets.append(int(headers["Upload-Offset"]))
        answer = whole(self, path, body, headers)
        if len(offsets) == 1:
            raise Unreachable("It broke after the piece had come.")
        return answer

    monkeypatch.setattr(Client, "patch_body", shaky)
    assert ada("files", "put", "broken.bin").exit_code == 0
    assert offsets == [0, 8 * 2**20]
    ada("files", "get", "broken.bin", "back.bin")
    assert (here / "back.bin").read_bytes() == DATA


def test_what_was_given_up_goes_on_with_its_id(ada, here, monkeypatch):
    (here / "given-up.bin").write_bytes(DATA)
    whole = Client.patch_body
    broken = {"now": True}

    def lost(self, path, body, headers):
        if broken["now"] and headers["Upload-Offset"] != "0":
            raise KeyboardInterrupt
        return whole(self, path, body, headers)

    monkeypatch.setattr(Client, "patch_body", lost)
    stopped = ada("files", "put", "given-up.bin")
    assert stopped.exit_code != 0 and "--resume " in stopped.stderr
    broken["now"] = False
    id = stopped.stderr.split("--resume ")[1].split()[0]
    assert ada("files", "put", "given-up.bin", "--resume", id).exit_code == 0
    (here / "given-up.bin").write_bytes(b"other")
    assert ada("files", "put", "given-up.bin", "--resume", id).exit_code == 2


def test_a_file_that_is_not_here_is_told(ada, here):
    assert ada("files", "put", "none").exit_code == 2
