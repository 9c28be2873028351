"""When running tasks saved their work last, looked up in their homes."""

import os
import threading

import pytest

from runtimes.contract.task import Checkpoint
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.manifest import build_checkpoint_annotation, build_pod
from runtimes.kubernetes.watch.checkpoint_watch import CheckpointWatch
from tests.runtimes.kubernetes.specs import CARDS, CONFIG, STORED, UUID, WITH_FILES, task


@pytest.fixture
def homes(tmp_path):
    folder = tmp_path / "home/20001/runs/a"
    folder.mkdir(parents=True)
    (folder / "step").write_text("7")
    os.utime(folder / "step", (100, 100))
    os.utime(folder, (90, 90))
    return tmp_path / "home"


def pod(note="20001/runs/a", **status) -> dict:
    meta = {"labels": {names.LABEL_TASK: UUID}, "annotations": {names.ANNOTATION_CHECKPOINTS: note}}
    running = {"containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}
    return {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running", **running, **status}}


def looked(homes, *pods) -> tuple[CheckpointWatch, threading.Event]:
    changed = threading.Event()
    saves = CheckpointWatch(homes, lambda: list(pods), changed)
    saves.check_folders()
    return saves, changed


def test_the_newest_change_in_the_folder_is_told_and_wakes_the_watch_once(homes):
    saves, changed = looked(homes, pod())
    assert saves.newest_of(UUID).timestamp() == 100 and changed.is_set()
    changed.clear()
    saves.check_folders()
    assert not changed.is_set()


@pytest.mark.parametrize("note", ["20001/none", "20001/out", "20002/runs/a", ""])
def test_what_is_not_there_or_leads_out_of_the_home_tells_nothing(homes, note):
    (homes / "20001/out").symlink_to("/etc")
    saves, changed = looked(homes, pod(note))
    assert saves.newest_of(UUID) is None and not changed.is_set()


def test_one_that_ended_is_left_to_its_own_last_word(homes):
    assert looked(homes, pod(phase="Succeeded"))[0].newest_of(UUID) is None


@pytest.mark.parametrize(
    ("folder", "note"),
    [("~/runs/a", "20001/runs/a"), ("ckpt", ""), ("/data", ""), ("~/../20002", ""), ("~/", "20001/.")],
)
def test_only_folders_of_the_home_are_noted(folder, note):
    assert build_checkpoint_annotation(folder, 20001) == note


def test_a_pod_notes_it_where_there_is_a_volume():
    notes = [
        build_pod(spec, config, CARDS)["metadata"]["annotations"].get(names.ANNOTATION_CHECKPOINTS)
        for spec, config in (
            (WITH_FILES, STORED),
            (task(checkpoint=Checkpoint("~/a", "", 1)), CONFIG),
            (task(), STORED),
        )
    ]
    assert notes == ["20001/runs/a", None, None]
