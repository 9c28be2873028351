"""What a pod sees of the volume that has everybody's files: its own parts, whatever a person writes or lays there."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.task import Mount
from runtimes.kubernetes.pods.files_volume import build_links, prepare_files
from runtimes.kubernetes.pods.manifest import build_pod, check_install_config
from runtimes.kubernetes.runtime import KubernetesRuntime
from runtimes.storage.areas import AreaId
from tests.runtimes.kubernetes.specs import CARDS, CONFIG, SHARED, STORAGE, STORED, TASKS, UUID, WITH_FILES, task
from tests.runtimes.kubernetes.test_manifest import HOSTILE
from tests.runtimes.kubernetes.test_runtime import Pods

OWN = {"files/home/20001", "files/team/20000", f"files/report/{UUID}.jsonl"}


def parts(spec) -> list[dict]:
    """The mounts of the volume."""
    (container,) = build_pod(spec, STORED, CARDS)["spec"]["containers"]
    return [mount for mount in container["volumeMounts"] if mount["name"] == "files"]


def data(*mounts: Mount):
    return task(mounts=mounts)


def home(source: str, target: str = "data", *, read_only: bool = False, number: int = 20001) -> Mount:
    return Mount(AreaId("home", number), source, target, read_only)


def test_every_pod_sees_its_persons_home_its_teams_folder_and_its_own_numbers_and_no_more():
    assert {mount["subPath"] for mount in parts(task())} == OWN


@pytest.mark.parametrize("path", [each for each in HOSTILE if "\0" not in each])
def test_no_path_of_a_persons_is_ever_mounted(path):
    """Who could lay a link there would see whatever it leads to in the volume."""
    for mount in (home(path), home("x", path), home(path, read_only=True)):
        try:
            assert {each["subPath"] for each in parts(data(mount))} == OWN
        except Rejected:
            continue


def test_what_is_read_only_is_seen_through_a_mount_that_nobody_writes_to():
    (mount,) = [each for each in parts(data(home("sets", read_only=True))) if each.get("readOnly")]
    part = {"mountPath": "/tessera/read-only/home", "subPath": "files/home/20001"}
    assert mount == {"name": "files", "readOnly": True, **part}


def dataset(version: str = "7", *, key: str = "d" * 32, read_only: bool = True) -> Mount:
    return Mount(AreaId("dataset", key), version, "in", read_only)


def test_an_environment_is_at_its_fixed_place_and_what_a_task_makes_is_linked_there():
    used = replace(data(), mounts=(), environment=dataset())
    (mount,) = [each for each in parts(used) if each["mountPath"] == "/tessera/env"]
    assert (mount["subPath"], mount["readOnly"]) == (f"files/dataset/{'d' * 32}/7", True)
    made = replace(used, environment=Mount(AreaId("home", 20001), ".kept/nb-1", "env", False))
    assert not [each for each in parts(made) if each["mountPath"] == "/tessera/env"]
    kept = "/tessera/home/.kept/nb-1"
    assert build_links(made) == ["022", kept, kept, "/tessera/env"]
    with pytest.raises(Rejected):
        parts(replace(used, environment=dataset(key="../home")))


def test_a_version_of_a_dataset_is_mounted_as_a_whole_and_nobody_writes_to_it():
    (mount,) = [each for each in parts(data(dataset())) if each.get("readOnly")]
    part = {"mountPath": f"/tessera/datasets/{'d' * 32}/7", "subPath": f"files/dataset/{'d' * 32}/7"}
    assert mount == {"name": "files", "readOnly": True, **part}


def site(claim: str = "imagenet", source: str = "train", target: str = "in", *, read_only: bool = True) -> Mount:
    return Mount(AreaId("volume", claim), source, target, read_only)


def test_claims_of_the_site_are_mounted_whole_and_once_each_as_they_may_be_written():
    pod = build_pod(data(site(), site(source="val", target="val"), site(read_only=False, target="out")), STORED, CARDS)
    claims = [one["persistentVolumeClaim"] for one in pod["spec"]["volumes"] if one["name"].startswith("volume-")]
    assert claims == [{"claimName": "imagenet"}]  # a kubelet waits for ever on a claim that has two names
    (container,) = pod["spec"]["containers"]
    assert [one for one in container["volumeMounts"] if one["name"].startswith("volume-")] == [
        {"name": "volume-0", "mountPath": "/tessera/volumes/volume-0"},
        {"name": "volume-0", "mountPath": "/tessera/read-only/volume-0", "readOnly": True},
    ]
    written = str(pod)
    assert "/tessera/read-only/volume-0/train" in written and "/tessera/volumes/volume-0/train" in written


REFUSED = {
    "no claim": data(site("")),
    "a claim elsewhere": data(site("../x")),
    "out of the claim": data(site(source="../x")),
    "a dataset to write to": data(dataset(read_only=False)),
    "all versions of a dataset": data(dataset("")),
    "inside a version": data(dataset("7/x")),
    "out of the dataset": data(dataset("../7")),
    "an account's key": data(dataset(key="../home")),
    "another's home": data(home("x", number=20002)),
    "out of the home": data(home("../20002")),
    "out of the work folder": data(home("x", "../x")),
    "an absolute target": data(home("x", "/etc")),
    "the work folder itself": data(home("x", "a/..")),
    "a folder of the machine": data(Mount(None, "/etc", "/etc", True)),
    "all of the volume": data(Mount(None, str(SHARED), str(SHARED), True)),
    "what others write": data(Mount(None, f"{SHARED}/x", f"{SHARED}/x", False)),
    "elsewhere than it lies": data(Mount(None, f"{SHARED}/x", "/usr/bin", True)),
    "code from elsewhere": task(code_path="/var/lib/secret.tar.gz"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_its_own_is_refused_with_words(name):
    with pytest.raises(Rejected, match=r"[A-Z/].*\."):
        build_pod(REFUSED[name], STORED, CARDS)


def test_without_a_volume_the_remedy_is_said_and_other_jobs_run():
    with pytest.raises(Rejected, match="ask an administrator to set TESSERA_STORAGE_CLASS"):
        build_pod(WITH_FILES, CONFIG, CARDS)
    assert build_pod(TASKS["cpu_only"], CONFIG, CARDS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"storage_class": "Shared Files"}, "TESSERA_STORAGE_CLASS"),
        ({"size": "plenty"}, "TESSERA_STORAGE_SIZE .* such as 500Gi"),
        ({"access": "ReadOnlyMany"}, "TESSERA_STORAGE_ACCESS .* ReadWriteMany"),
        ({"files": Path("/var/lib/files")}, "TESSERA_FILES .* below TESSERA_STORAGE, /srv/tessera"),
        ({"code": SHARED}, "TESSERA_CODE"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_what_may_be(change, words):
    with pytest.raises(ValueError, match=words):
        check_install_config(replace(CONFIG, storage=replace(STORAGE, **change)))


@pytest.fixture
def volume(tmp_path):
    return replace(STORAGE, root=tmp_path, files=tmp_path / "files", code=tmp_path / "code")


def test_the_places_are_there_before_the_pod_is(volume, monkeypatch):
    owners = {}
    monkeypatch.setattr("os.chown", lambda path, uid, gid: owners.update({path.name: (uid, gid)}))
    prepare_files(task(), volume)
    assert (volume.files / "home/20001").stat().st_mode & 0o7777 == 0o700
    assert (volume.files / "team/20000").stat().st_mode & 0o7777 == 0o2770
    report = f"{UUID}.jsonl"
    assert (volume.files / "report" / report).stat().st_mode & 0o777 == 0o600
    assert owners == {".new-20001": (20001, 20000), ".new-20000": (0, 20000), report: (20001, 20000)}


def test_code_that_is_gone_ends_the_job_and_a_volume_that_refuses_does_not(volume, monkeypatch):
    monkeypatch.setattr("os.chown", lambda *_: None)
    with pytest.raises(Rejected, match="submit it again"):
        prepare_files(task(code_path=str(volume.code / "1.tar.gz")), volume)
    (volume.root / "other").write_text("")
    with pytest.raises(Unavailable, match="could not be made"):
        prepare_files(task(), replace(volume, files=volume.root / "other"))


def test_a_tasks_numbers_are_read_from_its_file_which_goes_when_it_is_forgotten(volume, monkeypatch):
    monkeypatch.setattr("os.chown", lambda *_: None)
    folders = {name: getattr(volume, name) for name in ("storage_class", "root", "files", "code")}
    runtime = KubernetesRuntime(install=CONFIG.install, image=CONFIG.image, api=Pods(), storage=folders)
    assert runtime.open_report(UUID) is None
    prepare_files(task(), volume)
    report = volume.files / f"report/{UUID}.jsonl"
    report.write_text('{"loss": 1}\n')
    prepare_files(task(), volume)  # a start that is repeated
    fd = runtime.open_report(UUID)
    assert os.read(fd, 100) == b'{"loss": 1}\n'
    os.close(fd)
    runtime.forget(UUID)
    assert not report.exists() and runtime.open_report(UUID) is None


def test_without_a_volume_nobody_reports_numbers():
    runtime = KubernetesRuntime(install=CONFIG.install, image=CONFIG.image, api=Pods())
    assert runtime.open_report(UUID) is None
    for config, has_report in ((CONFIG, False), (STORED, True)):
        (container,) = build_pod(task(), config, CARDS)["spec"]["containers"]
        assert ("TESSERA_REPORT" in {each["name"] for each in container["env"]}) == has_report
