"""What events and statuses tell of an image that is being fetched, in the shapes of a kubelet."""

from datetime import UTC, datetime, timedelta

import pytest

from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.pods.causes import find_start_failure, strip_pull_prefix
from runtimes.kubernetes.watch.image_pulls import AGAIN_S, AT_ONCE, ImagePulls, find_newest_pull

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
BEGAN = NOW - timedelta(seconds=40)


def event(reason: str, minute: int, *, newer_kind=False) -> dict:
    at = f"2026-01-01T11:{minute:02d}:00Z"
    times = {"lastTimestamp": None, "eventTime": at.replace("Z", ".123456Z")} if newer_kind else {"lastTimestamp": at}
    return {"reason": reason, "metadata": {"creationTimestamp": at}, **times}


def pod(number=0, *, began=BEGAN, waits="ContainerCreating", node="n1", phase="Pending") -> dict:
    status = {"phase": phase, "startTime": began.isoformat().replace("+00:00", "Z")}
    status["containerStatuses"] = [{"state": {"waiting": {"reason": waits}}}]
    meta = {"uid": f"uid-{number}", "name": f"t-{number}", "namespace": "tessera-team-1"}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


class Events:
    """Stands where the API server's client does, and has the events that a test says."""

    def __init__(self, *events):
        self.events, self.asked = list(events), []

    def call(self, verb, path, *, query):
        self.asked.append((verb, path, query["fieldSelector"]))
        if not self.events:
            raise Unavailable("away")
        return None, {"items": self.events}


@pytest.mark.parametrize(
    ("events", "since"),
    [
        ([], None),
        ([event("Scheduled", 1), event("Pulling", 2)], 2),
        ([event("Pulling", 2, newer_kind=True)], 2),
        ([event("Pulled", 3), event("Pulling", 2)], None),
        ([event("Pulling", 2), event("Failed", 3)], None),
        ([event("Pulling", 5), event("Failed", 3)], 5),
    ],
)
def test_it_is_fetched_from_the_newest_beginning_until_its_end(events, since):
    found = find_newest_pull(events)
    assert found.replace(microsecond=0).minute == since if since else found is None


def test_only_what_is_slow_to_start_is_asked_about():
    events = Events(event("Pulling", 59))
    quick = [
        pod(began=NOW - timedelta(seconds=2)),
        pod(node=""),
        pod(waits="ImagePullBackOff"),
        pod(phase="Running"),
        {"metadata": {"uid": "x"}, "spec": {}},
    ]
    assert ImagePulls(events).list_pulls(quick, NOW) == {} and events.asked == []
    assert ImagePulls(events).list_pulls([pod()], NOW) == {"uid-0": datetime(2026, 1, 1, 11, 59, tzinfo=UTC)}
    assert events.asked == [("GET", "/api/v1/namespaces/tessera-team-1/events", "involvedObject.uid=uid-0")]
    assert ImagePulls(Events(event("Scheduled", 59))).list_pulls([pod()], NOW) == {"uid-0": None}


def test_many_are_asked_about_by_and_by_and_nobody_twice_before_all_were(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("runtimes.kubernetes.watch.image_pulls.time.monotonic", lambda: clock[0])
    events, pods = Events(event("Pulling", 59)), [pod(number) for number in range(3 * AT_ONCE)]
    pulls = ImagePulls(events)
    for list_pulls in range(1, 4):
        clock[0] += AGAIN_S + 1
        assert len(pulls.list_pulls(pods, NOW)) == list_pulls * AT_ONCE == len(set(events.asked)) == len(events.asked)
    pulls.list_pulls(pods, NOW + timedelta(seconds=1))
    assert len(events.asked) == 4 * AT_ONCE and len(set(events.asked)) == 3 * AT_ONCE
    clock[0] -= AGAIN_S  # a moment after the newest
    pulls.list_pulls(pods[-AT_ONCE:], NOW)
    assert len(events.asked) == 4 * AT_ONCE


def test_what_started_is_forgotten_and_an_engine_that_is_away_tells_nothing():
    events = Events(event("Pulling", 59))
    pulls = ImagePulls(events)
    assert pulls.list_pulls([pod()], NOW) and pulls.list_pulls([], NOW) == {} and not pulls._known
    assert ImagePulls(Events()).list_pulls([pod()], NOW) == {} and not ImagePulls(Events()).is_pulling(pod())
    assert ImagePulls(events).is_pulling(pod()) and not ImagePulls(Events(event("Pulled", 59))).is_pulling(pod())


def test_what_was_told_stands_when_events_are_kept_no_longer(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("runtimes.kubernetes.watch.image_pulls.time.monotonic", lambda: clock[0])
    events = Events(event("Pulling", 59))
    pulls = ImagePulls(events)
    first = pulls.list_pulls([pod()], NOW)
    clock[0] += AGAIN_S + 1
    events.events[:] = [event("Scheduled", 1)]
    assert pulls.list_pulls([pod()], NOW) == first


def test_a_long_pull_is_no_node_that_cannot_set_up_a_pod():
    """A kubelet says of both that the pod is not ready for its containers."""
    waits = {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": "2026-01-01T11:00:00Z"}
    slow = pod()
    slow["status"]["conditions"] = [waits]
    assert find_start_failure(slow, NOW)[0] == "refused_by_node"
    assert find_start_failure(slow, NOW, may_fetch=True) == ("", "")


PULL = 'failed to pull and unpack image "r:5000/none:1": '
SAID = {
    f"rpc error: code = NotFound desc = {PULL}failed to resolve image: r:5000/none:1: not found": (
        "r:5000/none:1: not found"
    ),
    f'Back-off pulling image "r:5000/none:1": ErrImagePull: {PULL}failed to resolve reference "r:5000/none:1": '
    "unexpected status from HEAD request to http://r:5000/v2/none/manifests/1: 401 Unauthorized": (
        "unexpected status from HEAD request to http://r:5000/v2/none/manifests/1: 401 Unauthorized"
    ),
    f'{PULL}failed to resolve image: failed to do request: Head "https://nohost.invalid/v2/x/manifests/1": dial tcp: '
    "lookup nohost.invalid: no such host": (
        'Head "https://nohost.invalid/v2/x/manifests/1": dial tcp: lookup nohost.invalid: no such host'
    ),
    'Back-off pulling image "r:5000/none:1"': 'Back-off pulling image "r:5000/none:1"',
    "registry says no": "registry says no",
    "": "",
}


@pytest.mark.parametrize("message", SAID)
def test_of_the_kubelets_words_the_registrys_are_kept(message):
    assert strip_pull_prefix(message) == SAID[message]
