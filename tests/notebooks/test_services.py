"""What a person does to notebooks, and what the clock does."""

import os
import subprocess
import time
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from cluster.models import Pool
from common.errors import Conflict, Impossible, InvalidInput, NameTaken, NotPermitted, QuotaExceeded, Unavailable
from events.models import Event, Notice
from events.record_and_publish import SYSTEM, record
from files.file_areas import find_file_area
from jobs.jobfile.spec import from_json
from jobs.models import Job, JobKind, Task
from jobs.states import TaskState
from jobs.used_secrets.giving import give_secrets
from jobs.used_secrets.naming import delete_secret
from notebooks.environment import READY, environment_path
from notebooks.job_spec import COMMAND, FIRST, JUPYTER_PORT, TABS
from notebooks.kept_packages import build_kept_mount
from notebooks.models import Notebook
from notebooks.presets import list_presets
from notebooks.services import (
    change_notebook,
    clone_notebook,
    create_and_start,
    create_notebook,
    delete_notebook,
    extend_notebook,
    mark_opened,
    start_notebook,
    stop_notebook,
)
from notebooks.start_phases import load_usual_durations
from notebooks.states import NotebookState, derive_state
from notebooks.tasks import keep_time, mark_ready, sweep
from runtimes.contract.task import Mount, TaskSecret
from runtimes.storage.areas import AreaId, get_area_path
from scheduler.reconcile.task_specs import build_task_spec
from secret_store.services import set_secret
from tests import make
from tests.described_world import make_room

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def environment(settings, tmp_path):
    make_room(settings, tmp_path)


@pytest.fixture
def cast(db):
    return make.cast()


def start(notebook, person=None, **how):
    return start_notebook(
        actor=person or notebook.user, notebook=notebook, check=lambda draft: None, containers=False, **how
    )


def run(notebook):
    """Started, placed, and JupyterLab answers."""
    make.start(start(notebook).job)
    mark_ready(notebook, Notebook.objects.get(pk=notebook.pk).task)
    return Notebook.objects.get(pk=notebook.pk)


def verbs(notebook):
    return list(Event.objects.filter(kind="notebook", object_id=notebook.pk).values_list("verb", flat=True))


def test_a_notebook_is_never_stopped_for_others_whatever_its_pool_says_of_jobs(cast):
    Pool.objects.update(batch_is_preemptible=True)
    explore = start(create_notebook(user=cast.ada, name="explore", gpu="1/4"))
    assert explore.job.preemptible is False
    assert make.job(cast.ada, gpu="1/4").preemptible is True


def test_a_notebook_runs_as_an_interactive_job_that_only_its_answer_makes_ready(cast):
    explore = create_notebook(user=cast.ada, name="explore", gpu="1/4")
    assert explore.state == NotebookState.STOPPED and explore.task is None
    explore = start(explore)
    assert (explore.state, explore.job.kind, explore.job.max_time_s) == ("QUEUED", JobKind.INTERACTIVE, None)
    make.start(explore.job)
    explore.refresh_from_db()
    assert explore.state == NotebookState.STARTING
    mark_ready(explore, explore.task)
    assert Notebook.objects.get(pk=explore.pk).state == NotebookState.RUNNING
    assert verbs(explore) == ["created", "started", "ready"]
    assert not Notice.objects.exists()


def test_a_notebook_that_was_long_in_coming_is_told_when_it_answers(cast):
    explore = start(create_notebook(user=cast.ada, name="explore", gpu="1/4"))
    Job.objects.update(queued_at=Now() - timedelta(minutes=5), eligible_at=Now() - timedelta(minutes=5))
    make.start(explore.job)
    assert not Notice.objects.exists()
    explore = Notebook.objects.get(pk=explore.pk)
    mark_ready(explore, explore.task)
    assert [(one.kind, one.label) for one in Notice.objects.all()] == [("job_started", explore.public_id)]


def test_what_its_job_did_is_its_state():
    assert derive_state("CANCELLED", ready=True) == "STOPPED"
    assert derive_state("FAILED", ready=True) == "FAILED"
    assert derive_state("STOPPING", ready=True) == "STOPPING"


def test_its_task_gets_the_environment_read_only_and_a_port_of_its_own(cast, settings):
    explore = run(create_notebook(user=cast.ada, name="explore", gpu="1/4", data={"in": "team:sets:ro"}))
    spec = build_task_spec(explore.task)
    data, tools = spec.mounts
    assert (data.place.number, data.source, data.target, data.read_only) == (cast.nlp.gid, "sets", "in", True)
    assert tools.place is None and tools.read_only and tools.source == str(environment_path(settings.TESSERA_DATA))
    assert spec.port_map[8888] != 8888 and spec.port_map[8888] == explore.task.ports["8888"]
    assert len(spec.platform_env["TESSERA_UPSTREAM_TOKEN"]) == 64 and "notebooks/explore" in spec.run


def test_each_start_keeps_its_packages_in_a_folder_of_its_own_at_home(cast):
    explore, other = (start(create_notebook(user=cast.ada, name=name, gpu="0")) for name in ("explore", "other"))
    [task] = make.start(explore.job)
    kept = Mount(AreaId("home", cast.ada.uid), f".tessera-environments/{explore.public_id}", "env", read_only=False)
    assert build_task_spec(task).environment == kept != build_kept_mount(other.job)
    assert build_kept_mount(make.job(cast.ada, pool="dev", labels={"notebook": explore.public_id})) is None


def test_a_notebook_may_use_an_environment_instead_which_is_pinned_at_each_start(cast, settings, tmp_path):
    make.files(cast.ada, {"pyvenv.cfg": ""}, "venv")
    make.environment(cast.ada, "sd-train", "venv")
    explore = create_notebook(user=cast.ada, name="explore", gpu="0", environment="sd-train")
    [task] = make.start(start(explore).job)
    assert task.job.spec["environment"] == "nlp/sd-train@v1"
    used = build_task_spec(task).environment
    assert used is not None and used.read_only and used.source == "1"
    with pytest.raises(InvalidInput):
        create_notebook(user=cast.ada, name="other", gpu="0", environment="SD train")
    other = change_notebook(actor=cast.ada, notebook=explore, environment=None)
    assert from_json(other.spec).environment is None


def test_each_start_is_given_the_secrets_that_it_names_and_is_refused_without_them(cast):
    """Whose they are is found at each start, as for any job."""
    of_team = set_secret(actor=cast.bob, name="HUB", value="of-the-team-1", team=cast.nlp)
    explore = create_notebook(user=cast.ada, name="explore", gpu="0", secrets={"HUB": "variable"})
    job = start(explore).job
    assert job.spec["secrets"] == {"HUB": "team:variable"}
    given = give_secrets([job])[job.pk]
    assert [one.secret for one in given] == [TaskSecret("HUB", "of-the-team-1")]
    stop_notebook(actor=cast.ada, notebook=explore)
    delete_secret(actor=cast.bob, secret=of_team)
    with pytest.raises(InvalidInput) as refused:
        start(explore)
    assert [(one.pointer, one.code) for one in refused.value.errors] == [("/secrets/HUB", "unknown_secret")]
    with pytest.raises(InvalidInput):
        change_notebook(actor=cast.ada, notebook=explore, secrets={"NONE": "file"})
    set_secret(actor=cast.ada, name="HUB", value="adas-own-value")
    with pytest.raises(InvalidInput) as refused:
        change_notebook(actor=cast.ada, notebook=explore, env={"HUB": "x"})
    assert refused.value.errors[0].code == "secret_in_env"
    assert start(explore).job.spec["secrets"] == {"HUB": "own:variable"}


def test_nothing_starts_before_the_environment_is_there(cast, settings, tmp_path):
    settings.TESSERA_DATA = tmp_path / "new"
    explore = create_notebook(user=cast.ada, name="explore", gpu="0")
    with pytest.raises(Unavailable) as refused:
        start(explore)
    assert refused.value.code == "notebooks_preparing" and not Job.objects.exists()


def test_starting_twice_is_one_start(cast):
    explore = create_notebook(user=cast.ada, name="explore", gpu="0")
    assert start(explore).job_id == start(explore).job_id
    assert Job.objects.count() == 1


def test_a_smaller_start_takes_the_place_of_one_that_waits(cast):
    explore = create_notebook(user=cast.ada, name="explore", gpu="1")
    waiting = start(explore).job
    smaller = start(explore, gpu="1/4").job
    waiting.refresh_from_db()
    assert waiting.state == "CANCELLED" and smaller.gang[0]["request"]["gpu"] == "1/4"
    assert Notebook.objects.get(pk=explore.pk).spec["gpu"] == "1"


def test_a_person_has_no_more_notebooks_running_than_the_limit(cast):
    make.limit(cast.ada, notebooks_running=1)
    one = start(create_notebook(user=cast.ada, name="one", gpu="0"))
    with pytest.raises(QuotaExceeded) as refused:
        start(create_notebook(user=cast.ada, name="two", gpu="0"))
    held = {"used": 1, "limit": 1, "holders": [f"one ({one.public_id})"]}
    assert refused.value.params == {"what": "notebooks_running", **held}


def test_a_refused_start_leaves_no_new_notebook_behind(cast):
    make.limit(cast.ada, notebooks_running=1)

    def refuse(draft):
        raise Impossible([])

    asked = {"gpu": "0", "check": lambda draft: None, "containers": False}
    create_and_start(user=cast.ada, name="one", **asked)
    with pytest.raises(QuotaExceeded):
        create_and_start(user=cast.ada, name="two", **asked)
    with pytest.raises(Impossible):
        create_and_start(user=cast.bob, name="three", **asked | {"check": refuse})
    assert [one.name for one in Notebook.objects.all()] == ["one"] and Job.objects.count() == 1


def test_while_jupyterlab_is_installed_a_new_notebook_waits_for_it(cast, settings, tmp_path):
    settings.TESSERA_DATA = tmp_path / "new"
    made = create_and_start(user=cast.ada, name="one", gpu="0", check=lambda draft: None, containers=False)
    assert made.job is None and Notebook.objects.get() == made


def test_stopping_and_starting_again_is_a_restart(cast):
    explore = run(create_notebook(user=cast.ada, name="explore", gpu="0"))
    assert stop_notebook(actor=cast.ada, notebook=explore).job.stop_requested_at
    make.move(explore.task, TaskState.STOPPING)
    again = start(explore)
    assert again.job_id != explore.job_id and again.ready_at is None and again.state == "QUEUED"


def test_only_its_owner_sees_and_starts_it(cast):
    explore = create_notebook(user=cast.ada, name="explore", gpu="0")
    assert not Notebook.objects.visible_to(cast.bob).exists() and not Notebook.objects.visible_to(cast.eve).exists()
    root = make.admin()
    assert Notebook.objects.visible_to(root).get() == explore
    for stranger in (cast.bob, cast.eve, root):
        with pytest.raises(NotPermitted):
            start(explore, stranger)


def test_a_name_is_its_owners_until_the_notebook_is_deleted(cast):
    explore = create_notebook(user=cast.ada, name="explore", gpu="0")
    create_notebook(user=cast.bob, name="explore", gpu="0")
    with pytest.raises(NameTaken):
        clone_notebook(actor=cast.ada, notebook=explore, name="explore")
    delete_notebook(actor=cast.ada, notebook=explore, confirm="explore", with_files=False)
    assert create_notebook(user=cast.ada, name="explore", gpu="0").pk != explore.pk


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "nb-12", "job-4", "-a", "a-", "a" * 41, "a\n", "$(x)", "é"])
def test_a_name_that_is_no_folder_is_refused(cast, name):
    with pytest.raises(InvalidInput) as refused:
        create_notebook(user=cast.ada, name=name, gpu="0")
    assert refused.value.errors[0].pointer == "/name"


def test_what_is_wrong_is_told_at_once(cast):
    with pytest.raises(InvalidInput) as refused:
        create_notebook(user=cast.ada, name="x", gpu="-1", env={"LD_PRELOAD": "x"}, data={"..": "a"}, hours=9999)
    assert [error.pointer for error in refused.value.errors] == ["/gpu", "/env/LD_PRELOAD", "/data/..", "/hours"]


def test_a_change_counts_from_the_next_start_and_is_history(cast):
    explore = run(create_notebook(user=cast.ada, name="explore", gpu="1/4"))
    changed = change_notebook(actor=cast.ada, notebook=explore, gpu="1/2", env={"KEY": "value"})
    assert changed.job.gang[0]["request"]["gpu"] == "1/4" and changed.spec["gpu"] == "1/2"
    told = Event.objects.get(kind="notebook", verb="changed").params
    assert told["to"] == {"gpu": "1/2"} and "value" not in str(told)


def test_a_clone_has_the_same_settings(cast):
    explore = create_notebook(user=cast.ada, name="explore", gpu="1/4", env={"A": "1"}, hours=2)
    copy = clone_notebook(actor=cast.ada, notebook=explore, name="copy")
    assert {**copy.spec, "name": "explore"} == explore.spec and copy.job is None


def test_files_go_only_after_its_name_was_typed(cast, settings):
    explore = create_notebook(user=cast.ada, name="explore", gpu="0")
    folder = settings.TESSERA_FILES / "home" / str(cast.ada.uid) / "notebooks/explore"
    folder.mkdir(parents=True)
    with pytest.raises(InvalidInput):
        delete_notebook(actor=cast.ada, notebook=explore, confirm="explor", with_files=True)
    assert folder.exists()


def test_a_started_notebook_is_not_deleted(cast):
    explore = start(create_notebook(user=cast.ada, name="explore", gpu="0"))
    with pytest.raises(Conflict):
        delete_notebook(actor=cast.ada, notebook=explore, confirm="explore", with_files=False)


def test_its_time_is_warned_of_and_then_it_ends(cast):
    make.limit(cast.ada, notebook_hours=8)
    explore = run(create_notebook(user=cast.ada, name="explore", gpu="0"))
    keep_time()
    explore.refresh_from_db()
    assert explore.stops_at == explore.job.started_at + timedelta(hours=8)
    Notebook.objects.update(stops_at=timezone.now() + timedelta(minutes=14))
    Job.objects.update(started_at=timezone.now() - timedelta(hours=7))
    keep_time()
    keep_time()
    assert Notice.objects.filter(user_id=cast.ada.pk, kind="about_to_end").count() == 1
    Notebook.objects.update(stops_at=timezone.now())
    keep_time()
    explore.job.refresh_from_db()
    assert explore.job.stop_reason == "time_limit"
    assert verbs(explore)[-2:] == ["about_to_end", "time_over"]


@pytest.mark.parametrize("hours_ago", [1, 24, -24])
def test_one_that_started_while_the_clock_was_wrong_gets_its_time(hours_ago, cast):
    make.limit(cast.ada, notebook_hours=8)
    explore = run(create_notebook(user=cast.ada, name="explore", gpu="0"))
    Job.objects.update(started_at=timezone.now() - timedelta(hours=hours_ago))
    keep_time()
    explore.refresh_from_db()
    assert abs(explore.stops_at - timezone.now() - timedelta(hours=8)) < timedelta(seconds=30)


def test_it_can_be_extended_as_long_as_a_start_may_last(cast):
    make.limit(cast.ada, notebook_hours=8)
    explore = run(create_notebook(user=cast.ada, name="explore", gpu="0", hours=1))
    keep_time()
    longer = extend_notebook(actor=cast.ada, notebook=explore, hours=2)
    assert longer.stops_at == explore.job.started_at + timedelta(hours=3)
    assert longer.job.time_s == 3 * 3600
    most = extend_notebook(actor=cast.ada, notebook=explore, hours=10_000)
    assert timezone.now() + timedelta(hours=7, minutes=59) < most.stops_at <= timezone.now() + timedelta(hours=8)
    assert most.warned_at is None


def test_only_what_runs_is_extended(cast):
    with pytest.raises(Conflict):
        extend_notebook(actor=cast.ada, notebook=create_notebook(user=cast.ada, name="explore", gpu="0"), hours=1)


def test_it_is_opened_once_for_each_start(cast):
    explore = run(create_notebook(user=cast.ada, name="explore", gpu="0"))
    mark_opened(notebook=explore)
    first = Notebook.objects.get(pk=explore.pk).opened_at
    mark_opened(notebook=explore)
    assert first and Notebook.objects.get(pk=explore.pk).opened_at == first


def test_presets_go_on_with_the_last_notebook_of_their_size(cast):
    create_notebook(user=cast.ada, name="old", gpu="1/4")
    explore = create_notebook(user=cast.ada, name="explore", gpu="1/4")
    assert {preset.gpu: preset.notebook for preset in list_presets(cast.ada)} == {
        "1/4": explore,
        "1/2": None,
        "1": None,
        "0": None,
    }
    assert list_presets(make.user("zoe")) == []


def test_two_tasks_of_a_node_never_share_a_port(cast):
    jobs = [make.job(cast.ada, ports=[6006, 7000], pool="dev") for _ in range(2)]
    given = [make.start(job)[0].ports for job in jobs]
    assert given[0]["6006"] == 6006 and given[0]["7000"] == 7000
    assert len({*given[0].values(), *given[1].values()}) == 6


def test_a_job_with_tensorboard_gets_its_port_and_its_tools(cast):
    [task] = make.start(make.job(cast.ada, tensorboard="runs", pool="dev"))
    spec = build_task_spec(task)
    assert task.ports["6006"] == 6006 and spec.platform_env["TESSERA_TOOLS"] == spec.mounts[0].source


def test_tools_of_the_machine_are_not_for_a_job_in_an_image(cast):
    [task] = make.start(make.job(cast.ada, tensorboard="runs", pool="dev", image="localhost/box:1"))
    spec = build_task_spec(task)
    assert "TESSERA_TOOLS" not in spec.platform_env and spec.mounts == ()


def test_a_job_of_before_the_new_keys_still_runs(cast):
    job = make.job(cast.ada, pool="dev")
    old = {key: value for key, value in job.spec.items() if key not in ("ports", "tensorboard", "data")}
    Job.objects.filter(pk=job.pk).update(spec=old)
    [task] = make.start(Job.objects.get(pk=job.pk))
    assert build_task_spec(task).mounts == ()


def test_a_new_name_counts_at_once_and_moves_no_files(cast):
    explore = run(create_notebook(user=cast.ada, name="explore", gpu="0"))
    lab = change_notebook(actor=cast.ada, notebook=explore, name="lab")
    assert (lab.name, lab.folder, lab.state) == ("lab", "notebooks/explore", "RUNNING")
    told = Event.objects.get(kind="notebook", verb="changed").params
    assert (told["from"], told["to"]) == ({"name": "explore"}, {"name": "lab"})


def test_no_two_notebooks_share_a_folder(cast):
    explore = create_notebook(user=cast.ada, name="explore", gpu="0")
    change_notebook(actor=cast.ada, notebook=explore, name="lab")
    again, copy = (create_notebook(user=cast.ada, name=name, gpu="0") for name in ("explore", "explore-2"))
    assert [again.folder, copy.folder] == ["notebooks/explore-2", "notebooks/explore-2-2"]
    with pytest.raises(NameTaken):
        change_notebook(actor=cast.ada, notebook=explore, name="explore")


def test_only_its_owner_renames_it(cast):
    explore = create_notebook(user=cast.ada, name="explore", gpu="0")
    for stranger in (cast.bob, cast.eve, make.admin()):
        with pytest.raises(NotPermitted):
            change_notebook(actor=stranger, notebook=explore, name="mine")


@pytest.fixture
def old(settings):
    """The environment of an older version, beside one that has been ready for two hours."""
    path = environment_path(settings.TESSERA_DATA).with_name("0123456789ab")
    path.mkdir()
    (path / READY).touch()
    two_hours_ago = time.time() - 7200
    os.utime(environment_path(settings.TESSERA_DATA) / READY, (two_hours_ago, two_hours_ago))
    return path


def test_an_old_environment_goes_once_nothing_runs_from_it(cast, old, settings):
    explore = run(create_notebook(user=cast.ada, name="explore", gpu="0"))
    Task.objects.update(assigned_at=timezone.now() - timedelta(hours=3))
    sweep()
    assert old.exists()
    make.move(explore.task, TaskState.SUCCEEDED, "completed", exit_code=0)
    run(create_notebook(user=cast.ada, name="of-today", gpu="0"))
    sweep()
    assert not old.exists() and environment_path(settings.TESSERA_DATA).exists()


def test_what_a_start_usually_takes_is_told_by_the_notebooks_started_last(cast, monkeypatch, django_assert_num_queries):
    assert load_usual_durations() == {}
    early, late = (create_notebook(user=cast.ada, name=name, gpu="0") for name in ("early", "late"))
    for notebook, seconds in ((early, (90, 90, 90)), (late, (3, 30, 4))):
        start(notebook)
        for took in seconds:
            record(notebook, "ready", actor=SYSTEM, params={"took_s": {"jupyter": took}})
    create_notebook(user=cast.ada, name="never", gpu="0")
    with django_assert_num_queries(2):
        assert load_usual_durations() == {"jupyter": 60}
    monkeypatch.setattr("notebooks.start_phases.STARTS_LOOKED_AT", 3)
    assert load_usual_durations() == {"jupyter": 4}
    monkeypatch.setattr("notebooks.start_phases.STARTS_LOOKED_AT", 1)
    record(early, "ready", actor=SYSTEM, params={"took_s": {"jupyter": 90}})
    assert load_usual_durations() == {"jupyter": 4}, "not by one that was started earlier"


@pytest.mark.parametrize("ready", [None, 0])
def test_an_old_environment_stays_until_the_new_one_has_settled(old, settings, ready):
    stamp = environment_path(settings.TESSERA_DATA) / READY
    stamp.unlink() if ready is None else stamp.touch()
    sweep()
    assert old.exists()


@pytest.mark.parametrize("with_files", [True, False])
def test_its_folder_goes_only_where_that_was_said(cast, settings, with_files):
    explore = create_notebook(user=cast.ada, name="explore", gpu="0")
    area = find_file_area(cast.ada, "home")
    for name in ("", "/explore", "/explore/runs", "/other"):
        area.store.make_folder(f"notebooks{name}")
    home = get_area_path(settings.TESSERA_FILES, area.area_id)
    (home / "notebooks/explore/runs/log").write_text("x")
    (home / "notebooks/explore/away").symlink_to(home / "notebooks/other")
    change_notebook(actor=cast.ada, notebook=explore, name="lab")
    delete_notebook(actor=cast.ada, notebook=explore, confirm="lab", with_files=with_files)
    assert (home / "notebooks/explore").exists() is not with_files
    assert (home / "notebooks/other").exists() and not Notebook.objects.live().exists()
    assert Event.objects.get(kind="notebook", verb="deleted").params["with_files"] is with_files


def test_an_admin_deletes_a_notebook_and_never_its_files(cast):
    explore = create_notebook(user=cast.ada, name="explore", gpu="0")
    with pytest.raises(NotPermitted):
        delete_notebook(actor=make.admin(), notebook=explore, confirm="explore", with_files=True)
    delete_notebook(actor=make.admin("root2"), notebook=explore, confirm="explore", with_files=False)
    assert not Notebook.objects.live().exists()


def test_a_notebook_whose_image_brings_jupyterlab_waits_for_no_preparation(cast, settings, tmp_path):
    settings.TESSERA_NOTEBOOK_IMAGE, settings.TESSERA_DATA = "registry.local/jupyter:4", tmp_path / "nothing"
    settings.TESSERA_PIN_IMAGES = False
    notebook = create_notebook(user=cast.ada, name="explore", gpu="0")
    started = start_notebook(actor=cast.ada, notebook=notebook, check=lambda draft: None, containers=True)
    [task] = make.start(started.job)
    spec = build_task_spec(task)
    assert spec.image == "registry.local/jupyter:4" and spec.mounts == ()
    assert "TESSERA_TOOLS" not in spec.platform_env


def begin(home, **environment) -> subprocess.CompletedProcess:
    """The command of a notebook, with nothing of ours on PATH but what `environment` says."""
    run = COMMAND.format(folder="nb", port=JUPYTER_PORT, first=FIRST, tabs=TABS, empty="{}")
    known = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run(["/bin/sh", "-c", run], env=known | environment, capture_output=True, text=True)


def test_an_image_without_jupyterlab_is_told_in_words(tmp_path):
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    done = begin(tmp_path, PATH=f"{tmp_path}:/usr/bin:/bin")
    assert done.returncode == 3 and "Choose an image that brings it" in done.stderr


def test_the_python_of_the_image_runs_jupyterlab_where_no_environment_is_prepared(tmp_path):
    program = tmp_path / "python3"
    program.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')
    program.chmod(0o755)
    assert begin(tmp_path, PATH=f"{tmp_path}:/usr/bin:/bin", TESSERA_PORT_8888="8888").returncode == 0
    assert "-s -m jupyterlab --no-browser" in (tmp_path / "asked").read_text()
    assert (tmp_path / "nb" / FIRST).exists()
