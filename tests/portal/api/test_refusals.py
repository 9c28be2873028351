"""The operations that generated requests leave out refuse as they are described: each status, by one request."""

from typing import Any

from django.core.signals import request_finished
from django.db import close_old_connections
from django.test import Client

from portal.api.about import describe
from tests import make
from tests.described_world import World, make_room

PIECE, GZIP = "application/offset+octet-stream", "application/gzip"
OPERATIONS = {
    "read_log": ("get", "/api/v1/jobs/{job_id}/logs"),
    "stream_events": ("get", "/api/v1/events"),
    "read_file": ("get", "/api/v1/files/content"),
    "read_folder": ("get", "/api/v1/files/archive"),
    "upload_code": ("post", "/api/v1/code"),
    "append_to_upload": ("patch", "/api/v1/files/uploads/{upload_id}"),
}
QUERY = {"read_file": {"path": "notes.txt"}}
TYPES = {"upload_code": GZIP, "append_to_upload": PIECE}
AT_ZERO = {"Upload-Offset": "0"}
CODE_MOST = 1 << 20

# {(operation, status): what is other than in a request that would be answered}
REFUSED: dict[tuple[str, int], dict[str, Any]] = {
    **{(name, 401): {"token": False} for name in OPERATIONS},
    **{(name, 403): {"scope": "cluster:read"} for name in OPERATIONS},
    **{(name, 405): {"method": "put"} for name in OPERATIONS},
    **{(name, 406): {"headers": {"Accept": "image/png"}} for name in OPERATIONS},
    **{(name, 429): {"calls": 1} for name in OPERATIONS},
    ("read_log", 400): {"query": {"offset": "-1"}},
    ("read_log", 404): {"id": "job-999999"},
    ("stream_events", 400): {"query": {"since": "yesterday"}},
    ("read_file", 400): {"query": {}},
    ("read_file", 404): {"query": {"path": "missing"}},
    ("read_file", 409): {"query": {"path": "data"}},
    ("read_file", 416): {"headers": {"Range": "bytes=1000-"}},
    ("read_folder", 400): {"query": {"path": "a/../b"}},
    ("read_folder", 404): {"query": {"place": "team:vision"}},
    ("upload_code", 400): {"body": b"no archive"},
    ("upload_code", 413): {"body": bytes(2000), "code_most": 1000},
    ("upload_code", 415): {"type": "text/plain"},
    ("upload_code", 507): {"reserve_mib": 1 << 40},
    ("append_to_upload", 400): {"headers": {"Upload-Offset": "first"}},
    ("append_to_upload", 404): {"id": "00000000-0000-4000-8000-000000000000"},
    ("append_to_upload", 409): {"headers": {"Upload-Offset": "1"}},
    ("append_to_upload", 413): {"body": bytes(8 * 1024 * 1024 + 1)},
    ("append_to_upload", 415): {"type": "application/json"},
}
# Described for every operation, and never met by these: nothing is named that might not be there.
NEVER = {("stream_events", 404), ("upload_code", 404)}


def test_each_refuses_as_it_is_described(db, settings, tmp_path, subtests):
    make_room(settings, tmp_path)
    world, rates, reserve_mib = World(tmp_path), settings.TESSERA_RATES, settings.TESSERA_DISK_RESERVE_MIB
    for (name, status), asked in REFUSED.items():
        settings.CODE_MAX_BYTES = asked.get("code_most", CODE_MOST)
        settings.TESSERA_DISK_RESERVE_MIB = asked.get("reserve_mib", reserve_mib)
        settings.TESSERA_RATES = {**rates, "calls": (asked.get("calls", 1000), 10**9)}
        with subtests.test(operation=name, status=status):
            token = make.token(world.ada, *filter(None, [asked.get("scope")])) if asked.get("token", True) else ""
            for _ in range(1 + asked.get("calls", 0)):
                answer = ask(world, name, asked, token)
            assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json"), answer
            assert answer.json()["status"] == status


def ask(world, name, asked, token):
    """The answer to a request that would be answered but for what `asked` says."""
    method, path = OPERATIONS[name]
    ids = {part: asked.get("id", known[0]) for part, known in world.path.items()}
    headers = {**(AT_ZERO if name == "append_to_upload" else {}), **asked.get("headers", {})}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    query = asked.get("query", QUERY.get(name, {}))
    if method == "get":
        sent = {"query_params": query}
    else:
        kind = asked.get("type", TYPES[name])  # in the headers too: the client leaves it out where there is no body
        sent, headers["Content-Type"] = {"data": asked.get("body", b""), "content_type": kind}, kind
    answer = getattr(Client(), asked.get("method", method))(path.format(**ids), headers=headers, **sent)
    close_stream(answer)
    return answer


def close_stream(answer) -> None:
    """What streams has a child, which ends with it. As Django's client does: nothing else ends with the request."""
    if answer.streaming:
        request_finished.disconnect(close_old_connections)
        answer.close()
        request_finished.connect(close_old_connections)


def test_every_refusal_that_is_described_has_its_request():
    described = {
        (name, int(status))
        for name, (method, path) in OPERATIONS.items()
        for status in describe()["paths"][path][method]["responses"]
        if int(status) >= 400
    }
    assert described == set(REFUSED) | NEVER
