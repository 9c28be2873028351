"""`serve` and `call` against the real portal, over real HTTP."""

import json

import pytest

from common.steady_clock import steady_now
from services.models import Service
from services.usage import Calls, add_usage
from tests import make


@pytest.fixture
def file(tmp_path) -> str:
    (tmp_path / "chat.yaml").write_text(make.SERVICE_FILE.format(**make.USUAL_SERVICE | {"hold": "1s"}))
    return str(tmp_path / "chat.yaml")


def test_one_is_made_rolled_out_and_deleted(ada, cast, file, tmp_path):
    made = ada("serve", "-f", file)
    service = Service.objects.get()
    assert made.exit_code == 0, made.stderr
    assert made.stdout.startswith(f"chat ({service.public_id}) is asleep: ") and "/-/nlp/chat" in made.stdout
    listed = ada("serve", "ls", "-o", "csv").stdout.splitlines()
    assert listed[0] == "ID,NAME,STATE,REVISION,READY,IN FLIGHT,ADDRESS" and ",chat,asleep,r1,0," in listed[1]
    text = (tmp_path / "chat.yaml").read_text()
    (tmp_path / "chat.yaml").write_text(text.replace("python serve.py", "python other.py"))
    assert "revision 2 comes up" in ada("serve", "-f", file).stdout
    assert "revision" not in ada("serve", "rollback", "chat").stdout
    shown = ada("serve", "show", "nlp/chat").stdout
    assert "r1  ada" in shown and "answers" in shown and "no requests, in the last 5 minutes" in shown
    scaled = ada("serve", "scale", "chat", "0..2")
    assert "chat may have 0..2 replicas." in scaled.stderr and "scale     0..2" in ada("serve", "show", "chat").stdout
    assert "nothing to end early" in ada("serve", "promote", "chat").stderr
    assert ada("serve", "logs", "chat").exit_code == 3
    job = make.replica(service).job.public_id
    assert ada("ps", "--kind", "service", "-o", "name").stdout.split() == [job]
    assert ada("ps", "--kind", "batch", "-q").stdout == ""
    assert "interactive" in ada("ps", "--kind", "all").stderr
    make.canary(service, text.replace("access: team", "canary: {share: 20%, back_if: {p95: 1.5x}}"))
    shown = ada("serve", "show", "chat").stdout
    assert "20% of the requests, until" in shown and "back at 2% errors or p95 1.5x" in shown
    assert ", median of 1" in shown and f", the last one, {job}" in shown and " s: queue 0." in shown
    assert ada("serve", "promote", "chat").exit_code == 0 and ada("serve", "rollback", "chat").exit_code == 0
    assert "is stopped" in ada("serve", "stop", service.public_id).stdout
    assert "is up" in ada("serve", "wake", "chat").stdout
    assert ada("serve", "rm", "chat").exit_code == 0 and not Service.objects.live().exists()
    missing = ada("serve", "sleep", "chat")
    assert missing.exit_code == 3 and "no service named chat" in missing.stderr
    assert ada("serve").exit_code == 2


def test_one_is_made_of_a_template(ada, cast):
    made = ada("serve", "-t", "file-type", "-p", "name=kinds", "-p", "replicas=0..1")
    assert made.exit_code == 0 and "/-/nlp/kinds" in made.stdout, made.stderr
    assert Service.objects.get().serving.replicas == (0, 1)
    assert "Name the service's file, or a template" in ada("serve", "-t", "file-type", "-f", "x.yaml").stderr


def test_keys_come_and_go(ada, cast):
    make.service(cast.ada)
    secret = ada("serve", "key", "add", "chat", "bot", "--days", "7").stdout.strip()
    assert secret.startswith("tsk_")
    assert json.loads(ada("-o", "json", "serve", "key", "ls", "chat").stdout)["results"][0]["name"] == "bot"
    assert ada("serve", "key", "limit", "chat", "bot", "--per-minute", "60", "--in-flight", "2").stdout == (
        "bot: at most 60 a minute and 2 in flight\n"
    )
    assert ada("serve", "key", "limit", "chat", "bot", "--in-flight", "0").stdout == "bot: at most 60 a minute\n"
    assert ada("serve", "key", "limit", "chat", "bot").exit_code == 2
    assert ",bot,tsk_" in ada("serve", "key", "ls", "chat", "-o", "csv").stdout
    add_usage(steady_now().date(), {Calls(Service.objects.get().pk, 1, "bot"): (5, 1)})
    assert ada("serve", "usage", "chat", "-o", "csv").stdout.splitlines()[1].endswith(",bot,5,1")
    assert ada("serve", "key", "rm", "chat", "bot").exit_code == 0
    assert ada("serve", "key", "rm", "chat", "bot").exit_code == 3
