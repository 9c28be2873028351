import pytest

from runtimes.kubernetes.api.response_handling import read_answer, read_failure

QUOTA = 'pods "t-1" is forbidden: exceeded quota: tessera, requested: pods=1, used: pods=5, limited: pods=5'
SECURITY = 'pods "t-1" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
NO_RIGHT = 'pods is forbidden: User "system:serviceaccount:x:y" cannot create resource "pods" in API group ""'
NO_ACCOUNT = 'pods "t-1" is forbidden: error looking up service account a/default: serviceaccount "default" not found'
CASES = {
    ("POST", 201, "", ""): "done",
    ("GET", 200, "", ""): "done",
    ("DELETE", 202, "", ""): "done",
    ("POST", 409, "AlreadyExists", "exists already"): "exists",
    ("POST", 409, "Conflict", "Operation cannot be fulfilled on resourcequotas"): "again",
    ("PATCH", 409, "Conflict", "the object has been modified"): "again",
    ("DELETE", 409, "Conflict", "Precondition failed: UID in precondition"): "again",
    ("DELETE", 404, "NotFound", "not found"): "gone",
    ("GET", 404, "NotFound", "not found"): "gone",
    ("POST", 404, "NotFound", 'namespaces "x" not found'): "gone",
    ("POST", 403, "Forbidden", QUOTA): "no_room",
    ("POST", 403, "Forbidden", SECURITY): "reject",
    ("POST", 403, "Forbidden", NO_RIGHT): "no_right",
    ("POST", 403, "Forbidden", NO_ACCOUNT): "unknown",
    ("GET", 401, "Unauthorized", "Unauthorized"): "no_right",
    ("GET", 410, "Expired", "too old resource version"): "expired",
    ("POST", 422, "Invalid", "spec.containers[0].image: Required value"): "reject",
    ("POST", 400, "BadRequest", "cannot be handled as a Pod"): "reject",
    ("POST", 429, "TooManyRequests", "later"): "slow",
    ("GET", 503, "ServiceUnavailable", "later"): "slow",
    ("POST", 500, "InternalError", "etcd"): "unknown",
    ("POST", 502, "", ""): "unknown",
    ("POST", 504, "Timeout", "request did not complete"): "unknown",
    ("POST", 302, "", ""): "unknown",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_what_an_answer_means(case):
    verb, status, reason, message = case
    answer = read_answer(verb, status, {"reason": reason, "message": message})
    assert answer.next_step == CASES[case]
    assert answer.next_step == "done" or answer.words == (message or f"HTTP {status}")


def test_no_answer_may_mean_that_it_happened():
    answer = read_failure(ConnectionResetError("by peer"))
    assert (answer.next_step, answer.words) == ("unknown", "ConnectionResetError: by peer")


@pytest.mark.parametrize(("told", "after_s"), [("3", 3.0), ("", 1.0), ("0", 1.0), ("86400", 60.0), ("Tue, 1 Jan", 1.0)])
def test_how_long_the_server_wants_peace(told, after_s):
    assert read_answer("GET", 429, {}, {"retry-after": told} if told else {}).after_s == after_s
