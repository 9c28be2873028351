"""What we do about each answer of the API server, as one pure table (PROMISES 5.3).

The two words of the runtimes are in it: Unavailable (do nothing, the next round repairs) and Rejected (end the task).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Deed = Literal[
    "done",  # it is so
    "exists",  # the name is taken: read it, and compare who it is
    "gone",  # there is no such thing; of a POST: no such namespace
    "again",  # somebody else changed it meanwhile: at once again, with jitter
    "unknown",  # it may have happened: read before asking once more
    "slow",  # the server wants less of us, for so many seconds
    "no_room",  # the namespace's quota is full: later, and ever more seldom
    "no_right",  # our rights lack: alarm, create nothing for a while, go on watching
    "expired",  # the version is too old: list anew
    "reject",  # what we ask for is wrong, and will be tomorrow
]

SLOW_S = 1.0
SLOWEST_S = 60.0


@dataclass(frozen=True)
class Answer:
    """words: the server's own. after_s: with "slow"."""

    deed: Deed
    words: str = ""
    after_s: float = 0.0


def read_answer(verb: str, status: int, body: Mapping[str, object], headers: Mapping[str, str] = {}) -> Answer:
    """verb: GET, POST, PATCH, DELETE. body: the answer's JSON, a `Status` where it is no success. headers: in lower
    case."""
    words, reason = str(body.get("message", ""))[:1000] or f"HTTP {status}", str(body.get("reason", ""))
    if 200 <= status < 300:
        return Answer("done")
    if status == 409:
        return Answer("exists" if verb == "POST" and reason == "AlreadyExists" else "again", words)
    if status == 404:
        return Answer("gone", words)
    if status == 410:
        return Answer("expired", words)
    if status == 429 or status == 503:
        return Answer("slow", words, _after(headers))
    if status == 403 and "exceeded quota" in words:
        return Answer("no_room", words)
    if status == 403 and _is_judgement(words):
        return Answer("reject", words)
    if status == 403 and ("error looking up service account" in words or "being terminated" in words):
        return Answer("unknown", words)  # the namespace is coming up, or going
    if status in (401, 403):
        return Answer("no_right", words)
    if status in (400, 413, 415, 422):
        return Answer("reject", words)
    return Answer("unknown", words)


def read_failure(error: Exception) -> Answer:
    """No answer came, or half of one: nobody knows whether it happened."""
    return Answer("unknown", f"{type(error).__name__}: {error}"[:300])


def _is_judgement(words: str) -> bool:
    """403 by an admission rule is about what we send; any other is about who we are."""
    return "violates PodSecurity" in words or "ValidatingAdmissionPolicy" in words or "is forbidden: maximum" in words


def _after(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "")
    return min(max(float(text), SLOW_S), SLOWEST_S) if text.isdecimal() else SLOW_S
