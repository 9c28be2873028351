"""`schedules` against the real portal, over real HTTP."""

import json

import pytest

from jobs.models import CodePack, Job
from notebooks.services import create_notebook
from schedules.models import Schedule
from tests import make

FILE = "run: python train.py\nteam: nlp\npool: dev\ngpu: 1/4\n"


@pytest.fixture
def file(tmp_path) -> str:
    (tmp_path / "job.yaml").write_text(FILE)
    return str(tmp_path / "job.yaml")


def test_one_is_made_shown_changed_and_deleted(ada, file):
    made = ada("schedules", "create", "nightly", file, "--cron", "30 2 * * 1-5", "--zone", "Asia/Shanghai")
    schedule = Schedule.objects.get()
    assert made.stdout.startswith(f"nightly ({schedule.public_id}) is active. Next: "), made.stderr
    assert (schedule.job_file, schedule.zone) == (FILE, "Asia/Shanghai")
    listed = ada("schedules", "ls", "-o", "csv").stdout.splitlines()
    assert listed[0] == "ID,NAME,STATE,CRON,ZONE,NEXT,LAST" and "30 2 * * 1-5" in listed[1]
    ada("schedules", "set", "nightly", "--cron", "0 4 * * *", "--overlap", "queue", "--until", "2100-01-01")
    schedule.refresh_from_db()
    assert (schedule.cron, schedule.overlap, schedule.until.year) == ("0 4 * * *", "queue", 2100)
    assert ada("schedules", "suspend", schedule.public_id).stdout == f"nightly ({schedule.public_id}) is suspended.\n"
    assert "is active" in ada("schedules", "resume", "nightly").stdout
    assert ada("schedules", "rm", "nightly").exit_code == 0 and not Schedule.objects.exists()


def test_one_of_a_notebook(ada, cast, file):
    notebook = create_notebook(user=cast.ada, name="explore", gpu="0", pool="dev")
    days = ["schedules", "create", "days", "--cron", "45 8 * * 1-5"]
    assert ada(*days).exit_code == ada(*days, file, "--notebook", "explore").exit_code == 2
    assert ada(*days, "--notebook", "explore", "--stop-at", "19:30").exit_code == 0
    assert f"starts  {notebook.public_id}, stopped at 19:30" in ada("schedules", "show", "days").stdout


def test_a_run_by_hand_says_what_came_of_it(ada, cast):
    make.schedule(cast.ada)
    first = ada("schedules", "run", "nightly")
    job = Job.objects.get()
    assert first.exit_code == 0 and first.stdout.endswith(f"submitted as {job.public_id}\n")
    second = ada("schedules", "run", "nightly")
    assert second.exit_code == 1 and "left out: " in second.stdout and "had not ended" in second.stdout
    shown = ada("schedules", "show", "nightly").stdout
    assert "cron    30 2 * * * (UTC)" in shown and f"submitted as {job.public_id}" in shown
    assert len(json.loads(ada("-o", "json", "schedules", "show", "nightly").stdout)["runs"]) == 2


def test_the_code_of_a_file_is_sent_with_it(ada, cast, tmp_path):
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "job.yaml").write_text(FILE + "code: .\n")
    made = ada("schedules", "create", "nightly", str(tmp_path / "job.yaml"), "--cron", "30 2 * * *")
    assert made.exit_code == 0, made.stderr
    assert CodePack.objects.get(user=cast.ada).digest in Schedule.objects.get().job_file


def test_what_is_wrong_is_told(ada, file):
    refused = ada("schedules", "create", "nightly", file, "--cron", "daily")
    assert refused.exit_code == 2 and "cron" in refused.stderr and "Write five fields" in refused.stderr
    assert ada("schedules", "show", "nightly").exit_code == 3
    assert ada("schedules", "show", "sch-999").exit_code == 3
    assert ada("schedules", "create", "n", file + "x", "--cron", "0 4 * * *").exit_code == 2


def test_colleagues_are_listed_where_all_are_asked_for(ada, cast):
    make.schedule(cast.bob, name="bobs")
    assert "No schedules yet" in ada("schedules", "ls").stderr
    assert "bobs" in ada("schedules", "ls", "--all").stdout
