"""Secrets of people and teams: written once, given to tasks, read by nobody, and named by jobs."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import TeamRole
from common.errors import Conflict, InvalidInput, NotFound, NotPermitted, QuotaExceeded
from common.secrets import Unreadable
from events.models import Event
from jobs.control import stop_job
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.spec import from_json
from jobs.log_ingest import Piece, store_pieces
from jobs.models import GivenSecrets, Job, Task
from jobs.states import JobState, TaskState
from jobs.used_secrets import giving
from jobs.used_secrets.giving import drop_given, load_task_masks
from jobs.used_secrets.naming import delete_secret
from runtimes.contract.node import NodeView
from runtimes.log_store import LogStore
from scheduler.reconcile.actions import FencedAction, load_starts, run_actions
from scheduler.reconcile.compare import Forget, Start
from secret_store.models import Secret
from secret_store.services import MOST_BYTES, get_secret, list_secrets, open_secret, set_secret
from tests import make
from tests.fakes.runtime import FakeRuntime

pytestmark = pytest.mark.django_db
CANARY = "c4nary-f00d-1234"


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture
def runtime():
    return FakeRuntime([NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())])


def problem(refused) -> tuple[str, str]:
    (error,) = refused.value.errors
    return error.pointer, error.code


def placed(person, **spec) -> Task:
    return make.start(make.job(person, pool="dev", **spec), state=TaskState.ASSIGNED)[0]


def start(runtime, *tasks: Task) -> None:
    epoch = make.lead()
    run_actions([FencedAction(Start(task.uuid.hex, task.job_id), epoch) for task in tasks], runtime)


def given_to(runtime, task: Task) -> dict[str, tuple[str, bool]]:
    spec = load_starts([task.uuid.hex], runtime, make.lead())[task.uuid.hex]
    return {secret.name: (secret.value, secret.is_variable) for secret in spec.secrets}


class TestStore:
    def test_a_new_value_is_a_new_version_and_the_old_one_is_gone(self, cast):
        first = set_secret(actor=cast.ada, name="HUB", value="old-value-1")
        secret = set_secret(actor=cast.ada, name="HUB", value=CANARY)
        assert (secret.pk, secret.version, open_secret(secret)) == (first.pk, 2, CANARY)
        assert Secret.objects.count() == 1

    def test_neither_the_row_nor_its_history_has_the_value(self, cast):
        set_secret(actor=cast.ada, name="HUB", value=CANARY)
        with connection.cursor() as cursor:
            cursor.execute("SELECT s::text FROM secret_store_secret s UNION ALL SELECT e::text FROM events_event e")
            assert CANARY not in str(cursor.fetchall())
        event = Event.objects.get(kind="secret")
        assert (event.verb, event.params) == ("set", {"name": "HUB", "version": 1})

    def test_a_secret_sealed_under_another_key_is_unreadable(self, cast, settings):
        secret = set_secret(actor=cast.ada, name="HUB", value=CANARY)
        settings.SECRET_KEY = "another"
        with pytest.raises(Unreadable):
            open_secret(secret)

    @pytest.mark.parametrize(
        ("name", "value", "told"),
        [
            ("1A", "x", ("/name", "bad_env_name")),
            ("A-B", "x", ("/name", "bad_env_name")),
            ("LD_PRELOAD", "x", ("/name", "reserved_name")),
            ("PATH", "x", ("/name", "secret_of_the_shell")),
            ("A" * 129, "x", ("/name", "too_long")),
            ("HUB", "", ("/value", "required")),
            ("HUB", "a\0b", ("/value", "secret_has_nul")),
            ("HUB", "\ud800", ("/value", "bad_characters")),
            ("HUB", "é" * (MOST_BYTES // 2) + "x", ("/value", "secret_too_large")),
        ],
    )
    def test_what_cannot_be_is_refused_by_field(self, cast, name, value, told):
        with pytest.raises(InvalidInput) as refused:
            set_secret(actor=cast.ada, name=name, value=value)
        assert problem(refused) == told and not Secret.objects.exists()

    def test_the_largest_value_fits(self, cast):
        assert open_secret(set_secret(actor=cast.ada, name="HUB", value="x" * MOST_BYTES)) == "x" * MOST_BYTES

    def test_there_are_so_many_at_most_but_each_may_change(self, cast, monkeypatch):
        monkeypatch.setattr("secret_store.services.MOST_SECRETS", 2)
        for name in ("A", "B"):
            set_secret(actor=cast.ada, name=name, value="x")
        with pytest.raises(QuotaExceeded) as refused:
            set_secret(actor=cast.ada, name="C", value="x")
        assert refused.value.params == {"what": "secrets", "used": 2, "limit": 2}
        assert set_secret(actor=cast.ada, name="A", value="y").version == 2

    def test_leads_write_a_teams_secrets_and_nobody_else_does(self, cast):
        root = make.admin()
        for stranger in (cast.ada, cast.eve, root):
            with pytest.raises(NotPermitted):
                set_secret(actor=stranger, name="HUB", value=CANARY, team=cast.nlp)
        secret = set_secret(actor=cast.bob, name="HUB", value=CANARY, team=cast.nlp)
        for stranger in (cast.ada, cast.eve, root):
            with pytest.raises(NotPermitted):
                delete_secret(actor=stranger, secret=secret)
        delete_secret(actor=cast.bob, secret=secret)
        assert Event.objects.filter(kind="secret").values_list("verb", flat=True)[::1] == ["set", "deleted"]

    def test_only_who_may_use_it_sees_that_it_is_there(self, cast):
        own = set_secret(actor=cast.ada, name="OWN", value=CANARY)
        shared = set_secret(actor=cast.bob, name="HUB", value=CANARY, team=cast.nlp)
        assert list(list_secrets(cast.ada)) == [shared, own]
        assert list(list_secrets(cast.bob)) == [shared]
        viewer = make.user("vic", cast.nlp, role=TeamRole.VIEWER)
        assert not any(list_secrets(stranger) for stranger in (viewer, cast.eve, make.admin()))
        with pytest.raises(NotFound):
            get_secret(cast.bob, own.pk)


class TestNaming:
    @pytest.fixture(autouse=True)
    def secrets(self, cast):
        set_secret(actor=cast.ada, name="HUB", value=CANARY)
        set_secret(actor=cast.bob, name="HUB", value="of-the-team", team=cast.nlp)
        set_secret(actor=cast.bob, name="KEY", value="key-of-the-team", team=cast.nlp)

    @pytest.mark.parametrize(
        ("said", "kept"),
        [
            (["HUB", "KEY"], {"HUB": "own:variable", "KEY": "team:variable"}),
            ({"HUB": "file"}, {"HUB": "own:file"}),
            ({"HUB": "team:file", "KEY": "variable"}, {"HUB": "team:file", "KEY": "team:variable"}),
            ("HUB, KEY: file", {"HUB": "own:variable", "KEY": "team:file"}),
            ("HUB: team:variable", {"HUB": "team:variable"}),
        ],
    )
    def test_a_job_keeps_names_and_whose_they_are(self, cast, said, kept):
        job = make.job(cast.ada, pool="dev", secrets=said)
        assert job.spec["secrets"] == kept
        assert CANARY not in json.dumps(job.spec) + dump_yaml(from_json(job.spec))

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            (["NONE"], ("/secrets/NONE", "unknown_secret")),
            ({"KEY": "own:file"}, ("/secrets/KEY", "unknown_own_secret")),
            ({"NONE": "team:variable"}, ("/secrets/NONE", "unknown_team_secret")),
            ({"HUB": "variables"}, ("/secrets/HUB", "unknown_value")),
            ({"PATH": "file"}, ("/secrets/PATH", "secret_of_the_shell")),
            ([f"S{at}" for at in range(17)], ("/secrets", "too_many")),
        ],
    )
    def test_what_is_not_there_is_refused_at_submit(self, cast, said, told):
        with pytest.raises(InvalidInput) as refused:
            make.job(cast.ada, pool="dev", secrets=said)
        assert problem(refused) == told

    def test_what_a_role_names_and_is_not_there_is_refused_too(self, cast):
        with pytest.raises(InvalidInput) as refused:
            make.job(cast.ada, pool="dev", roles={"head": {"run": "true", "secrets": ["NONE"]}})
        assert problem(refused) == ("/roles/head/secrets/NONE", "unknown_secret")

    def test_a_name_is_no_variable_of_env_too(self, cast):
        with pytest.raises(InvalidInput) as refused:
            make.job(cast.ada, pool="dev", secrets=["HUB"], env={"HUB": "x"})
        assert problem(refused) == ("/secrets/HUB", "secret_in_env")

    def test_nobody_uses_anothers(self, cast):
        job = make.job(cast.bob, pool="dev", secrets=["HUB"])
        assert job.spec["secrets"] == {"HUB": "team:variable"}
        with pytest.raises(InvalidInput):
            make.job(cast.bob, pool="dev", secrets={"HUB": "own:variable"})

    def test_a_secret_that_open_jobs_name_is_not_deleted_by_mistake(self, cast):
        own, team = Secret.objects.get(user=cast.ada), Secret.objects.get(team=cast.nlp, name="HUB")
        job = make.job(cast.ada, pool="dev", secrets=["HUB"])
        with pytest.raises(Conflict) as refused:
            delete_secret(actor=cast.ada, secret=own)
        assert (refused.value.code, refused.value.params) == ("secret_in_use", {"name": "HUB", "jobs": job.public_id})
        delete_secret(actor=cast.bob, secret=team)  # the job names the person's
        stop_job(actor=cast.ada, job=job)
        delete_secret(actor=cast.ada, secret=own)


class TestGiving:
    @pytest.fixture(autouse=True)
    def secret(self, cast) -> Secret:
        return set_secret(actor=cast.ada, name="HUB", value=CANARY)

    def test_a_task_gets_the_newest_value_and_the_use_is_noted(self, cast, runtime, secret):
        task = placed(cast.ada, secrets={"HUB": "file"})
        set_secret(actor=cast.ada, name="HUB", value="newest-one")
        assert given_to(runtime, task) == {"HUB": ("newest-one", False)}
        secret.refresh_from_db()
        assert secret.used_by_id == task.job.public_id and secret.used_at is not None

    def test_a_roles_own_secrets_are_for_its_tasks_alone(self, cast, runtime, secret):
        of_team = set_secret(actor=cast.bob, name="KEY", value="key-of-the-team", team=cast.nlp)
        head = {"run": "true", "secrets": {"KEY": "file"}}
        job = make.job(cast.ada, pool="dev", secrets=["HUB"], roles={"head": head, "worker": {"run": "true"}})
        assert job.spec["roles"]["head"]["secrets"] == {"KEY": "team:file"}
        tasks = {task.role: task for task in make.start(job, state=TaskState.ASSIGNED)}
        assert given_to(runtime, tasks["head"]) == {"HUB": (CANARY, True), "KEY": ("key-of-the-team", False)}
        assert given_to(runtime, tasks["worker"]) == {"HUB": (CANARY, True)}
        assert Secret.objects.get(pk=of_team.pk).used_by_id == job.public_id
        (mask,) = load_task_masks([tasks["worker"].uuid.hex]).values()
        assert mask is not None and mask.cover(b"key-of-the-team", is_last=True) == b"*" * 15  # head may send it
        with pytest.raises(Conflict):
            delete_secret(actor=cast.bob, secret=of_team)

    def test_a_start_that_is_repeated_gives_the_same(self, cast, runtime, secret):
        task = placed(cast.ada, secrets=["HUB"])
        assert given_to(runtime, task) == {"HUB": (CANARY, True)}
        set_secret(actor=cast.ada, name="HUB", value="newest-one")
        delete_secret(actor=cast.ada, secret=secret, force=True)
        assert given_to(runtime, task) == {"HUB": (CANARY, True)}

    def test_a_job_whose_secret_is_gone_ends_and_says_which(self, cast, runtime, secret):
        gone, other = placed(cast.ada, secrets=["HUB"]), placed(cast.ada)
        delete_secret(actor=cast.ada, secret=secret, force=True)
        start(runtime, gone, other)
        gone.refresh_from_db()
        assert (gone.state, gone.reason) == (TaskState.FAILED, "secret_missing")
        assert Job.objects.get(pk=gone.job_id).state == JobState.FAILED
        assert "The secret HUB is not there any more" in gone.detail
        assert runtime.starts == [other.uuid.hex]

    def test_so_does_one_whose_secret_cannot_be_read(self, cast, runtime, settings):
        task = placed(cast.ada, secrets=["HUB"])
        settings.SECRET_KEY = "another"
        start(runtime, task)
        task.refresh_from_db()
        assert task.reason == "secret_missing" and "cannot be read" in task.detail

    def test_what_was_given_and_cannot_be_read_now_starts_nothing_and_ends_nothing(self, cast, runtime, settings):
        task = placed(cast.ada, secrets=["HUB"])
        given_to(runtime, task)
        settings.SECRET_KEY = "another"
        start(runtime, task)
        task.refresh_from_db()
        assert task.state == TaskState.ASSIGNED and runtime.starts == []

    def test_what_was_given_is_dropped_a_day_after_the_end(self, cast, runtime):
        task = placed(cast.ada, secrets=["HUB"])
        given_to(runtime, task)
        assert drop_given() == 0 and CANARY not in GivenSecrets.objects.get().sealed
        make.move(task, TaskState.FAILED, "exit_nonzero", exit_code=1)
        assert drop_given() == 0
        Task.objects.update(ended_at=timezone.now() - giving.KEPT_AFTER - timedelta(minutes=1))
        assert drop_given() == 1 and load_task_masks([task.uuid.hex]) == {task.uuid.hex: None}

    def test_a_runtime_masks_the_log_that_it_still_brings(self, cast, runtime, monkeypatch):
        task = placed(cast.ada, secrets=["HUB"])
        start(runtime, task)
        masks = []
        monkeypatch.setattr(type(runtime), "capabilities", make_late(runtime))
        monkeypatch.setattr(runtime, "forget", lambda uuid, mask=None: masks.append(mask))
        run_actions([FencedAction(Forget(task.uuid.hex), make.lead())], runtime)
        assert masks[0].cover(f"say {CANARY}".encode(), is_last=True) == b"say " + b"*" * len(CANARY)


def make_late(runtime):
    return type(runtime.capabilities)(containers=False, name="fake", late_logs=True)


class TestIngest:
    @pytest.fixture
    def store(self, settings, tmp_path) -> LogStore:
        settings.TESSERA_LOGS = tmp_path
        return LogStore(tmp_path)

    @pytest.fixture
    def task(self, cast, runtime) -> Task:
        set_secret(actor=cast.ada, name="HUB", value=CANARY)
        task = placed(cast.ada, secrets=["HUB"])
        given_to(runtime, task)
        make.move(task, TaskState.RUNNING)
        return task

    @pytest.fixture
    def agent(self, task):
        return make.agent("n1")

    @staticmethod
    def bring(agent, task, offset: int, data: bytes, **more) -> tuple[str, int]:
        (known,) = store_pieces(agent, [Piece(task.uuid.hex, offset, data, **more)])
        return known.state, known.size

    def test_a_value_in_three_pieces_is_masked_and_offsets_stay(self, agent, task, store):
        text = f"say {CANARY} twice {CANARY}\n".encode()
        assert self.bring(agent, task, 0, text[:7]) == ("open", 4)
        assert self.bring(agent, task, 4, text[4:12]) == ("open", 4)
        assert self.bring(agent, task, 4, text[4:]) == ("open", len(text))
        masked = text.replace(CANARY.encode(), b"*" * len(CANARY))
        assert store.read(task.uuid.hex, 0)[0] == masked
        assert self.bring(agent, task, 0, text + b"x") == ("open", len(text) + 1)
        assert store.read(task.uuid.hex, 0)[0] == masked + b"x"

    def test_what_is_held_back_comes_with_the_end(self, agent, task, store):
        make.move(task, TaskState.SUCCEEDED, "completed", exit_code=0)
        assert self.bring(agent, task, 0, b"ends in c4na") == ("ended", 8)
        assert self.bring(agent, task, 8, b"c4na", end="whole") == ("done", 12)
        assert store.read(task.uuid.hex, 0)[0] == b"ends in c4na"

    def test_a_log_is_not_taken_once_it_is_not_known_what_to_mask(self, agent, task, store):
        GivenSecrets.objects.all().delete()
        assert self.bring(agent, task, 0, CANARY.encode()) == ("done", 0)
        assert store.read(task.uuid.hex, 0)[0] == b""
