import json

import pytest

from dev.cluster import paths
from dev.cluster.paths import BEFORE, ClusterPaths, Refusal, claim, find_paths, write


@pytest.fixture(autouse=True)
def owner(tmp_path, monkeypatch):
    """Whose cluster this machine has, in a file of this test's own."""
    path = tmp_path / "owner.json"
    monkeypatch.setattr(paths, "OWNER", path)
    return path


def test_the_running_cluster_is_found_without_naming_it(tmp_path, owner):
    write(owner, json.dumps({"state": str(tmp_path / "there")}))
    assert find_paths("", "").state == tmp_path / "there"


def test_a_second_cluster_on_the_machine_is_refused_with_the_way_out(tmp_path, owner):
    write(owner, json.dumps({"state": str(tmp_path / "there")}))
    with pytest.raises(Refusal, match=r"bin/cluster down --state .*/there"):
        find_paths(str(tmp_path / "here"), "")


def test_a_folder_with_strange_files_is_not_taken(tmp_path, owner):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear ada")
    with pytest.raises(Refusal, match="files that are not a cluster's"):
        claim(ClusterPaths(tmp_path / "home", tmp_path))
    assert not owner.exists()


def test_a_folder_of_a_cluster_that_crashed_is_taken_again(tmp_path, owner):
    state = tmp_path / "state"
    write(state / BEFORE, "{}")
    (state / "etcd").mkdir()
    claim(ClusterPaths(state, tmp_path))
    assert json.loads(owner.read_text()) == {"state": str(state)}
