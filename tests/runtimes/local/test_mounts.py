"""Folders that outlive a task: its owner's home, the team's, and the data that a job names."""

import os

import pytest

from runtimes.contract.errors import Rejected
from runtimes.contract.task import Mount
from runtimes.dataset_store.layout import StoreLayout
from runtimes.dataset_store.taking import take_folder
from runtimes.local.node.isolation_probe import OWN_UID, Isolation
from runtimes.storage.areas import AreaId, get_area_path
from runtimes.storage.file_store import FileStore
from tests.runtimes.worlds import GID, UID, LocalWorld

KEY = "0123456789abcdef" * 2
HOME, TEAM = AreaId("home", UID), AreaId("team", GID)


@pytest.fixture
def apart():
    world = LocalWorld()
    if not world.runtime.machine.isolation.namespaces:
        pytest.skip("this kernel allows no namespaces here")
    yield world
    world.close()


def kept(world, place: AreaId):
    return get_area_path(world.base / "data/files", place)


def said(world, run: str, **fields) -> str:
    """What a task that ended well wrote."""
    view = world.run(run, **fields)
    assert view.exit_code == 0, (view, world.log(view.uuid))
    return world.log(view.uuid)


def test_home_and_team_folder_are_kept_from_task_to_task(world):
    said(world, "echo mine > ~/a; echo ours > $TESSERA_TEAM_FOLDER/b")
    assert said(world, "cat ~/a $TESSERA_TEAM_FOLDER/b; cd; pwd").startswith("mine\nours\n")
    assert (kept(world, HOME) / "a").read_text() == "mine\n" and (kept(world, TEAM) / "b").read_text() == "ours\n"


def test_home_belongs_to_the_person_and_the_team_folder_to_the_team(world):
    said(world, "mkdir $TESSERA_TEAM_FOLDER/sub")
    home, team, sub = (os.stat(path) for path in (kept(world, HOME), kept(world, TEAM), kept(world, TEAM) / "sub"))
    assert (home.st_mode & 0o7777, team.st_mode & 0o7777) == (0o700, 0o2770)
    if world.runtime.machine.isolation.separate_uids:
        assert (home.st_uid, home.st_gid, team.st_uid, team.st_gid) == (UID, GID, 0, GID)
        assert (sub.st_uid, sub.st_gid) == (UID, GID)


def test_two_members_change_each_others_files_in_the_team_folder_and_a_stranger_finds_none(world):
    said(world, "cd $TESSERA_TEAM_FOLDER; umask 077; mkdir sub; echo ada > sub/plan; install -m 600 /dev/null sub/own")
    log = said(world, "cd $TESSERA_TEAM_FOLDER/sub; echo bob >> plan; echo x > more; cat plan", uid=UID + 1)
    sub = kept(world, TEAM) / "sub"
    found = [os.stat(sub / name) for name in (".", "plan", "more", "own")]
    assert log == "ada\nbob\n" and [facts.st_mode & 0o7777 for facts in found] == [0o2770, 0o660, 0o660, 0o600]
    if world.runtime.machine.isolation.separate_uids:
        assert {facts.st_gid for facts in found} == {GID}
        away = f"ls {sub} || echo closed; ls $TESSERA_TEAM_FOLDER"
        assert said(world, away, uid=UID + 2, gid=GID + 1).split()[-1] == "closed"


def test_home_survives_that_its_task_is_forgotten(world):
    view = world.run("touch ~/kept; touch gone")
    world.runtime.forget(view.uuid)
    assert (kept(world, HOME) / "kept").exists() and not os.path.exists(world.runtime.machine.scratch_of(view.uuid))


def test_a_job_sees_nobody_elses_home(apart):
    said(apart, "echo secret > ~/a; chmod -R a+rX ~", uid=UID + 1)
    log = said(apart, f"ls {apart.base}/data {apart.base}/data/files; ls ~; echo done")
    assert "a" not in log.split() and "files" not in log.split()


def test_data_is_found_where_the_job_says_and_made_when_missing(world):
    mount = Mount(HOME, "data/new", "inputs/train", False)
    ours = Mount(TEAM, "sets", "sets", False)
    said(world, "pwd; echo x > inputs/train/x; echo y > sets/y", mounts=(mount, ours))
    assert (kept(world, HOME) / "data/new/x").read_text() == "x\n"
    assert (kept(world, TEAM) / "sets/y").read_text() == "y\n"
    if world.runtime.machine.isolation.separate_uids:
        made = os.stat(kept(world, HOME) / "data")
        assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (UID, GID, 0o755)


def test_read_only_data_cannot_be_written(apart):
    said(apart, "mkdir -p ~/data; echo x > ~/data/x")
    mount = Mount(HOME, "data", "data", True)
    assert said(apart, "cat data/x; touch data/y 2>/dev/null || echo refused", mounts=(mount,)) == "x\nrefused\n"


def test_a_volume_of_the_site_is_had_with_the_rights_of_its_files(apart, tmp_path):
    volume = apart.base / "site"
    for name, mode in (("open", 0o777), ("closed", 0o700)):
        (volume / name).mkdir(parents=True)
        (volume / name).chmod(mode)
    (volume / "open/a").write_text("1\n")
    (volume / "open/out").symlink_to("/etc")
    place = AreaId("volume", str(volume))
    run = "cat in/a; touch in/b || echo read-only; touch out/b; ls all/closed || echo closed; ls all"
    mounts = (Mount(place, "open", "in", True), Mount(place, "open", "out", False), Mount(place, "", "all", True))
    log = said(apart, f"({run}) 2>/dev/null", mounts=mounts)
    assert log.split() == ["1", "read-only", "closed", "closed", "open"]
    assert (volume / "open/b").exists() and not (volume / "open/c").exists()
    said(apart, "touch made/x", mounts=(Mount(place, "open/new", "made", False),))
    assert (volume / "open/new/x").exists()
    view = apart.run("ls in", mounts=(Mount(place, "missing", "in", True),))
    assert view.exit_code != 0 and not (volume / "missing").exists()
    view = apart.run("ls in", mounts=(Mount(place, "open/out", "in", True),))
    assert view.exit_code != 0  # a link leads nowhere out of it


def test_a_version_of_a_dataset_is_read_and_never_written(apart):
    root = apart.base / "data/files"
    said(apart, "mkdir -p ~/corpus/deep; echo 1 > ~/corpus/a; echo 2 > ~/corpus/deep/b")
    walk = FileStore(root, HOME, uid=UID, gid=GID).open_walk("corpus")
    take_folder(StoreLayout(root), walk, key=KEY, number=7)
    walk.close()
    tries = (
        "touch in/x in/deep/x; echo 3 > in/a; chmod u+w in/a; rm -f in/a; mv in/deep in/d; ls ..; cat in/a in/deep/b"
    )
    log = said(apart, f"({tries}) 2>/dev/null", mounts=(Mount(AreaId("dataset", KEY), "7", "in", True),))
    assert log.split()[-2:] == ["1", "2"] and KEY not in log
    others = f"ls {root}/dataset {root}/dataset/{KEY} {root}/dataset-store 2>/dev/null || echo hidden"
    assert said(apart, others) == "hidden\n"


def test_a_folder_of_the_platform_appears_read_only_at_its_own_path(apart):
    tools = apart.base / "data/tools"
    tools.mkdir()
    (tools / "tool").write_text("useful")
    mount = Mount(None, str(tools), str(tools), True)
    log = said(
        apart,
        f"cat {tools}/tool; touch {tools}/x 2>/dev/null || echo ' refused'",
        mounts=(mount,),
    )
    assert log.split() == ["useful", "refused"] and not (tools / "x").exists()


@pytest.mark.parametrize("link", ["/etc", "../../../.."])
def test_a_link_that_leads_out_of_a_home_is_not_followed(world, link):
    said(world, f"ln -s {link} ~/out; mkdir ~/in; ln -s in ~/fine")
    view = world.run("ls data", mounts=(Mount(HOME, "out", "data", False),))
    assert view.cause == "start_failed" and "out" in view.detail and "data" in view.detail
    view = world.run("ls data", mounts=(Mount(HOME, "out/made", "data", False),))
    assert view.cause == "start_failed"
    said(world, "touch data/here", mounts=(Mount(HOME, "fine", "data", False),))
    assert (kept(world, HOME) / "in/here").exists()


def test_data_does_not_cover_a_file_of_the_code(world, tmp_path):
    said(world, "touch ~/file")
    view = world.run("true", mounts=(Mount(HOME, "file", "data", False),))
    assert view.cause == "start_failed" and "file" in view.detail


@pytest.mark.parametrize("target", ["..", "../x", ".", "", "/etc", "/", "a/../../b"])
def test_a_target_outside_of_the_work_directory_is_rejected(world, target):
    with pytest.raises(Rejected, match="mounted"):
        world.runtime.start(world.spec("true", mounts=(Mount(HOME, "x", target, False),)))


@pytest.mark.parametrize("source", ["../20002", "a/../../x", "/etc"])
def test_a_source_outside_of_its_place_does_not_start(world, source):
    view = world.run("true", mounts=(Mount(HOME, source, "data", False),))
    assert view.cause == "start_failed" and "data" in view.detail


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_folder_closed_to_the_person_is_not_opened_for_her_by_us(apart):
    closed = kept(apart, TEAM) / "bobs"
    said(apart, "true")
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0o700)
    view = apart.run("ls data", mounts=(Mount(TEAM, "bobs/inner", "data", False),))
    assert view.cause == "start_failed" and "ermission" in view.detail


def test_without_namespaces_read_only_data_is_rejected_with_words(world):
    if world.runtime.machine.isolation.namespaces:
        assert world.runtime.list_nodes()[0].facts["read_only_data"] == "yes"
        return
    assert world.runtime.list_nodes()[0].facts["read_only_data"] == "refused"
    with pytest.raises(Rejected, match="read-only"):
        world.runtime.start(world.spec("true", mounts=(Mount(HOME, "x", "data", True),)))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_where_jobs_cannot_reach_the_files_the_node_says_so():
    world = LocalWorld(isolation=Isolation(OWN_UID, True, False))
    world.base.joinpath("data").chmod(0o700)
    assert world.runtime.list_nodes()[0].facts["homes"] == "gone with the task"
    assert said(world, "touch ~/a; echo x$TESSERA_TEAM_FOLDER") == "x\n"
    with pytest.raises(Rejected, match="reach"):
        world.runtime.start(world.spec("true", mounts=(Mount(HOME, "x", "data", False),)))
    world.close()


def test_the_platforms_own_environment_wins_and_ports_are_told_by_name(world):
    spec = {"env": {"A": "mine", "TESSERA_UPSTREAM_TOKEN": "mine"}, "port_map": {8888: 23456}, "ports": (23456,)}
    platform = {"A": "theirs", "TESSERA_UPSTREAM_TOKEN": "theirs", "TESSERA_TASK": "no"}
    log = said(
        world,
        "echo $A $TESSERA_UPSTREAM_TOKEN $TESSERA_PORT_8888 $TESSERA_PORTS; [ $TESSERA_TASK != no ]",
        platform_env=platform,
        **spec,
    )
    assert log == "theirs theirs 23456 23456\n"


def test_tmp_and_shared_memory_are_the_tasks_own(apart, tmp_path):
    mark = f"tessera-{os.getpid()}-of-one"
    said(apart, f"echo mine > /tmp/{mark}; echo mine > /dev/shm/{mark}")
    assert not os.path.exists(f"/tmp/{mark}") and not os.path.exists(f"/dev/shm/{mark}")
    look = f"ls -A /tmp /dev/shm $TMPDIR; test -e {tmp_path} || echo no file of the machine; stat -c %a /tmp"
    log = said(apart, f"{look}; df -m --output=size /dev/shm", memory_mib=96)
    assert mark not in log and log.split("\n")[-5:-3] == ["no file of the machine", "1777"]
    assert log.split()[-1] == "96"  # no more than its memory, of which it is a part
    assert said(apart, "df -m --output=size /dev/shm", memory_mib=96, shm_mib=24).split()[-1] == "24"


def test_a_task_sees_the_devices_that_programs_need_and_none_to_make_networks_or_file_systems(apart):
    need = "null zero full random urandom tty ptmx pts shm fd stdin stdout stderr"
    use = "head -c 3 /dev/zero | wc -c; echo x 2> /dev/null > /dev/full || echo full"
    assert said(apart, f"cd /dev; ls -d {need} > /dev/null; {use}") == "3\nfull\n"
    log = said(apart, "ls -A /dev; cat /dev/net/tun /dev/fuse 2>&1; touch /dev/x 2>&1; :")
    assert not {"net", "fuse", "kvm", "vsock", "kmsg", "autofs", "sda", "vda", "mem"} & set(log.split())
    assert log.count("No such file or directory") == 2 and "/dev/x" in log
