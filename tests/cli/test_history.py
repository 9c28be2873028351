"""`tessera history export`, against the real portal."""

import json

import pytest

from monitoring.history.file_format import read_history
from tests import make


@pytest.fixture
def root(portal, cast, tessera):
    signed_in = tessera("login", portal, "--token-stdin", input=make.token(make.admin()) + "\n")
    assert signed_in.exit_code == 0, signed_in.stderr
    return tessera


def test_what_happened_is_written_to_a_file(root, cast, tmp_path):
    make.job(cast.ada, pool="dev")
    path = tmp_path / "march.jsonl.gz"
    written = root("history", "export", "--days", "7", "--anonymous", "--to", str(path))
    assert written.exit_code == 0, written.stderr
    history = read_history(path)
    assert history.header.anonymous and history.header.ends - history.header.begins == 7 * 86_400
    assert history.jobs[0].person == f"person-{cast.ada.pk}"
    told = json.loads(root("history", "export", "-o", "json", "--to", str(path)).stdout)
    assert told["days"] == 30 and told["bytes"] == path.stat().st_size
    assert not list(tmp_path.glob("*.part"))


def test_what_cannot_be_written_says_so(root, tmp_path):
    assert "--days is 1 to 365." in root("history", "export", "--days", "400").stderr
    refused = root("history", "export", "--to", str(tmp_path / "none" / "a.gz"))
    assert refused.exit_code == 2 and "cannot be written" in refused.stderr


def test_others_are_refused_and_no_file_is_left(portal, cast, tessera, tmp_path):
    tessera("login", portal, "--token-stdin", input=make.token(cast.ada) + "\n")
    refused = tessera("history", "export", "--to", str(tmp_path / "a.gz"))
    assert refused.exit_code == 4 and not list(tmp_path.glob("a.gz*"))
