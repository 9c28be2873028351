"""The client's manners, against a server that says what it is told to."""

import json
import random
import socket
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from kubernetes.client import StorageV1Api

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.kubernetes.api import client
from runtimes.kubernetes.api.client import ApiServer, Expired, Gone, NoRight
from tests.runtimes.kubernetes.scripted import DROP, FixedSource, ScriptedServer, failure, stream

PODS = "/api/v1/pods"


@pytest.fixture
def talk():
    """talk(answers...) → (client, server, how long the client slept)."""
    made = []

    def start(*answers, token="", **options):
        server, slept = ScriptedServer(*answers), []
        source = FixedSource(server.url, token)
        api = ApiServer(source, per_s=1000, burst=1000, sleep=slept.append, dice=random.Random(1), **options)
        made.append((api, server))
        return api, server, slept

    yield start
    for api, server in made:
        api.close()
        server.close()


def event(kind: str, version: str) -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"resourceVersion": version}}}).encode() + b"\n"


def watch(api, **more):
    return list(api.watch(PODS, labels="a=b", version="7", **{"seconds": 300, "silence_s": 5, **more}))


def test_a_request_says_what_it_is_and_who_asks(talk):
    api, server, _ = talk((201, {"metadata": {"uid": "u"}}), token="secret")
    answer, body = api.call("POST", PODS, {"kind": "Pod"})
    assert (answer.next_step, body["metadata"]["uid"]) == ("done", "u")
    assert server.asked == [("POST", PODS, {}, {"kind": "Pod"})]
    assert api.counts.requests == {("POST", 201): 1}


def test_its_connections_are_kept_alive(talk):
    """A watch's as well: all come from one pool."""
    api, server, _ = talk((200, {}))
    api.call("GET", PODS)
    kept = api._source.current().client.rest_client.pool_manager.connection_from_url(server.url).pool.queue[-1].sock
    idle_s = kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    assert kept.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) and idle_s == 15
    assert kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("said", [DROP, (500, {"message": "etcd"}), (502, b"<html>"), (200, b"{half"), (504, {})])
def test_what_may_have_happened_is_never_asked_twice(talk, said):
    api, server, _ = talk(said)
    with pytest.raises(Unavailable):
        api.call("POST", PODS, {})
    assert len(server.asked) == 1


def test_what_the_rate_limit_held_up_for_too_long_is_not_sent(talk):
    api, server, _ = talk((201, {}))
    with pytest.raises(Unavailable, match="held this request up"):
        api.call("POST", PODS, {}, not_after=time.monotonic() - 0.1)
    assert server.asked == []
    assert api.call("POST", PODS, {}, not_after=time.monotonic() + 60)[0].next_step == "done"


def test_a_race_is_tried_again_with_jitter(talk):
    race = failure(409, "Conflict", "resourcequotas were modified")
    api, server, slept = talk(race, race, (201, {}))
    assert api.call("POST", PODS, {})[0].next_step == "done"
    assert len(server.asked) == 3 and len(slept) == 2 and slept[0] != slept[1]


def test_a_race_that_does_not_end_is_given_up(talk):
    api, server, _ = talk(*[failure(409, "Conflict", "modified")] * 4)
    with pytest.raises(Unavailable, match="modified"):
        api.call("PATCH", PODS, {})
    assert len(server.asked) == 4


def test_what_is_wrong_is_told_in_the_servers_words(talk):
    api, *_ = talk(failure(422, "Invalid", "spec.x: Invalid value"))
    with pytest.raises(Rejected, match=r"spec\.x: Invalid value"):
        api.call("POST", PODS, {})


def test_what_the_caller_handles_comes_back(talk):
    api, *_ = talk(failure(409, "AlreadyExists", "taken"), failure(404, "NotFound", "no"))
    assert api.call("POST", PODS, {}, handles=("exists",))[0].next_step == "exists"
    assert api.call("GET", PODS, handles=("gone",))[0].next_step == "gone"


def test_a_server_that_wants_peace_gets_it(talk):
    api, *_ = talk(failure(429, "TooManyRequests", "later", **{"Retry-After": "1"}), (200, {}))
    with pytest.raises(Unavailable):
        api.call("GET", PODS)
    began = time.monotonic()
    api.call("GET", PODS)
    assert time.monotonic() - began > 0.8


def test_without_the_right_to_create_only_creating_pauses(talk):
    api, server, _ = talk(failure(403, "Forbidden", "cannot create resource"), (200, {}))
    for _ in range(3):
        with pytest.raises(Unavailable):
            api.call("POST", PODS, {})
    assert api.call("GET", PODS)[0].next_step == "done"
    assert [verb for verb, *_ in server.asked] == ["POST", "GET"]


def test_creating_pauses_for_longer_only_while_it_is_refused(talk, monkeypatch):
    refused = failure(403, "Forbidden", "cannot create resource")
    api, _, _ = talk(*[refused] * 6, (200, {}), refused)
    now, pauses = [1000.0], []
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for _ in range(8):
        with suppress(Unavailable):
            api.call("POST", PODS, {})
        pauses.append(api._no_creates_until - now[0])
        now[0] += 60
    assert pauses[:6] == [2, 4, 8, 16, 30, 30] and pauses[7] == 2


def page(*names, version="9", more=""):
    meta = {"resourceVersion": version} | ({"continue": more} if more else {})
    return 200, {"metadata": meta, "items": [{"metadata": {"name": name}} for name in names]}


def test_a_list_is_read_page_by_page_and_never_from_a_cache(talk):
    api, server, _ = talk(page("a", more="t1"), page("b", version="10"))
    listed = api.list_all(PODS, labels="a=b")
    assert ([item["metadata"]["name"] for item in listed.items], listed.version) == (["a", "b"], "10")
    asked = [query for *_, query, _ in server.asked]
    assert asked == [
        {"limit": "500", "labelSelector": "a=b"},
        {"limit": "500", "labelSelector": "a=b", "continue": "t1"},
    ]


def test_a_list_that_grew_too_old_begins_anew(talk):
    api, *_ = talk(page("a", more="t1"), failure(410, "Expired", "too old"), page("a", more="t2"), page("b"))
    assert [item["metadata"]["name"] for item in api.list_all(PODS).items] == ["a", "b"]


def test_too_old_is_unavailable_for_who_asked_from_no_version(talk):
    api, *_ = talk(failure(410, "Expired", "too old"))
    with pytest.raises(Unavailable):
        api.call("GET", f"{PODS}/one")


def test_a_watch_goes_on_from_the_lists_version_and_asks_for_bookmarks(talk):
    pieces = event("ADDED", "8"), event("MODIFIED", "9")[:20], event("MODIFIED", "9")[20:] + event("BOOKMARK", "30")
    api, server, _ = talk(stream(*pieces))
    assert [each["type"] for each in watch(api)] == ["ADDED", "MODIFIED", "BOOKMARK"]
    assert server.asked[0][2] == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
        "labelSelector": "a=b",
    }


def test_events_come_as_they_happen(talk):
    end = threading.Event()
    api, *_ = talk(stream(event("ADDED", "8"), then=end))
    events = api.watch(PODS, labels="", version="7", seconds=300, silence_s=5)
    assert next(events)["type"] == "ADDED"
    end.set()
    assert list(events) == []


def test_a_watch_that_falls_silent_is_broken(talk):
    end = threading.Event()
    api, *_ = talk(stream(event("ADDED", "8"), then=end))
    began = time.monotonic()
    with pytest.raises(Unavailable):
        watch(api, silence_s=0.3)
    assert time.monotonic() - began < 3
    end.set()


def test_a_watch_that_trickles_on_after_its_end_is_broken(talk):
    end = threading.Event()

    def trickle(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while not end.wait(0.1):
            handler.wfile.write(b"1\r\n \r\n")

    api, *_ = talk(trickle)
    began = time.monotonic()
    with pytest.raises(Unavailable):
        watch(api, seconds=0.5, silence_s=0.5)
    assert time.monotonic() - began < 5
    end.set()


@pytest.mark.parametrize(
    "said", [DROP, stream(event("ADDED", "8")[:20]), (500, {}), failure(429, "", "", **{"Retry-After": "1"})]
)
def test_a_watch_that_breaks_is_unavailable(talk, said):
    api, *_ = talk(said)
    with pytest.raises(Unavailable):
        watch(api)


def test_a_watch_from_too_long_ago_is_expired(talk):
    api, *_ = talk(failure(410, "Expired", "too old resource version"))
    with pytest.raises(Expired):
        watch(api)


def test_credentials_that_are_refused_are_given_back_and_the_request_is_not_repeated(talk):
    api, server, _ = talk(failure(401, "Unauthorized", "Unauthorized"), failure(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(NoRight, match="Unauthorized"):
        api.call("GET", PODS)
    with pytest.raises(Unavailable):
        watch(api)
    assert (api._source.refused, len(server.asked)) == (2, 2)


def test_the_token_goes_with_each_request(talk):
    def say_who(handler):
        handler.say(200, {"who": handler.headers["Authorization"], "by": handler.headers["User-Agent"]})

    api, *_ = talk(say_who, token="secret")
    assert api.call("GET", PODS)[1] == {"who": "Bearer secret", "by": "tessera"}


CLASS = "/apis/storage.k8s.io/v1/storageclasses/nfs"


def test_a_typed_call_is_limited_counted_and_judged_as_any_other(talk):
    found = {"metadata": {"name": "nfs"}, "provisioner": "nfs", "reclaimPolicy": "Retain"}
    api, server, _ = talk((200, found), failure(404, "NotFound", "no"), failure(403, "Forbidden", "cannot"), DROP)
    classes = api.typed(StorageV1Api)
    assert classes.read_storage_class("nfs").reclaim_policy == "Retain"
    for kind in (Gone, NoRight, Unavailable):
        with pytest.raises(kind):
            classes.read_storage_class("nfs")
    assert [(verb, path) for verb, path, *_ in server.asked] == [("GET", CLASS)] * 4
    assert api.counts.requests == {("GET", 200): 1, ("GET", 404): 1, ("GET", 403): 1, ("GET", 0): 1}


def test_a_typed_answer_of_another_shape_is_no_answer(talk):
    api, *_ = talk((200, {"provisioner": 7}))
    with pytest.raises(Unavailable, match="not understood"):
        api.typed(StorageV1Api).read_storage_class("nfs")
