"""Code, homes, team folders and data on a real node: one volume, which this machine has too, as the platform does."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from runtimes.contract.errors import Unavailable
from runtimes.contract.task import Checkpoint, Mount
from runtimes.kubernetes.cluster.namespaces import ensure_namespace
from runtimes.kubernetes.watch.reflectors import ClusterView
from runtimes.storage.areas import AreaId, ensure_area
from tests.runtimes.contract.numbers_suite import NumbersContract
from tests.runtimes.kubernetes.world import KubernetesWorld, wait_slowly, world_with_files

pytestmark = pytest.mark.kubernetes
BESIDE_OTHERS = True
OURS, TEAM = AreaId("home", 20001), AreaId("team", 20000)


@pytest.fixture(scope="module")
def world(kubeconfig):
    with world_with_files(kubeconfig) as world:
        yield world


def run(world, text: str, **fields) -> tuple[int | None, str]:
    """(exit code, what it said)."""
    spec = world.spec(text, **fields)
    world.runtime.start(spec)
    view = world.until(spec.uuid, "exited")
    return view.exit_code, world.log(spec.uuid).decode()


def pack(path: Path, **files: str) -> str:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"src/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    path.chmod(0o600)
    return str(path)


def lay(world, place: AreaId, path: str, text: str) -> Path:
    """A file of a person's or a team's own."""
    gid, uid = 20000, place.number if place.kind == "home" else 20001
    file = ensure_area(world.files, place, uid=uid, gid=gid) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    for each in (file, *file.parents[: len(Path(path).parts) - 1]):
        os.chown(each, uid, gid)
    return file


class TestNumbersOnCluster(NumbersContract):
    """Through the volume, of which a task sees its own file alone."""


def test_a_claim_that_waits_for_its_first_pod_is_bound_where_the_node_is_chosen_by_a_field(world):
    ensure_namespace(world.api, world.runtime.config, 20011)
    install = world.runtime.config.install
    where = f"/api/v1/namespaces/{install}-team-20011/persistentvolumeclaims/{install}-files"
    assert world.api.call("GET", where)[1]["status"]["phase"] == "Pending"
    spec = world.spec("true", gid=20011)
    world.runtime.start(spec)
    assert world.until(spec.uuid, "exited").exit_code == 0
    claim = world.api.call("GET", where)[1]
    assert claim["status"]["phase"] == "Bound"
    assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == world.node


def test_a_claim_of_the_site_is_read_as_a_volume_and_a_writable_one_written(world):
    config = world.runtime.config
    ensure_namespace(world.api, config, 20000)
    site = config.storage.root / "site"
    (site / "in").mkdir(parents=True)
    (site / "in/a").write_text("a cat\n")
    (site / "out").mkdir()
    (site / "out").chmod(0o777)
    claim = {
        "metadata": {"name": "site"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": config.storage.storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    world.api.call("POST", f"/api/v1/namespaces/{config.install}-team-20000/persistentvolumeclaims", claim)
    volume = AreaId("volume", "site")
    mounts = (Mount(volume, "site/in", "in", True), Mount(volume, "site/out", "out", False))
    status, said = run(world, "cat in/a; touch in/b 2>/dev/null || echo closed; echo mine >out/c", mounts=mounts)
    assert status == 0 and said.startswith("a cat\n") and said.endswith("closed\n"), said
    assert (site / "out/c").read_text() == "mine\n" and (site / "out/c").stat().st_uid == 20001


def test_a_job_brings_its_code_and_finds_its_data(world):
    lay(world, TEAM, "sets/images/one", "a cat")
    code = pack(world.code / "1.tar.gz", train="cat data/images/one && echo learned >out/model && pwd && ls -n train")
    mounts = (Mount(TEAM, "sets/images", "src/data/images", True), Mount(OURS, "models", "src/out", False))
    status, said = run(world, "sh train", code_path=code, workdir="src", mounts=mounts)
    assert status == 0, said
    assert said.startswith("a cat/tessera/work/src\n") and " 20001 " in said
    model = world.files / "home/20001/models/model"
    assert model.read_text() == "learned\n" and (model.stat().st_uid, model.stat().st_gid) == (20001, 20000)
    assert Path(code).stat().st_mode & 0o777 == 0o444


def test_what_a_job_leaves_at_home_and_with_its_team_the_next_one_finds(world):
    assert run(world, "echo mine >~/note; umask 0; echo ours >$TESSERA_TEAM_FOLDER/note; chmod 600 ~/note")[0] == 0
    assert run(world, "cat ~/note $TESSERA_TEAM_FOLDER/note; pwd -P; cd; pwd -P") == (
        0,
        "mine\nours\n/tessera/work\n/tessera/home\n",
    )
    status, said = run(world, "cat $TESSERA_TEAM_FOLDER/note; ls -A ~; echo of the other >~/note", uid=20002)
    assert (status, said) == (0, "ours\n")
    assert (world.files / "home/20001/note").read_text() == "mine\n"
    modes = [(world.files / path).stat().st_mode & 0o7777 for path in ("home/20001", "home/20002", "team/20000")]
    assert modes == [0o700, 0o700, 0o2770]


def test_what_is_read_only_cannot_be_written(world):
    lay(world, TEAM, "sets/text", "words")
    status, said = run(world, "cat in/text; echo x >in/text", mounts=(Mount(TEAM, "sets", "in", True),))
    assert status != 0 and "words" in said and "Read-only file system" in said
    assert (world.files / "team/20000/sets/text").read_text() == "words"


def test_a_link_out_of_a_home_leads_nowhere(world):
    """A kubelet that mounted the person's path would follow it to the other home, past that home's own door."""
    lay(world, AreaId("home", 20002), "open/secret", "of the other").parent.chmod(0o755)
    note = lay(world, OURS, "note", "")
    (note.parent / "stolen").symlink_to("../20002/open")
    status, said = run(world, "ls in", mounts=(Mount(OURS, "stolen", "in", False),))
    assert status == 1 and "cannot be had as /tessera/work/in" in said and "secret" not in said
    assert run(world, "ls /tessera")[1].split() == ["home", "report.jsonl", "team", "tmp", "tools", "work"]


def test_a_checkpoint_in_the_home_is_told_and_found_again(world):
    rule = Checkpoint("~/runs/a", "SIGUSR1", 20)
    spec = world.spec(
        "trap 'mkdir -p ~/runs/a; echo 7 >~/runs/a/step; exit 0' USR1; echo listens; while :; do sleep 0.1; done",
        checkpoint=rule,
    )
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    world.until_said(spec.uuid, "listens")
    world.runtime.stop(spec.uuid, 5, epoch=spec.epoch)
    view = world.until(spec.uuid, "exited")
    saved = (world.files / "home/20001/runs/a/step").stat().st_mtime
    assert view.cause == "stopped" and abs(view.checkpointed_at.timestamp() - saved) < 2
    assert run(world, "cat ~/runs/a/step", checkpoint=rule) == (0, "7\n")


def test_a_checkpoint_is_told_while_the_task_runs(world, monkeypatch):
    monkeypatch.setattr("runtimes.kubernetes.watch.checkpoint_watch.CHECK_EVERY_S", 0.2)
    spec = world.spec("mkdir -p ~/runs/b; echo 7 >~/runs/b/step; sleep 60", checkpoint=Checkpoint("~/runs/b", "", 1))

    def told(view):
        try:
            return next((each.checkpointed_at for each in view.list_containers() if each.uuid == spec.uuid), None)
        except Unavailable:
            return None  # the first list is not there yet

    with ClusterView(world.runtime) as view:
        world.runtime.start(spec)
        saved_at = wait_slowly(lambda: told(view)).timestamp()
    step = world.files / "home/20001/runs/b/step"
    assert abs(step.stat().st_mtime - saved_at) < 1
    world.runtime.stop(spec.uuid, 0, epoch=spec.epoch)


def test_a_job_without_anything_of_these_runs_where_there_is_no_volume(world, kubeconfig):
    bare = KubernetesWorld(kubeconfig)
    try:
        status, said = run(bare, "echo x >~/note && cat ~/note; ls -d /tessera/team")
        assert "x" in said.splitlines() and status != 0  # what it says on its two streams comes in any order
    finally:
        bare.close()
