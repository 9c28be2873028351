"""A reflector, against a server that says what it is told to."""

import json
import random
import threading
import time

import pytest

from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.client import ApiServer
from runtimes.kubernetes.watch.reflectors import Reflector, trim_pod
from tests.runtimes.kubernetes.scripted import DROP, FixedSource, ScriptedServer, failure, stream
from tests.runtimes.worlds import wait_for


class Scene:
    def __init__(self, *answers, **options):
        self.end = threading.Event()
        self.server = ScriptedServer(*answers, stream(then=self.end), *[DROP] * 50)
        self.api = ApiServer(FixedSource(self.server.url), per_s=1000, burst=1000)
        self.changed = threading.Event()
        known = {"dice": random.Random(1), "silence_s": 30.0}
        self.reflector = Reflector("pods", self.api, "/pods", "a=b", trim_pod, self.changed, **known | options)
        self.reflector.start()

    def names(self) -> set[str]:
        return {thing["metadata"]["name"] for thing in self.reflector.list_objects()}

    def asked(self) -> list[str]:
        """ "list", or the version from which a watch went on."""
        return [query.get("resourceVersion", "list") for *_, query, _ in self.server.asked]

    def close(self):
        self.reflector.end()
        self.end.set()
        self.api.close()
        self.server.close()


@pytest.fixture
def scene():
    made = []

    def start(*answers, **options):
        made.append(Scene(*answers, **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


def thing(name: str, version: int) -> dict:
    return {"metadata": {"namespace": "a", "name": name, "resourceVersion": str(version)}, "spec": {}}


def pods(version: int, *names: str):
    return 200, {"metadata": {"resourceVersion": str(version)}, "items": [thing(name, version) for name in names]}


def event(kind: str, name: str, version: int) -> bytes:
    return json.dumps({"type": kind, "object": thing(name, version)}).encode() + b"\n"


def test_it_lists_and_then_watches_from_the_lists_version(scene):
    now = scene(pods(7, "x"), stream(event("ADDED", "y", 8)))
    wait_for(lambda: now.asked()[:3] == ["list", "7", "8"])
    assert now.names() == {"x", "y"} and now.changed.is_set()


def test_a_cut_stream_goes_on_where_it_was(scene):
    now = scene(pods(7, "x"), stream(event("ADDED", "y", 8), event("ADDED", "z", 9)[:10]))
    wait_for(lambda: now.asked()[:3] == ["list", "7", "8"])
    assert now.names() == {"x", "y"} and now.reflector.restarts["unavailable"] == 1


@pytest.mark.parametrize(
    "said",
    [failure(410, "Expired", "too old"), stream(b'{"type":"ERROR","object":{"code":410,"message":"too old"}}\n')],
    ids=["as an answer", "inside a stream"],
)
def test_a_version_that_is_too_old_means_a_new_list_with_what_is_missing(scene, said):
    now = scene(pods(7, "x", "y"), said, pods(30, "y", "z"))
    wait_for(lambda: now.asked()[:4] == ["list", "7", "list", "30"])
    assert now.names() == {"y", "z"} and now.reflector.restarts["expired"] == 1


def test_a_silent_stream_is_left(scene):
    silent = threading.Event()
    now = scene(pods(7, "x"), stream(then=silent), silence_s=0.2)
    wait_for(lambda: now.asked()[:3] == ["list", "7", "7"])
    silent.set()


def test_a_server_that_is_away_is_asked_ever_more_seldom_and_the_view_ages(scene):
    now = scene(DROP, failure(500, "InternalError", "etcd"), DROP, pods(7, "x"))
    with pytest.raises(Unavailable, match="not known yet"):
        now.reflector.list_objects()
    wait_for(lambda: len(now.asked()) >= 2)
    assert now.reflector.age_s() > 0
    wait_for(lambda: now.asked()[:4] == ["list"] * 4 and len(now.asked()) > 4)
    assert now.names() == {"x"} and now.reflector.age_s() < 5


def test_an_old_list_is_not_believed(scene):
    now = scene(pods(7, "x"), failure(410, "Expired", "too old"), pods(3), pods(9, "y"))
    wait_for(lambda: now.asked()[:5] == ["list", "7", "list", "list", "9"])
    assert now.names() == {"y"}


def test_an_answer_that_nobody_can_read_does_not_end_it(scene):
    now = scene((200, {"items": [{}], "metadata": {"resourceVersion": "1"}}), pods(7, "x"))
    wait_for(lambda: now.asked()[:3] == ["list", "list", "7"])
    assert now.names() == {"x"} and now.reflector.restarts["unreadable"] == 1


def test_watches_that_end_at_once_are_no_storm(scene):
    now = scene(pods(7, "x"), stream(), stream(), stream())
    wait_for(lambda: now.asked()[:5] == ["list", "7", "7", "7", "7"])
    assert now.reflector.restarts["unavailable"] == 3


@pytest.fixture
def beside(scene):
    """A watch that goes on until `over`, and beside it a list of this version."""
    over = threading.Event()

    def start(version: int, *things: dict, **options):
        watched = stream(event("ADDED", "y", 8), event("DELETED", "w", 9), then=over)
        told = 200, {"metadata": {"resourceVersion": str(version)}, "items": list(things)}
        now = scene(pods(7, "w", "x"), watched, told, pods(40, "z"), **{"check_every_s": 0.3} | options)
        wait_for(lambda: now.asked()[:3] == ["list", "7", "list"])
        return now

    yield start, over
    over.set()


def test_a_list_beside_the_events_that_knows_nothing_else_changes_nothing(beside):
    start, over = beside
    now = start(9, thing("x", 7), thing("y", 8), check_every_s=1.0)
    time.sleep(0.2)
    over.set()
    wait_for(lambda: "9" in now.asked())
    assert now.names() == {"x", "y"}


@pytest.mark.parametrize("there", [("x", "y", "z"), ("y",)], ids=["something came", "something went"])
def test_what_no_event_told_means_a_new_list(beside, caplog, there):
    start, over = beside
    now = start(9, *[thing(name, 8) for name in there])
    wait_for(lambda: "no event told" in caplog.text)
    assert now.names() == {"x", "y"}  # heard on meanwhile
    over.set()
    wait_for(lambda: now.names() == {"z"})


def test_events_that_stay_behind_a_list_mean_a_new_one(beside, caplog):
    start, over = beside
    now = start(30, thing("x", 7), thing("y", 8), behind_s=0.3)
    wait_for(lambda: "are behind a list" in caplog.text)
    over.set()
    wait_for(lambda: now.names() == {"z"})


def test_what_a_program_is_does_not_stay_in_memory():
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    pod = thing("x", 1) | {
        "spec": {"nodeName": "n1", "containers": [{"command": ["x" * 9000]}]},
        "status": {"phase": "Running", "qosClass": "x", "containerStatuses": [{"name": "main", "state": state}]},
    }
    left = trim_pod(pod)
    assert left["spec"] == {"nodeName": "n1"} and left["metadata"]["name"] == "x"
    assert left["status"] == {"phase": "Running", "conditions": [], "containerStatuses": [{"state": state}]}
    assert trim_pod(left) == left
