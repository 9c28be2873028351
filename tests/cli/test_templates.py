"""Templates, and copies of jobs, as the command asks for them."""

import json

from tests.cli_server import a_job


def a_template(number: int = 3, **also) -> dict:
    return {
        "id": f"tpl-{number}", "name": "finetune", "description": "Finetunes a model.", "team": "nlp", "example": False,
        "made_by": "ada", "version": 4, "created_at": None, "archived_at": None, **also,
    }  # fmt: skip


def listed(*rows: dict) -> tuple:
    return 200, {"results": list(rows), "next_cursor": None}


def body_of(server, request: str) -> dict:
    ((_, _, _, body),) = server.of(request)
    return json.loads(body)


def test_run_asks_a_template_for_a_job(server, tessera):
    server.on("GET /templates", listed(a_template()))
    server.on("POST /templates/tpl-3:run", (201, a_job(7, "queued")))
    done = tessera("run", "--template", "finetune@4", "-p", "lr=3e-4", "-p", "note=a=b", "--gpu", "1/2", "-o", "name")
    assert (done.stdout, done.exit_code) == ("job-7\n", 0), done.stderr
    asked = {"values": {"lr": "3e-4", "note": "a=b"}, "changes": {"gpu": "1/2"}, "version": 4}
    assert body_of(server, "POST /templates/tpl-3:run") == asked
    assert "name=finetune" in server.of("GET /templates")[0][1]


def test_an_id_is_not_looked_up(server, tessera):
    server.on("POST /templates/tpl-3:run", (201, a_job(7, "queued")))
    assert tessera("run", "-t", "tpl-3").exit_code == 0
    assert body_of(server, "POST /templates/tpl-3:run") == {"values": {}, "changes": {}}


def test_a_plan_of_a_template_submits_nothing(server, tessera):
    server.on("POST /templates/tpl-3:render", (200, {"file": "run: ls\n", "spec": {}, "values": {}}))
    plan = {"outcome": "starts", "text": "It would start now.", "reasons": [], "levers": [], "refusal": None}
    server.on("POST /jobs:plan", (200, plan))
    tessera("run", "-t", "tpl-3", "--plan", "-o", "json")
    assert server.of("POST /jobs:plan") and not server.of("POST /templates/tpl-3:run")


def test_a_command_or_a_template_and_no_parameters_without_one(server, tessera):
    both, neither = tessera("run", "-t", "tpl-3", "--", "ls"), tessera("run")
    assert both.exit_code == neither.exit_code == 2 and "one of the two" in both.stderr
    assert "only a template has parameters" in tessera("run", "-p", "a=1", "--", "ls").stderr


def test_a_name_of_none_or_of_several(server, tessera):
    server.on("GET /templates", listed(), listed(a_template()))
    missing = tessera("templates", "show", "finetun")
    assert missing.exit_code == 3 and missing.stderr == "There is no template named finetun. Did you mean finetune?\n"
    server.on("GET /templates", listed(a_template(), a_template(5, team=None)))
    several = tessera("run", "-t", "finetune")
    assert several.exit_code == 2 and "tpl-3, nlp" in several.stderr and "tpl-5, everybody" in several.stderr


def test_list_and_show(server, tessera):
    example = a_template(id="first-steps", name="first-steps", team=None, example=True)
    server.on("GET /templates", listed(a_template(), example))
    shown = tessera("templates", "list").stdout
    assert "finetune" in shown and "everybody (example)" in shown
    parameters = [
        {"name": "lr", "type": "number", "required": False, "default": "3e-4", "choices": [], "help": "The rate."},
        {"name": "size", "type": "choice", "required": True, "default": None, "choices": ["a", "b"], "help": ""},
    ]
    whole = a_template(number_=1) | {"number": 4, "parameters": parameters, "file": "template:\n  name: finetune\n"}
    server.on("GET /templates/tpl-3", (200, whole))
    told = tessera("templates", "show", "tpl-3").stdout
    assert "finetune@4 (tpl-3), for nlp." in told and "The rate." in told
    assert told.endswith("Run it: tessera run --template finetune@4 -p size=...\n")
    assert tessera("templates", "show", "tpl-3", "--file").stdout == "template:\n  name: finetune\n"


def test_create_update_archive(server, tessera, tmp_path):
    (tmp_path / "t.yaml").write_text("template: {name: finetune}\nrun: ls\n")
    server.on("POST /templates", (201, a_template()))
    assert "tpl-3" in tessera("templates", "create", str(tmp_path / "t.yaml"), "--team", "nlp").stdout
    assert body_of(server, "POST /templates")["team"] == "nlp"
    server.on("POST /templates/tpl-3/versions", (201, a_template() | {"number": 5}))
    assert tessera("templates", "update", "tpl-3", str(tmp_path / "t.yaml")).stdout == "finetune@5 is saved.\n"
    server.on("POST /templates/tpl-3:archive", (200, a_template()))
    assert tessera("templates", "archive", "tpl-3").stdout == "finetune is archived.\n"
    assert "cannot be read" in tessera("templates", "create", str(tmp_path / "none")).stderr


def test_rerun_and_diff(server, tessera):
    server.on("POST /jobs/job-7:rerun", (201, a_job(9, "queued")))
    assert tessera("rerun", "7", "--exact", "-o", "name").stdout == "job-9\n"
    assert body_of(server, "POST /jobs/job-7:rerun") == {"exact": True}
    found = [
        {"field": "env.LR", "before": "1e-4", "after": None},
        {"field": "run", "before": "a\nb\nc", "after": "a\nx\nc"},
        {"field": "ports", "before": [1], "after": [1, 2]},
    ]
    server.on("GET /jobs/job-7/diff", (200, {"before": "job-7", "after": "job-9", "differences": found}))
    lines = tessera("diff", "job-7", "9").stdout.splitlines()
    assert (
        lines[0] == "env.LR: 1e-4 -> -" and "  -b" in lines and "  +x" in lines and lines[-1] == "ports: [1] -> [1, 2]"
    )
    server.on("GET /jobs/job-7/diff", (200, {"before": "job-7", "after": "job-9", "differences": []}))
    assert "the same file" in tessera("diff", "job-7", "job-9").stderr
