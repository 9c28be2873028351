"""The API is what its description says: the checked-in file, and many generated requests against it."""

import json
import re
from collections import defaultdict
from itertools import count
from pathlib import Path

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.generation.meta import TestPhase
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from accounts.models import ApiToken
from common.secrets import digest_secret
from jobs.jobfile.schema import job_schema
from portal.api.about import describe
from portal.api.urls import urlpatterns
from tests import make
from tests.api_client import Api
from tests.described_world import World, make_room
from tests.whole import WHOLE, part_of

pytestmark = pytest.mark.begins_first

ADMINS = re.compile(r"`cluster:write`|For\s+administrators")
AGENTS = re.compile("Needs the key of the machine's agent")
ROOT = Path(__file__).parents[3]
# Streams by ASGI; what takes gzip or raw pieces only.
OWN_TESTS = [
    *("read_log", "stream_events", "read_file", "read_folder", "read_dataset_file", "export_history"),
    *("upload_code", "append_to_upload"),
]
NO_HURRY = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
PLANS_BY_CHANCE = SchemathesisConfig.from_dict(
    {"operations": [{"include-operation-id": "plan_job", "phases": {"coverage": {"enabled": False}}}]}
)
"""A plan takes the job file that a submit takes, which meets each value of each field: thousands of requests."""
ALWAYS, EACH = 12, 60
"""Without TESSERA_WHOLE=1, of the values of fields that schemathesis lists for an operation: the first so many are
sent, then one of so many. The API's tests of its own send what matters.
"""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture
def one_connection(db):
    """Whole requests by WSGI stay in this test's transaction, as those of Django's own test client do."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


@pytest.fixture
def world(one_connection, settings, tmp_path):
    settings.TESSERA_RATES = {name: (0, per_s) for name, (_, per_s) in settings.TESSERA_RATES.items()}
    make_room(settings, tmp_path)
    return World(tmp_path)


@pytest.fixture
def tokens(world):
    """{whom it is for: secret}. With numbers that no generated request hits: one that is revoked half-way would make
    the rest easy.
    """
    secrets = {"anybody": make.token(world.ada), "admins": make.token(world.root)}
    for number, secret in enumerate(secrets.values(), 987_654_321_987):
        ApiToken.objects.filter(digest=digest_secret(secret)).update(id=number)
    return {**secrets, "agents": make.AGENT_KEY}


@pytest.fixture
def described(one_connection):
    """The description as it is served."""
    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", WSGIHandler(), config=PLANS_BY_CHANCE)


@pytest.fixture
def turns():
    """{operation: the numbers of its listed cases}"""
    return defaultdict(count)


@pytest.fixture
def answered():
    """{operation: the statuses that it answered with}; none may have refused everything."""
    statuses = defaultdict(set)
    yield statuses
    refused = {name: sorted(seen) for name, seen in statuses.items() if not did_something(seen)}
    assert statuses and not refused, refused


many = schemathesis.pytest.from_fixture("described").exclude(operation_id=OWN_TESTS)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@many.include(method="GET").parametrize()
@hypothesis_settings(max_examples=part_of(50, 5), **NO_HURRY)
def test_many_generated_reads_are_answered_as_described(case, world, tokens, answered, turns):
    if is_sent(case, turns):
        send(case, world, tokens, answered[case.operation.label])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@many.exclude(method="GET").parametrize()
@hypothesis_settings(max_examples=part_of(50, 5), **NO_HURRY)
def test_many_generated_writes_are_answered_as_described(case, world, tokens, answered, turns):
    if is_sent(case, turns):
        send(case, world, tokens, answered[case.operation.label])


def is_sent(case, turns) -> bool:
    if WHOLE or case.meta.phase.name != TestPhase.COVERAGE:
        return True
    turn = next(turns[case.operation.label])
    return turn < ALWAYS or turn % EACH == 0


def did_something(statuses) -> bool:
    return any(200 <= one < 300 for one in statuses)


def send(case, world, tokens, statuses):
    """Send it, as well as this world knows how until the operation has done something once, and keep its status."""
    case.cookies.clear()  # a made-up session would be refused before the view is reached
    world.bring_home(case, surely=not did_something(statuses))
    words = case.operation.definition.raw["description"]
    token = tokens["admins" if ADMINS.search(words) else "agents" if AGENTS.search(words) else "anybody"]
    with world.untouched(case):
        answer = case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)
    statuses.add(answer.status_code)


def test_the_checked_in_description_is_that_of_the_code():
    """Write it anew with bin/check --fix."""
    assert json.loads((ROOT / "docs/openapi.json").read_text()) == json.loads(json.dumps(describe(), default=str))


@pytest.mark.django_db
def test_the_description_is_served_to_everybody():
    served = Api().get("openapi.json").json()
    assert served["openapi"].startswith("3.1") and "/api/v1/jobs/{job_id}:stop" in served["paths"]


@pytest.mark.django_db
def test_editors_get_the_schema_of_a_job_file():
    assert Api().get("job.schema.json").json() == json.loads((ROOT / "docs/job.schema.json").read_text())


def test_every_address_is_described():
    hidden = {"api-openapi", "api-job-schema", "api-nowhere"}
    described = {path.removeprefix("/api/v1/") for path in describe()["paths"]}
    for pattern in urlpatterns:
        path = re.sub(r"<\w+:(\w+)>", r"{\1}", str(pattern.pattern))
        assert pattern.name in hidden or path in described, pattern.name


def test_the_body_of_a_submit_is_the_job_file():
    described = describe()
    for path in ("/api/v1/jobs", "/api/v1/jobs:plan"):
        for body in described["paths"][path]["post"]["requestBody"]["content"].values():
            assert body["schema"] == {"$ref": "#/components/schemas/JobFile"}
    assert described["components"]["schemas"]["JobFile"] == job_schema(yaml=False)


def test_every_operation_says_who_may_use_it_and_no_two_have_one_name():
    operations = [operation for path in describe()["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for operation in operations:
        assert operation.get("security") or operation["operationId"] in {"get_version", "enrol_agent"}
