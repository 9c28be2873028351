"""Jobs, notebooks and machines by name."""

import json

from cli.output.whole import describe_job
from jobs.models import Job
from tests import make
from tests.cli_server import a_job, ended


def test_a_name_means_the_one_open_job_of_exactly_that_name(server, tessera):
    others = [a_job(9, name="train-2"), ended(3, "failed", name="train"), a_job(7, name="train")]
    server.on("GET /jobs", (200, {"results": others, "next_cursor": None}))
    server.on("POST /jobs/job-7:stop", (200, a_job(7, "stopping")))
    assert tessera("stop", "train").stdout == "job-7 is being stopped.\n"
    ((_, asked, _, _),) = server.of("GET /jobs")
    assert "owner=me" in asked and "q=train" in asked and "state=queued%2Cstarting%2Crunning%2Cstopping" in asked


def test_an_id_is_not_looked_up(server, tessera):
    server.on("POST /jobs/job-7:hold", (200, a_job(7, "queued")))
    for text in ("7", "job-7", "JOB-7"):
        assert tessera("hold", text).exit_code == 0
    assert server.of("GET /jobs") == []


def test_several_of_a_name_are_listed_and_none_is_touched(server, tessera):
    server.on("GET /jobs", (200, {"results": [a_job(8), a_job(7)], "next_cursor": None}))
    refused = tessera("stop", "train")
    assert refused.exit_code == 2 and "job-8, running" in refused.stderr and "job-7, running" in refused.stderr
    assert [method for method, *_ in server.asked] == ["GET"]


def test_a_name_that_is_none_is_answered_with_near_ones(server, tessera):
    none, some = {"results": [], "next_cursor": None}, {"results": [a_job(8)], "next_cursor": None}
    server.on("GET /jobs", (200, none), (200, some))
    missing = tessera("logs", "trian")
    assert missing.exit_code == 3 and missing.stderr == "You have no job named trian. Did you mean train?\n"


def test_names_at_the_real_portal(cast, ada):
    first, second = make.job(cast.ada, name="train"), make.job(cast.ada, name="other")
    make.job(cast.ada, name="train-more")
    held = ada("hold", "train", "other")
    assert held.exit_code == 0, held.stderr
    assert set(Job.objects.filter(held_at__isnull=False).values_list("pk", flat=True)) == {first.pk, second.pk}
    assert ada("why", "train").stdout.startswith(f"job-{first.pk} train has waited")


def test_show_tells_a_job_whole(cast, ada):
    job = make.job(cast.ada, name="train", gpu="1/4")
    shown = ada("show", "train")
    assert shown.exit_code == 0, shown.stderr
    first, *rows = shown.stdout.splitlines()
    assert first.startswith(f"job-{job.pk} train is queued, and has waited ")
    assert any("GPU ¼" in row for row in rows) and any(f"/j/job-{job.pk}" in row for row in rows)
    assert json.loads(ada("show", f"job-{job.pk}", "-o", "json").stdout)["name"] == "train"


def test_show_finds_machines_and_says_what_is_near(cast, ada):
    node = make.node("gpu-7", pool=cast.dev)
    assert ada("show", "gpu-7").stdout.startswith(f"{node.name} is ")
    missing = ada("show", "gpu-8")
    assert missing.exit_code == 3 and "Did you mean gpu-7" in missing.stderr


def test_a_job_that_failed_tells_how():
    size = {"value": 1, "text": "1"}
    task = {
        "node": "n1", "gpus": [{"place": "3"}], "role": "main", "rank": 0, "state": "failed", "address": "10.0.0.4",
        "ports": {"api": 8000}, "ended_at": "2026-01-01T12:10:05Z",
    }  # fmt: skip
    also = {
        "team": "nlp", "cpu": size, "memory": size, "max_time": {"value": None, "text": ""}, "priority": "normal",
        "spec": {"labels": {"exp": "b"}, "code": "git+https://g.it/a@main:4b"}, "tasks": [task],
        "exit_code": 3, "reason": "exit_nonzero",
    }  # fmt: skip
    lines = describe_job(ended(1, "failed", **also), None)
    assert lines[0] == "job-1 train failed after 2h10m: exit 3."
    assert "  Code        https://g.it/a@main:4b" in lines
    assert "  Labels      exp=b" in lines and "  Runs on     n1, GPU 3 (main.0, failed)" in lines
    length = {"text": "about 2h, as your last 12 jobs of this name"}
    live = describe_job(a_job(1, **{**also, "tasks": [task | {"ended_at": None}]}), None, length)
    assert "  Will take   about 2h, as your last 12 jobs of this name" in live
    assert "  Address     api 10.0.0.4:8000" in live and not any("10.0.0.4" in line for line in lines)


def test_a_notebook_goes_before_the_jobs_that_run_it(server, tessera):
    one = {
        "id": "nb-5", "name": "explore", "team": "nlp", "owner": "ada", "state": "running", "job": "job-9",
        "spec": {"gpu": "1/4"}, "folder": "notebooks/explore", "opened_at": None, "stops_at": None,
        "created_at": "2026-01-01T10:00:00Z",
    }  # fmt: skip
    server.on("GET /notebooks", (200, {"results": [one], "next_cursor": None}))
    server.on("GET /notebooks/nb-5", (200, one))
    server.on("GET /nodes", (200, {"results": [{"name": "n1"}]}))
    interactive, batch = (
        a_job(number, name="explore", kind=kind) for number, kind in ((9, "interactive"), (4, "batch"))
    )
    server.on("GET /jobs", (200, {"results": [interactive], "next_cursor": None}))
    shown = tessera("show", "explore").stdout
    assert shown.startswith("nb-5 explore is running.\n") and f"{server.url}/n/nb-5/open" in shown
    server.on("GET /jobs", (200, {"results": [interactive, batch], "next_cursor": None}))
    several = tessera("show", "explore")
    assert several.exit_code == 2 and several.stderr.splitlines()[1:] == ["  nb-5, a notebook", "  job-4"]
