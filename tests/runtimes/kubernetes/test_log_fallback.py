"""The log of an ended pod that no agent brought, fetched before the pod is forgotten."""

from datetime import UTC, datetime, timedelta

import pytest

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.watch.log_fallback import fetch_log
from runtimes.log_masking import LogMask
from runtimes.log_store import LogStore

TASK = "a" * 32


class Server:
    """In the API server's place. said: the log, or an exception."""

    def __init__(self, said):
        self.said, self.asked = said, []

    def read_log(self, path, most):
        self.asked.append(path)
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.fixture
def store(tmp_path) -> LogStore:
    return LogStore(tmp_path)


def ended_pod(ago: timedelta = timedelta(), *, ran: bool = True) -> dict:
    at = (datetime.now(UTC) - ago).isoformat()
    done = {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}
    status = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": done}}]}
    return {
        "metadata": {"name": f"t-{TASK}", "namespace": "tessera-team-20000", "labels": {names.LABEL_TASK: TASK}},
        "spec": {"nodeName": "g1"},
        "status": status if ran else {"phase": "Failed"},
    }


def test_it_is_fetched_once(store):
    server = Server(b"one\ntwo\n")
    fetch_log(server, ended_pod(), store)
    fetch_log(server, ended_pod(), store)
    assert store.read(TASK, 0)[0] == b"one\ntwo\n"
    assert server.asked == [f"/api/v1/namespaces/tessera-team-20000/pods/t-{TASK}/log"]


def test_what_a_task_was_given_of_secrets_is_masked(store):
    fetch_log(Server(b"it is c4nary-f00d!\n"), ended_pod(), store, LogMask(["c4nary-f00d"]))
    assert store.read(TASK, 0)[0] == b"it is ***********!\n"


def test_what_an_agent_brought_is_left_as_it_is(store):
    store.append(TASK, 0, b"brought\n")
    fetch_log(Server(b"other\n"), ended_pod(), store)
    assert store.read(TASK, 0)[0] == b"brought\n"


def test_a_pod_that_never_ran_has_none(store):
    server = Server(b"")
    fetch_log(server, ended_pod(ran=False), store)
    assert server.asked == []


@pytest.mark.parametrize(
    "said",
    [
        Rejected("not found"),
        b"unable to retrieve container logs for containerd://b2",
        b'failed to try resolving symlinks in path "/0.log": no such file',
    ],
)
def test_a_log_that_is_gone_holds_up_nothing(store, said):
    fetch_log(Server(said), ended_pod(), store)
    assert store.size(TASK) == 0


def test_a_kubelet_that_does_not_answer_is_waited_for_but_not_for_ever(store):
    away = Server(Unavailable("no route"))
    with pytest.raises(Unavailable):
        fetch_log(away, ended_pod(), store)
    fetch_log(away, ended_pod(timedelta(minutes=11)), store)
