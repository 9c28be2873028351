"""What is exported, through the doors: complete enough, without what is nobody's business, and read again."""

import asyncio
import gzip
import json
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone

from cluster.nodes import cordon_node
from cluster.services import save_pool, save_window
from events.record_and_publish import SYSTEM
from jobs.control import hold_job, release_job, stop_job
from jobs.models import Job
from monitoring.history.export import export_history
from monitoring.history.file_format import BadHistory, compress_lines, read_history
from quotas.services import save_quota
from tests import make

pytestmark = pytest.mark.django_db
SECRETS = {"run": "python train.py --key s3cr3t", "env": {"PASSWORD": "hunter2"}, "name": "gpt-9", "gpu": "1/4"}


@pytest.fixture
def cast(db):
    return make.cast()


def export(tmp_path, **words):
    path = tmp_path / "history.jsonl.gz"
    path.write_bytes(b"".join(compress_lines(export_history(timezone.now(), 2, **words))))
    return read_history(path), gzip.decompress(path.read_bytes()).decode()


def test_a_job_has_what_it_asked_and_was_granted_and_its_true_times(cast, tmp_path):
    job = make.job(cast.ada, pool="dev", time="2h", **SECRETS)
    hold_job(actor=cast.ada, job=job)
    release_job(actor=cast.ada, job=job)
    make.start(job)
    make.end(Job.objects.get(pk=job.pk))
    history, _ = export(tmp_path)
    (line,) = history.jobs
    (attempt,) = line.attempts
    assert (line.team, line.person, line.name, line.time_s, line.priority) == ("nlp", "ada", "gpt-9", 7200, 1)
    assert line.choices[0]["pool"] == "dev" and line.choices[0]["gang"][0]["request"]["gpu"] == "1/4"
    assert line.submitted_at < line.holds[0][0] < line.holds[0][1] < attempt.assigned_at <= attempt.freed_at
    assert attempt.seats[0].machine == "n1" and attempt.seats[0].cards[0][3] == 250 and attempt.reason == "completed"


@pytest.mark.parametrize("anonymous", [False, True])
def test_commands_environment_and_secrets_are_never_in_it(cast, tmp_path, anonymous):
    make.job(cast.ada, pool="dev", **SECRETS)
    _, text = export(tmp_path, anonymous=anonymous)
    assert not [word for word in ("train.py", "s3cr3t", "hunter2", "PASSWORD") if word in text]


def test_without_names_it_has_numbers_that_stay(cast, tmp_path):
    for _ in range(2):
        make.job(cast.ada, pool="dev", **SECRETS)
    save_quota(actor=make.admin(), quota=cast.ada.teams.get().quotas.select_related("team", "pool").first())
    history, text = export(tmp_path, anonymous=True)
    assert not [word for word in ("nlp", "vision", "ada", "rita", "gpt-9", '"n1"') if word in text]
    first, second = history.jobs
    assert (first.team, first.person) == (f"team-{cast.nlp.pk}", f"person-{cast.ada.pk}")
    assert first.name == second.name != "" and first.command == second.command
    assert export(tmp_path, anonymous=True)[0].jobs[0].name == first.name


def test_settings_are_those_of_the_beginning_and_change_when_they_did(cast, tmp_path):
    rita, train = make.admin(), cast.train
    quota = cast.nlp.quotas.select_related("team", "pool").get(pool=train)
    quota.gpu_milli_limit = 8000
    save_quota(actor=rita, quota=quota)
    train.short_first = True
    save_pool(actor=SYSTEM, pool=train)
    cordon_node(actor=SYSTEM, node=cast.node)
    window = make.window(cast.dev, cast.train)
    window.weekdays = "67"
    save_window(actor=SYSTEM, window=window)
    history, _ = export(tmp_path)
    before = next(one for one in history.quotas if (one.team, one.pool) == ("nlp", "train"))
    assert before.values["gpu_milli_limit"] is None and history.machines[0].state == "READY"
    assert [pool.policy["short_first"] for pool in history.pools if pool.name == "train"] == [False]
    assert history.windows[0].weekdays == "1234567"
    changes = {(one.of, *map(str, one.which)): one.values for one in history.changes}
    assert changes["quota", "nlp", "train"] == {"gpu_milli_limit": 8000}
    assert changes["pool", "train"] == {"short_first": True}
    assert changes["machine", "n1"] == {"state": "CORDONED"}
    assert changes["window", str(window.pk)] == {"weekdays": "67"}


def test_a_maintenance_is_known_from_when_it_was_planned(cast, tmp_path):
    made = make.maintenance(cast.node, begins_in_s=3600, stops=True)
    (line,) = export(tmp_path)[0].maintenances
    assert line.known_at < line.begins_at == made.begins_at.timestamp() and line.machines == ["n1"] and line.stops


def test_who_gave_up_has_no_start(cast, tmp_path):
    job = make.job(cast.ada, pool="dev")
    stop_job(actor=cast.ada, job=job)
    (line,) = export(tmp_path)[0].jobs
    assert line.attempts[0].assigned_at is None and line.ended_at is not None


async def read_body(answer) -> bytes:
    return b"".join([piece async for piece in answer.streaming_content])


def get(person, **query):
    client = Client(headers={"Authorization": f"Bearer {make.token(person)}"})
    return client.get(f"/api/v1/cluster/history?{urlencode(query)}")


def test_administrators_get_it_and_others_do_not(cast, tmp_path):
    make.job(cast.ada, pool="dev")
    answer = get(make.admin(), days=7, anonymous="true")
    assert answer.status_code == 200 and answer["Content-Type"] == "application/gzip"
    path = tmp_path / "got.gz"
    path.write_bytes(asyncio.run(read_body(answer)))
    assert len(read_history(path).jobs) == 1 and read_history(path).header.anonymous
    assert get(cast.ada).status_code == get(make.user("otto", platform_role="auditor")).status_code == 403


@pytest.mark.parametrize("days", ["0", "366", "many"])
def test_days_out_of_range_are_named(cast, days):
    answer = get(make.admin(), days=days)
    assert answer.status_code == 400 and answer.json()["errors"][0]["pointer"] == "/days"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([{"line": "header", "version": 2}], "version 2, and this Tessera reads 1: update it"),
        ([{"line": "header", "version": 1, "begins": 0, "ends": 9, "anonymous": False, "who": 1}], "unknown: who;"),
        ([{"line": "header", "version": 1, "begins": "0", "ends": 9, "anonymous": False}], "begins is no float"),
        ([{"line": "header", "version": 1, "begins": 0, "ends": 9}], "lacks anonymous"),
        ([{"line": "team", "name": "nlp"}], "the header is the first line"),
        ([{"line": "tea"}], "line is none of header"),
        ([], "is empty"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, lines, words):
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(BadHistory, match=words):
        read_history(path)


def test_a_file_whose_team_is_missing_names_it(cast, tmp_path):
    make.job(cast.ada, pool="dev")
    path = tmp_path / "cut.jsonl"
    _, text = export(tmp_path)
    path.write_text("\n".join(line for line in text.splitlines() if '"team","name":"nlp"' not in line))
    with pytest.raises(BadHistory, match="names the team nlp, of which it has no line"):
        read_history(path)


def test_only_the_days_asked_for_are_in_it(cast, tmp_path):
    job = make.job(cast.ada, pool="dev")
    make.start(job)
    make.end(Job.objects.get(pk=job.pk))
    long_ago = timezone.now() - timedelta(days=3)
    Job.objects.update(
        submitted_at=long_ago, eligible_at=long_ago, started_at=long_ago, ended_at=long_ago + timedelta(hours=1)
    )
    history, _ = export(tmp_path)
    assert not history.jobs and history.usuals[0].jobs == 1
