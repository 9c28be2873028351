"""What a restore refuses before it changes anything, and what it says of tasks that ran in between."""

from datetime import UTC, datetime
from io import StringIO
from types import SimpleNamespace
from typing import ClassVar

import pytest
from django.core.management import CommandError, call_command

from accounts.models import User
from accounts.services import create_user
from config.backup import in_between, restore
from config.backup.backup import make_backup
from config.backup.sealing import make_key_files, read_public_key
from events.models import Event
from jobs.control import release_job
from jobs.models import Job, Task
from jobs.states import TaskState
from portal.wording.events import describe_event
from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import Capabilities
from runtimes.storage.areas import AreaId, ensure_area
from tests import make

NOBODY = "Nobody gets their numbers."
MADE_AT = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def places(tmp_path, settings):
    for name in ("logs", "code", "files", "data"):
        setattr(settings, f"TESSERA_{name.upper()}", tmp_path / "platform" / name)
        (tmp_path / "platform" / name).mkdir(parents=True)
    return tmp_path


class Runtime:
    """Shows what a test says."""

    remains: ClassVar[set[str]] = set()

    def __init__(self, *views: ContainerView, remains=()):
        self.views = list(views)
        self.capabilities = Capabilities(False, "fake", remains=f"{__name__}.list_remains")
        Runtime.remains = set(remains)

    def list_containers(self):
        return self.views


def list_remains(uuids):
    return Runtime.remains & set(uuids)


def view(task: Task, phase: str = "running") -> ContainerView:
    return ContainerView(task.uuid.hex, "n1", phase, started_at=MADE_AT)


def words_of(job: Job) -> list[str]:
    events = Event.objects.filter(kind="job", object_id=job.pk, verb="restored")
    return [describe_event(event, alone=True) for event in events]


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture
def tasks(cast):
    """Of four jobs that ran at the backup."""
    jobs = [make.job(cast.ada, gpu="1/8") for _ in range(4)]
    return [make.start(job)[0] for job in jobs]


def tell(runtime, **wishes) -> list[str]:
    return in_between.record_in_between(runtime, MADE_AT, **{"hold_waiting": False, **wishes})


def test_each_task_that_ran_is_told_with_what_became_of_it(tasks):
    runs, ended, apart, gone = tasks
    lines = tell(Runtime(view(runs), view(ended, "exited"), remains=[apart.uuid.hex]))
    assert lines == [
        f"job-{task.job_id} main.0 {in_between.WORDS[kind]}"
        for task, kind in zip(tasks, ("runs", "ended", "apart", "gone"), strict=True)
    ]
    states = [Task.objects.get(pk=task.pk).state for task in tasks]
    assert states == [TaskState.RUNNING, TaskState.RUNNING, TaskState.LOST, TaskState.LOST]
    settled = [Task.objects.get(pk=task.pk).settled for task in tasks]
    assert settled[:3] == [None] * 3 and settled[3]["by"] == "restore"  # what may still run is nobody's to end
    assert [words_of(task.job) for task in (runs, gone)] == [
        ["A backup of 2026-11-26 12:00 UTC was restored; main.0 still runs"],
        ["A backup of 2026-11-26 12:00 UTC was restored; nothing of main.0 was found"],
    ]


def test_what_was_lost_before_the_backup_is_not_settled_by_it(tasks):
    make.move(tasks[0], TaskState.LOST)
    tell(Runtime(*map(view, tasks[1:])))
    assert Task.objects.get(pk=tasks[0].pk).settled is None


def test_a_job_that_has_begun_since_is_held_and_its_name_is_never_given_again(cast):
    job = make.job(cast.ada, gpu="1/4")
    task = job.newest_tasks.get()
    lines = tell(Runtime(view(task)))
    job.refresh_from_db()
    assert job.held_by == "restore" and job.newest_tasks.get().uuid != task.uuid
    assert lines[0] == f"job-{job.pk} main.0 {in_between.WORDS['began']}"
    assert lines[1].startswith(f"{task.uuid.hex} on n1 (running, since 2026-11-26 12:00 UTC) belongs to no job")
    assert f"strangers --end {task.uuid.hex}" in lines[1]
    assert release_job(actor=cast.ada, job=job).held_at is None


def test_a_container_that_no_job_knows_is_named_and_left_alone(tasks):
    stranger = ContainerView("f" * 32, "n9", "running", started_at=MADE_AT)
    lines = tell(Runtime(*map(view, tasks), stranger))
    assert lines[-1].startswith(f"{'f' * 32} on n9")


def test_jobs_that_wait_are_told_and_held_on_request(cast):
    job = make.job(cast.ada, gpu="1/4")
    assert tell(Runtime()) == ["1 jobs wait, and start as usual; any that ran after the backup run once more."]
    array = make.array(cast.ada, 200)
    assert tell(Runtime(), hold_waiting=True)[0].startswith("2 jobs wait, all of them held")
    array.refresh_from_db()
    assert array.halted_at is not None and not array.makes_more
    job.refresh_from_db()
    assert job.held_by == "restore"


def test_files_of_people_who_came_after_the_backup_are_named_and_their_numbers_not_given_again(cast, settings):
    next_uid = cast.eve.uid + 1
    ensure_area(settings.TESSERA_FILES, AreaId("home", next_uid), uid=None, gid=None)
    (settings.TESSERA_LOGS / "aa").mkdir()
    (settings.TESSERA_LOGS / "aa" / f"{'a' * 32}.log").touch()
    logs, homes = tell(Runtime())
    assert logs.startswith("1 logs in") and "a" * 32 in logs
    assert homes == f"1 folders in {settings.TESSERA_FILES / 'home'} are nobody's in the backup: {next_uid}. {NOBODY}"
    assert create_user(username="zoe").uid == next_uid + 1


# --- What is refused ---


@pytest.fixture
def made(places, transactional_db, settings, monkeypatch):
    """A backup of this database, a private key, and a runtime that answers."""
    settings.SECRET_KEY, settings.TESSERA_EMBEDDED = "the-key-of-this-platform", False
    make.cast()
    monkeypatch.setattr(restore, "get_runtime", Runtime)
    folder, _ = make_backup(places / "backups", read_public_key(make_key_files(places / "key")), copies_homes=True)
    return SimpleNamespace(folder=folder, key=places / "key", places=places)


def refused(*words) -> str:
    with pytest.raises(CommandError) as no:
        call_command("restore", *map(str, words))
    return str(no.value)


def test_a_restore_is_refused_in_words_before_anything_changes(made, monkeypatch, settings):
    assert "in use.\n  Restore onto an empty one" in refused(made.folder, "--key", made.key)
    assert "sealed.\n  Give the private key: --key FILE. Or --without-secrets" in refused(made.folder)
    make_key_files(made.places / "other")
    assert "sealed for another key" in refused(made.folder, "--key", made.places / "other")
    assert "only seals" in refused(made.folder, "--key", made.places / "key.pub")
    monkeypatch.setattr(restore, "has_rows", lambda: False)
    (settings.TESSERA_LOGS / "left.log").touch()
    assert "logs is not empty.\n  Restore onto an empty installation" in refused(made.folder, "--key", made.key)
    (settings.TESSERA_LOGS / "left.log").unlink()
    settings.SECRET_KEY = "another"
    assert "TESSERA_SECRET_KEY is another one" in refused(made.folder, "--key", made.key)
    (made.folder / "logs.tar.gz").write_bytes(b"")
    assert "damaged: logs.tar.gz" in refused(made.folder, "--without-secrets")


def test_a_restore_asks_the_cluster_before_it_changes_anything(made, monkeypatch):
    def away():
        raise Unavailable("no route to host")

    monkeypatch.setattr(restore, "has_rows", lambda: False)
    monkeypatch.setattr(restore, "get_runtime", lambda: SimpleNamespace(list_containers=away))
    assert "cannot be asked: no route to host\n  Make the cluster reachable" in refused(made.folder, "--key", made.key)
    assert User.objects.filter(username="ada").exists()  # all is as it was


def test_the_key_of_the_platform_can_be_taken_out_beforehand(made, settings):
    settings.SECRET_KEY = "a fresh one, on the new machine"
    target, out = made.places / "secrets.env", StringIO()
    call_command("restore", str(made.folder), "--key", str(made.key), "--secrets-to", str(target), stdout=out)
    assert target.read_text() == "TESSERA_SECRET_KEY=the-key-of-this-platform\n" and target.stat().st_mode & 0o77 == 0
