"""What each command sends and shows."""

import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_group

from cli.http.transport import VERSION
from cli.main import COMMANDS
from cli.output.cells import format_clock, now, parse_time
from cli.output.safe_text import width
from tests.cli_server import a_job, ended

ROOT = Path(__file__).parents[2]
QUEUED = a_job(state="queued")


@pytest.fixture
def submitted(server):
    """What the next submit sends: (data, headers)."""
    server.on("POST /jobs", (201, QUEUED))

    def read():
        _, _, headers, body = server.of("POST /jobs")[-1]
        return (json.loads(body) if headers["Content-Type"] == "application/json" else body.decode()), headers

    return read


def test_every_command_is_in_the_table_with_its_own_first_line():
    found = {}
    for name in sorted({module for module, _ in COMMANDS.values()}):
        for command in get_group(import_module(f"cli.commands.{name}").commands).commands.values():
            found[command.name] = (name, command.help.splitlines()[0])
    assert found == COMMANDS


def test_help_loads_no_command_and_no_parser():
    code = "import sys, cli.main as m\ntry: m.app(['--help'], prog_name='tessera')\nexcept SystemExit: pass\n"
    code += "heavy = ('ruamel', 'tarfile', 'pathspec', 'rich', 'cli.commands.')\n"
    code += "print([name for name in sys.modules if name.startswith(heavy)], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]" and "  why " in done.stdout


def test_the_version_is_the_project_s(server, tessera):
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
    server.on("GET /version", (200, {"version": "9.9", "api": "1"}))
    assert tessera("version").stdout == f"tessera   {VERSION}\nplatform  9.9 (API 1) at {server.url}\n"


def test_run_sends_what_was_said_and_nothing_else(submitted, tessera, monkeypatch):
    monkeypatch.setenv("HERE", "mine")
    tessera(
        "run",
        "-g",
        "1/4",
        "-n",
        "first",
        "--max-time",
        "1h",
        "--nodes",
        "2",
        "-e",
        "A=b=c",
        "-e",
        "HERE",
        "--",
        "python",
        "a b.py",
        "-o",
        "x",
    )
    assert submitted()[0] == {
        "run": "python 'a b.py' -o x", "gpu": "1/4", "name": "first", "max_time": "1h", "nodes": 2,
        "env": {"A": "b=c", "HERE": "mine"},
    }  # fmt: skip


def test_a_span_of_nodes_is_sent_as_it_was_typed(submitted, tessera):
    tessera("run", "--nodes", "4..8", "--", "true")
    assert submitted()[0] == {"run": "true", "nodes": "4..8"}


def test_options_after_the_command_belong_to_it(submitted, tessera):
    tessera("run", "python", "train.py", "-q", "--gpu", "2")
    assert submitted()[0] == {"run": "python train.py -q --gpu 2"}


def test_one_word_is_a_line_for_the_shell(submitted, tessera):
    tessera("run", "make data && python train.py")
    assert submitted()[0] == {"run": "make data && python train.py"}


def test_a_variable_without_a_value_is_refused(submitted, tessera):
    result = tessera("run", "-e", "NOT_THERE", "true")
    assert result.exit_code == 2 and "env.NOT_THERE: it has no value here." in result.stderr


def test_a_job_file_is_sent_as_it_was_written(submitted, tessera, tmp_path):
    text = "run: |\n  échó  # not ours\ngpu:    1\n"
    (tmp_path / "job.yaml").write_text(text)
    assert tessera("submit", str(tmp_path / "job.yaml")).stdout == "job-1 is queued. http://localhost/j/job-1/\n"
    assert submitted()[0] == text and submitted()[1]["Content-Type"] == "application/yaml"
    tessera("submit", "-", "--set", "gpu=1/2", input="run: x\n")
    assert submitted()[0] == '"gpu": "1/2"\nrun: x\n'


def test_code_is_packed_beside_the_file_and_sent_once(server, submitted, tessera, tmp_path):
    (tmp_path / "job.yaml").write_text("run: python a.py\ncode: .\n")
    (tmp_path / "a.py").write_text("print(1)")
    server.on("POST /code", (201, {}))
    assert "sent." in tessera("submit", str(tmp_path / "job.yaml")).stderr
    ((_, _, headers, body),) = server.of("POST /code")
    digest = server.asked[0][1].removeprefix("/code/")
    assert headers["Content-Type"] == "application/gzip" and body[:2] == b"\x1f\x8b"
    assert submitted()[0] == f'run: python a.py\ncode: "{digest}"\n'
    server.on(f"GET /code/{digest}", (200, {}))
    assert "already there" in tessera("run", "--code", str(tmp_path), "true").stderr
    assert len(server.of("POST /code")) == 1 and submitted()[0]["code"] == digest


def test_code_that_is_not_there_is_a_usage_error(submitted, tessera, tmp_path):
    result = tessera("run", "--code", str(tmp_path / "none"), "true")
    assert result.exit_code == 2 and result.stderr.startswith("code: There is no directory")


@pytest.mark.parametrize(
    "args",
    [
        ("submit", "none.yaml"),
        ("submit", "-", "--set", "gpu"),
        ("run", "--timeout", "soon", "true"),
        ("run",),
        ("fly",),
        ("ps", "-o", "xml"),
    ],
)
def test_wrong_use_is_exit_code_2_and_submits_nothing(server, submitted, tessera, args):
    assert tessera(*args, input="run: x").exit_code == 2
    assert not server.of("POST /jobs")


def test_a_slip_of_the_finger_is_answered_with_the_nearest_command(tessera):
    assert "Did you mean 'stop'?" in tessera("stpo", "1").stderr


def test_ps_is_a_table_of_80_columns(server, tessera):
    jobs = [a_job(12, "queued"), a_job(11, expected_end_at="2026-01-01T16:00:00Z"), ended(10)]
    server.on("GET /jobs", (200, {"results": jobs, "next_cursor": None}), (200, {"results": [], "next_cursor": None}))
    lines = tessera("ps").stdout.splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATE", "GPUS", "WHERE", "WAIT/RAN", "NEXT"]
    assert len(lines) == 4 and max(map(width, lines)) <= 80
    assert lines[3].split() == ["job-10", "train", "succeeded", "¼", "n1:3", "2h10m", "–"]
    assert ["owner=me" in path for _, path, _, _ in server.asked] == [True, True]


def test_ps_in_other_forms(server, tessera):
    page = {"results": [a_job(2), a_job(1)], "next_cursor": None}
    server.on("GET /jobs", (200, page))
    assert tessera("ps", "-s", "running", "-o", "name").stdout == "job-2\njob-1\n"
    assert json.loads(tessera("-o", "json", "ps", "-s", "running").stdout) == page
    assert (
        "owner" not in tessera("ps", "--all", "-s", "running").stdout
        and "OWNER" in tessera("ps", "-a", "-s", "running").stdout
    )
    server.on("GET /jobs", (200, {"results": [], "next_cursor": None}))
    nothing = tessera("ps")
    assert (nothing.stdout, nothing.stderr) == ("", "There are no such jobs.\n")
    assert tessera("ps", "-q").output == ""


def test_why_says_place_and_reasons(server, tessera):
    server.on("GET /jobs/job-1", (200, QUEUED))
    start = {"start": {"text": "14:10 to 15:30, likely 14:25"}}
    server.on("GET /jobs/job-1/wait", (200, QUEUED["wait"] | start))
    lines = tessera("why", "1").stdout.splitlines()
    assert lines[0].startswith("job-1 train has waited ") and lines[0].endswith(", number 2 of 5 in pool dev.")
    assert lines[1] == "It will start: 14:10 to 15:30, likely 14:25."
    assert lines[2] == "the team is at its limit"
    assert json.loads(tessera("why", "1", "-o", "json").stdout) == QUEUED["wait"] | start


LEVER = {"field": "pool", "value": "dev", "text": "pool dev instead of train", "start_text": "now"}


def test_why_says_what_would_help_and_does_not_while_it_watches(server, tessera, monkeypatch):
    monkeypatch.setattr("cli.following.WATCH_S", 0)
    server.on("GET /jobs/job-1", (200, QUEUED), (200, QUEUED), (200, a_job()))
    link = {"job": "job-7", "text": "job-7 decides when it starts: no GPU is free"}
    server.on("GET /jobs/job-1/wait", (200, QUEUED["wait"] | {"start": None, "decided_by": link}))
    server.on("GET /jobs/job-1/levers", (200, {"job": "job-7", "start": None, "levers": [LEVER, LEVER], "whole": True}))
    said = tessera("why", "1").stdout.splitlines()
    assert f"  {link['text']}" in said and said[-3:] == [
        "  sooner  pool dev instead of train: now",
        "          pool dev instead of train: now",
        "To make the first change: tessera change job-7 pool=dev",
    ]
    assert "sooner" not in tessera("why", "1", "--watch").stdout


def a_plan(outcome, text, **also):
    return {"outcome": outcome, "text": text, "reasons": [], "levers": [], "refusal": None, **also}


def test_a_plan_submits_nothing_and_sends_no_code(server, tessera, tmp_path):
    server.on("POST /jobs:plan", (200, a_plan("starts", "Starts now, likely on n1 (¼ of GPU 3)")))
    done = tessera("run", "-g", "1/4", "--plan", "--code", str(tmp_path), "--", "python", "train.py")
    assert (done.exit_code, done.stdout) == (0, "● Starts now, likely on n1 (¼ of GPU 3)\n")
    (tmp_path / "job.yaml").write_text("run: x\ncode: ./src\n")
    assert tessera("submit", str(tmp_path / "job.yaml"), "--plan").exit_code == 0
    first, second = server.of("POST /jobs:plan")
    assert json.loads(first[3]) == {"run": "python train.py", "gpu": "1/4"}
    assert second[3] == b'run: x\ncode: "."\n' and not server.of("POST /jobs") and not server.of("POST /code")


def test_a_plan_says_whether_it_may_be_stopped_and_what_the_other_choice_would_mean(server, tessera):
    said = {"preemptible_text": "May be stopped.", "other_choice": {"text": "Else it would wait."}}
    server.on("POST /jobs:plan", (200, a_plan("starts", "Starts now", **said)))
    lines = tessera("run", "--plan", "--", "true").stdout.splitlines()
    assert lines == ["● Starts now", "  stops   May be stopped.", "          Else it would wait."]


def test_a_plan_that_waits_says_why_and_what_would_help(server, tessera):
    reasons = [{"code": "gang_incomplete", "text": "not all fit"}, {"code": "no_fit_now", "text": "no room"}]
    waits = a_plan("waits", "Waiting: #4 of 7 in train, 14:10 to 15:30", reasons=reasons, levers=[LEVER])
    server.on("POST /jobs:plan", (200, waits))
    done = tessera("run", "--plan", "--", "true")
    assert done.exit_code == 5
    assert done.stdout.splitlines() == [
        "◐ Waiting: #4 of 7 in train, 14:10 to 15:30",
        "  why     not all fit",
        "            no room",
        "  sooner  pool dev instead of train: now",
    ]
    assert json.loads(tessera("run", "--plan", "-o", "json", "--", "true").stdout) == waits
    assert tessera("run", "--plan", "-q", "--", "true").stdout.splitlines() == done.stdout.splitlines()[:1]


def test_a_plan_that_can_never_run_says_the_nearest(server, tessera):
    hints = {"hints": [{"pointer": "/gpu", "value": "8"}]}
    server.on("POST /jobs:plan", (200, a_plan("never", "Can never run: No node has 16.", refusal=hints)))
    done = tessera("run", "--plan", "--", "true")
    assert (done.exit_code, done.stdout) == (2, "✕ Can never run: No node has 16.\n  try     gpu: 8\n")


def test_why_watches_until_it_starts(server, tessera, monkeypatch):
    monkeypatch.setattr("cli.following.WATCH_S", 0)
    server.on("GET /jobs/job-1", (200, QUEUED), (200, QUEUED), (200, a_job()))
    server.on("GET /jobs/job-1/wait", (200, QUEUED["wait"] | {"start": None}))
    assert tessera("why", "job-1", "--watch").stdout.splitlines()[-1] == "job-1 train does not wait: it is running."


def test_acting_on_several_goes_on_after_a_refusal(server, tessera):
    server.on(
        "POST /jobs/job-1:hold", (409, {"status": 409, "code": "only_waiting_jobs", "detail": "It runs already."})
    )
    server.on("POST /jobs/job-2:hold", (200, a_job(2, "queued")))
    result = tessera("hold", "1", "JOB-2", "../me")
    assert result.exit_code == 2
    assert result.stderr == "1: It runs already.\n../me: No.\n"
    assert result.stdout == "job-2 is held. To let it start: tessera release job-2\n"
    assert server.asked[-1][1] == "/jobs?limit=500&owner=me&q=..%2Fme&state=queued"


def resizing(state: str, gpu_text: str, detail: str = "") -> dict:
    wish = {"gpu": "1/2", "by": "ada", "state": state, "detail": detail}
    task = {"role": "main", "rank": 0, "resize": wish, "gpus": [{"place": "0", "memory_text": gpu_text}]}
    return a_job() | {"tasks": [task]}


def test_resize_waits_until_it_is_done(server, tessera, monkeypatch):
    monkeypatch.setattr("cli.commands.jobs.actions.POLL_S", 0)
    server.on("POST /jobs/job-1:resize", (200, resizing("asked", "8.5 GB")))
    server.on("GET /jobs/job-1", (200, resizing("asked", "8.5 GB")), (200, resizing("done", "17 GB")))
    result = tessera("resize", "1", "--gpu", "1/2")
    assert (result.exit_code, result.stdout) == (0, "main.0 has 17 GB of GPU 0.\n")


def test_change_sends_values_as_a_job_file_has_them(server, tessera):
    server.on("PATCH /jobs/job-1", (200, {"id": "job-1"}))
    result = tessera("change", "1", "gpu=1/2", "nodes=2", "preemptible=true", "time=90m")
    assert result.exit_code == 0 and "job-1 is changed" in result.stdout
    (request,) = server.of("PATCH /jobs/job-1")
    assert json.loads(request[3]) == {"gpu": "1/2", "nodes": 2, "preemptible": True, "time": "90m"}
    assert tessera("change", "1", "place={same: switch, prefer: node}").exit_code == 0
    assert tessera("change", "1", "place=prefer: switch").exit_code == 0
    places = [json.loads(request[3])["place"] for request in server.of("PATCH /jobs/job-1")[1:]]
    assert places == [{"same": "switch", "prefer": "node"}, {"prefer": "switch"}]
    assert tessera("change", "1", "gpu").exit_code == 2


def test_label_sets_and_removes(server, tessera):
    server.on("PATCH /jobs/job-1", (200, {"id": "job-1", "spec": {"labels": {"exp": "b", "good": ""}}}))
    result = tessera("label", "1", "exp=b", "good", "old-")
    assert (result.exit_code, result.stdout) == (0, "job-1 has labels exp=b, good.\n")
    (request,) = server.of("PATCH /jobs/job-1")
    assert json.loads(request[3]) == {"labels": {"exp": "b", "good": "", "old": None}}


def test_resize_says_why_not(server, tessera):
    server.on(
        "POST /jobs/job-1:resize", (200, resizing("refused", "8.5 GB", "The card has no room for more right now."))
    )
    result = tessera("resize", "1", "--gpu", "1/2", "--task", "main.0")
    assert (result.exit_code, result.stderr) == (2, "job-1 main.0: The card has no room for more right now.\n")


def test_free_counts_quarters_card_by_card(server, tessera):
    room = {
        "pool": "dev", "shared": True, "models": ["V100-32GB"], "simulated": True, "cards_free": 0, "cards_total": 2,
        "free": {"value": 750, "text": "¾"}, "total": {"value": 2000, "text": "2"}, "waiting": 3,
        "largest_slice": {"value": 8127, "text": "8.5 GB"}, "may": {"value": 750, "text": "¾"},
        "starts": {"value": 500, "text": "½"},
    }  # fmt: skip
    card = {
        "pool": "dev",
        "healthy": True,
        "shared": True,
        "sellable": {"value": 32511},
        "free": {"value": 12191},
        "free_percent": 37,
        "max_slices": 8,
        "slices": [{}],
    }
    server.on("GET /capacity", (200, {"results": [room], "next_cursor": None}))
    part = {**card, "shared": False, "free": card["sellable"], "free_percent": 100, "max_slices": 1, "slices": []}
    server.on("GET /gpus", (200, {"results": [card, card, part], "next_cursor": None}))
    result = tessera("free")
    head, row = result.stdout.splitlines()
    assert row.split() == ["dev", "V100-32GB*", "0/2", "2", "8.5", "GB", "0.5", "3"] and width(head) <= 80
    assert result.stderr == "* simulated cards\n"


def test_quota_tells_until_when_it_holds_and_what_high_priority_costs(server, tessera):
    amounts = {name: {"value": 1000, "text": "1"} for name in ("used", "guarantee")}
    budget = {"total": 168.0, "ran": 2.5, "asked": 24.0, "left": 141.5, "refills_at": "2026-11-30T00:00:00Z"}
    prices = [
        {"price": "budget", "leads": ["bob"], "budget": budget, "text": "141.5 hours are left."},
        {"price": "consent", "leads": ["bob"], "budget": None, "text": "A lead consents: bob."},
        {"price": "free", "leads": [], "budget": None, "text": "It costs nothing."},
    ]
    thens = [None, {"ends": False, "text": "Until Friday: GPU limit 4, then 2."}, None]
    rows = [
        {
            "team": "nlp",
            "pool": pool,
            "gpu": {**amounts, "limit": {"value": limit, "text": "4"}},
            "then": then,
            "high_priority": price,
        }
        for pool, limit, price, then in zip(("dev", "train", "old"), (None, 4000, 4000), prices, thens, strict=True)
    ]
    server.on("GET /quotas", (200, {"results": rows, "me": {}, "next_cursor": None}))
    result = tessera("quota")
    said = [line.split() for line in result.stdout.splitlines()]
    assert said[1:] == [
        ["nlp", "dev", "1", "1", "–", *["141.5", "of", "168", "GPU", "hours", "left"]],
        ["nlp", "train", "1", "1", "4", "with", "consent"],
        ["nlp", "old", "1", "1", "4", "free"],
    ]
    assert result.stderr.splitlines() == [
        "nlp/dev: 141.5 hours are left.",
        "nlp/train: Until Friday: GPU limit 4, then 2.",
        "nlp/train: A lead consents: bob.",
    ]


def test_free_tells_of_maintenance_once_for_all_pools(server, tessera):
    amount = {"value": 0, "text": "0"}
    planned = {"nodes": ["n1", "n2"], "begins_at": "2030-05-06T18:00:00Z", "ends_at": "2030-05-06T20:00:00Z"}
    rooms = [
        {
            "pool": pool, "shared": True, "models": [], "simulated": False, "cards_free": 0, "cards_total": 0,
            "free": amount, "total": amount, "waiting": 0, "largest_slice": amount, "may": amount,
            "starts": amount, "maintenance": [planned],
        }
        for pool in ("dev", "train")
    ]  # fmt: skip
    server.on("GET /capacity", (200, {"results": rooms, "next_cursor": None}))
    server.on("GET /gpus", (200, {"results": [], "next_cursor": None}))
    begins, ends = (format_clock(parse_time(planned[name]), now()) for name in ("begins_at", "ends_at"))
    assert tessera("free").stderr == f"n1, n2: maintenance from {begins} until {ends}\n"


def test_the_queue_shows_other_teams_without_their_names(server, tessera):
    other = {
        "pool": "dev", "position": 1, "job": None, "name": None, "team": None, "state": "queued", "gpu": "1",
        "nodes": 1, "submitted_at": None, "started_at": None, "expected_end_at": None,
        "reason_text": "the team is at its limit",
    }  # fmt: skip
    mine = {
        **other,
        "position": None,
        "job": "job-1",
        "name": "train",
        "team": "nlp",
        "state": "running",
        "started_at": "2026-01-01T10:00:00Z",
    }
    server.on("GET /queue", (200, {"waiting": [other], "active": [mine], "last_cycle_at": None}))
    lines = tessera("queue").stdout.splitlines()
    assert lines[1].split()[:7] == ["dev", "1", "–", "–", "another", "queued", "1"] and max(map(width, lines)) <= 80
    assert tessera("queue", "-o", "name").stdout == "job-1\n"


def test_a_queue_of_no_pool_is_a_wrong_name_and_not_an_empty_one(server, tessera):
    server.on("GET /queue", (200, {"waiting": [], "active": [], "last_cycle_at": None}))
    server.on("GET /pools", (200, {"results": [{"name": "dev"}, {"name": "train"}]}))
    refused = tessera("queue", "--pool", "tarin")
    assert (refused.exit_code, refused.stderr) == (3, "There is no pool tarin. There are: dev, train.\n")
    assert tessera("queue", "--pool", "train").exit_code == 0
