"""A canary goes in as a secret by each door, and comes out by none."""

import pytest
from django.db import connection

from common.cache_server import cache_server
from jobs.log_ingest import Piece, store_pieces
from jobs.states import TaskState
from notebooks.services import create_notebook
from runtimes.contract.node import NodeView
from runtimes.log_store import LogStore
from scheduler.lease import acquire
from scheduler.reconcile.actions import FencedAction, run_actions
from scheduler.reconcile.compare import Start
from tests import make
from tests.api_client import Api
from tests.browser import browser
from tests.fakes.runtime import FakeRuntime

pytestmark = pytest.mark.django_db
CANARY = "c4nary-f00d-1234"


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    settings.TESSERA_LOGS = tmp_path
    return make.cast()


def read_database() -> str:
    with connection.cursor() as cursor:
        found = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT row_to_json(r)::text FROM "{table}" r')
            found += [row for (row,) in cursor.fetchall()]
    return "\n".join(found)


def read_valkey() -> bytes:
    client = cache_server()
    return b"\n".join(key + (client.dump(key) or b"") for key in client.scan_iter())


def test_a_canary_in_every_field_comes_out_of_no_door(cast, caplog, tmp_path):
    api, page, secrets = Api(make.token(cast.bob)), browser(cast.bob), "/settings/secrets/"
    answers = [
        page.post(secrets, {"name": "OF_PAGE", "value": CANARY}),
        page.post(secrets, {"name": "A-B", "value": CANARY}),
        api.post("secrets", {"name": "OF_API", "value": CANARY}),
        api.post("secrets", {"name": "OF_TEAM", "value": f"{CANARY}\n", "team": "nlp"}),
        api.post("secrets", {"name": "A-B", "value": CANARY}),
        api.post("secrets", {"name": "OF_API", "value": f"{CANARY}\0"}),
        api.post("secrets", {"name": "OF_API", "value": [CANARY]}),
        api.post("secrets", {"name": "OF_API", "value": CANARY, "team": "none"}),
        api.post("secrets", {"name": "TOO_LONG", "value": CANARY * 8192}),
    ]
    assert [answer.status_code for answer in answers] == [302, 400, 201, 201, 400, 400, 400, 400, 400]
    of_role = {"main": {"run": "true", "secrets": {"OF_TEAM": "variable"}}}
    job = make.job(cast.bob, pool="dev", secrets={"OF_PAGE": "file", "OF_API": "variable"}, roles=of_role)
    notebook = create_notebook(user=cast.bob, name="explore", gpu="0", secrets={"OF_API": "variable"}).public_id
    (task,) = make.start(job, state=TaskState.ASSIGNED)
    runtime = FakeRuntime([NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())])
    run_actions([FencedAction(Start(task.uuid.hex, job.pk), acquire("reconcile"))], runtime)
    assert runtime.starts == [task.uuid.hex]
    make.move(task, TaskState.RUNNING)
    store_pieces(make.agent("n1"), [Piece(task.uuid.hex, 0, f"it is {CANARY}!\n".encode())])
    shown = [api.get(path) for path in ("secrets", "jobs", f"jobs/{job.public_id}", f"jobs/{job.public_id}/events")]
    shown += [page.get(path) for path in (secrets, f"/jobs/new?from={job.public_id}", f"/j/{job.public_id}/")]
    shown += [page.get(f"/j/{job.public_id}/?tab={tab}") for tab in ("log", "events", "spec")]
    shown += [page.get(f"/n/{notebook}/"), api.get("notebooks"), api.get(f"notebooks/{notebook}")]
    assert {answer.status_code for answer in shown} == {200}
    answers += [*shown, Api(make.token(make.admin())).get("audit")]
    for answer in answers:
        assert CANARY not in (b"".join(answer) if answer.streaming else answer.content).decode()
    told = [read_database(), repr(runtime._tasks), caplog.text, read_valkey().decode(errors="replace")]
    assert not any(CANARY in text for text in told)
    assert b"it is " + b"*" * len(CANARY) + b"!\n" == LogStore(tmp_path).read(task.uuid.hex, 0)[0]
    assert not any(CANARY.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("whose", ["stranger", "member", "admin"])
def test_no_stranger_sets_or_deletes_a_secret_by_the_api(cast, whose):
    lead = Api(make.token(cast.bob))
    secret = lead.post("secrets", {"name": "OF_TEAM", "value": CANARY, "team": "nlp"}).json()
    person = {"stranger": cast.eve, "member": cast.ada}.get(whose) or make.admin()
    other = Api(make.token(person))
    status = 403 if whose == "member" else 400  # to the others there is no such team of theirs
    assert other.post("secrets", {"name": "OF_TEAM", "value": "x", "team": "nlp"}).status_code == status
    assert other.delete(f"secrets/{secret['id']}").status_code == (403 if whose == "member" else 404)
    assert [row["version"] for row in lead.get("secrets").json()["results"]] == [1]


def test_a_secret_in_use_is_deleted_by_force(cast):
    api = Api(make.token(cast.ada))
    secret = api.post("secrets", {"name": "HUB", "value": CANARY}).json()
    job = make.job(cast.ada, pool="dev", secrets=["HUB"])
    assert (secret["name"], secret["team"], secret["version"], secret["used_by"]) == ("HUB", None, 1, None)
    refused = api.delete(f"secrets/{secret['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "secret_in_use")
    assert job.public_id in refused.json()["detail"]
    assert api.delete(f"secrets/{secret['id']}?force=true").status_code == 204
