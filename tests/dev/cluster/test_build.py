import shutil

import pytest

from dev.cluster import build
from dev.cluster.build import PIECES, compile_piece, folder_of, list_versions
from dev.cluster.cache import make_once
from dev.cluster.paths import ClusterPaths, Refusal


@pytest.fixture
def place(tmp_path):
    return ClusterPaths(tmp_path / "state", tmp_path / "cache")


def test_a_changed_hash_in_go_sum_is_another_folder_of_the_cache(place, tmp_path, monkeypatch):
    before = folder_of(place, PIECES[1])
    shutil.copytree(build.PROGRAMS, tmp_path / "programs")
    monkeypatch.setattr(build, "PROGRAMS", tmp_path / "programs")
    assert folder_of(place, PIECES[1]) == before
    (tmp_path / "programs" / "kwok" / "go.sum").write_text("")
    assert folder_of(place, PIECES[1]) != before


def test_every_piece_names_the_version_that_its_go_mod_pins():
    assert all(version.startswith("v") and version.count(".") >= 2 for version in list_versions().values())


def test_without_go_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "find_go", lambda: None)
    with pytest.raises(Refusal, match=r"Install Go .* from https://go.dev/dl/"):
        compile_piece(PIECES[1], tmp_path)


def test_a_build_that_was_cut_off_leaves_nothing_that_looks_built(tmp_path):
    def half(folder):
        (folder / "kube").write_text("half of it")
        raise Refusal("no space left")

    with pytest.raises(Refusal):
        make_once(tmp_path / "kube-1", half)
    assert [path.name for path in tmp_path.iterdir()] == ["kube-1.lock"]


def test_what_is_there_is_not_made_again(tmp_path):
    made = []
    make_once(tmp_path / "kube-1", made.append)
    make_once(tmp_path / "kube-1", made.append)
    assert len(made) == 1
