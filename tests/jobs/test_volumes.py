"""Volumes that jobs name: storage of the site, given by an administrator to a team or to all."""

import pytest

from common.errors import Conflict, InvalidInput, NameTaken, NotPermitted
from files.models import Volume
from files.volumes import save_volume
from jobs.used_data.volumes import delete_unused_volume
from runtimes.contract.task import Mount
from runtimes.storage.areas import NO_VOLUME, AreaId
from scheduler.reconcile.actions import find_missing_data
from scheduler.reconcile.task_specs import build_task_spec
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(settings, tmp_path):
    settings.TESSERA_FILES = tmp_path / "files"
    cast = make.cast()
    cast.root = make.admin()
    return cast


def submit(user, data, **fields):
    return make.job(user, data=data, pool="dev", **fields)


def refusal(user, data) -> tuple[str, str]:
    with pytest.raises(InvalidInput) as refused:
        submit(user, data)
    (error,) = refused.value.errors
    return error.pointer, error.code


def mounts_of(job) -> dict[str, Mount]:
    make.start(job)
    (task,) = job.newest_tasks
    return {mount.target: mount for mount in build_task_spec(task).mounts}


def test_a_job_has_a_volume_as_its_admin_and_its_file_say(world):
    make.volume(world.root)
    make.volume(world.root, name="scratch", source="/scratch", read_only=False)
    data = {"in": "volume:imagenet/train/./a", "all": "volume:imagenet", "out": "volume:scratch/ada"}
    job = submit(world.ada, {**data, "look": "volume:scratch:ro"}, gpu="1/4")
    assert job.spec["data"]["in"] == "volume:imagenet/train/a"
    assert mounts_of(job) == {
        "in": Mount(AreaId("volume", "/data/imagenet"), "train/a", "in", read_only=True),
        "all": Mount(AreaId("volume", "/data/imagenet"), "", "all", read_only=True),
        "out": Mount(AreaId("volume", "/scratch"), "ada", "out", read_only=False),
        "look": Mount(AreaId("volume", "/scratch"), "", "look", read_only=True),
    }


def test_a_team_has_its_own_and_everybodys_and_no_others(world):
    assert refusal(world.ada, {"in": "volume:imagenet"}) == ("/data/in", "unknown_volume.none")
    make.volume(world.root)
    make.volume(world.root, world.vision, name="videos", source="/data/videos")
    own = make.volume(world.root, world.vision, source="/vision/imagenet")
    assert refusal(world.ada, {"in": "volume:videos"}) == ("/data/in", "unknown_volume")
    job = submit(world.eve, {"in": "volume:imagenet", "also": "volume:videos"}, gpu="1/4")
    assert mounts_of(job)["in"].place == AreaId("volume", own.source)
    with pytest.raises(InvalidInput) as refused:
        make.job(world.ada, pool="dev", roles={"head": {"run": "a", "data": {"in": "volume:videos"}}})
    assert refused.value.errors[0].pointer == "/roles/head/data/in"


@pytest.mark.parametrize(
    "text", ["volume:", "volume:/data", "volume:A", "volume:..", "volume:a/../../etc", "volume: a"]
)
def test_what_names_no_folder_of_a_volume_is_refused(world, text):
    make.volume(world.root, name="a")
    assert refusal(world.ada, {"in": text})[1] in ("bad_volume", "bad_data")


@pytest.mark.parametrize(
    "source",
    ["data", "", "/", "/etc", "/etc/ssh", "/var", "/proc/1", "/data/../etc", "{files}", "{files}/home", "/data\0"],
)
def test_no_folder_of_the_system_or_of_the_platform_is_given(world, settings, source):
    settings.TESSERA_DATA = settings.TESSERA_FILES.parent
    with pytest.raises(InvalidInput):
        make.volume(world.root, source=source.format(files=settings.TESSERA_FILES))
    assert not Volume.objects.exists()


def test_on_a_cluster_it_is_a_claim(world, settings):
    settings.IN_CONTAINERS = True
    assert make.volume(world.root, source="imagenet-claim").source == "imagenet-claim"
    with pytest.raises(InvalidInput):
        make.volume(world.root, name="other", source="/data")


def test_only_administrators_name_them_and_once(world):
    volume = make.volume(world.root)
    with pytest.raises(NotPermitted):
        make.volume(world.ada, name="mine", source="/data")
    with pytest.raises(NameTaken):
        make.volume(world.root)
    volume.source = "/data/other"
    with pytest.raises(NotPermitted):
        save_volume(actor=world.bob, volume=volume)


def test_it_is_kept_while_an_open_job_names_it(world):
    volume = make.volume(world.root)
    make.volume(world.root, name="imagenet-2", source="/data/2")
    submit(world.ada, {"in": "volume:imagenet-2"})
    job = submit(world.ada, {"in": "volume:imagenet/train"})
    with pytest.raises(Conflict) as refused:
        delete_unused_volume(actor=world.root, volume=volume)
    assert refused.value.params["jobs"] == job.public_id
    make.start(job)
    make.end(job)
    with pytest.raises(NotPermitted):
        delete_unused_volume(actor=world.bob, volume=volume)
    delete_unused_volume(actor=world.root, volume=volume)


def test_a_task_of_a_volume_that_is_gone_says_so(world):
    make.volume(world.root)
    job = submit(world.ada, {"in": "volume:imagenet"}, gpu="1/4")
    Volume.objects.all().delete()
    make.start(job)
    (task,) = job.newest_tasks
    spec = build_task_spec(task)
    assert spec.mounts == (Mount(NO_VOLUME, "", "in", read_only=True),)
    assert "The volume at in was removed" in find_missing_data(spec)
