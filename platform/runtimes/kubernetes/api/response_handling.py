"""What to do after each answer of the API server, as one pure table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

NextStep = Literal[
    "done",  # success
    "exists",  # the name is taken: compare
    "gone",  # not found; after a POST: no such namespace
    "again",  # conflict: retry at once, with jitter
    "unknown",  # it may have happened: read first
    "slow",  # throttled
    "no_room",  # the namespace's quota is full
    "no_right",  # forbidden: pause creations, keep watching
    "expired",  # resourceVersion too old: list again
    "reject",  # invalid request: never retry
]

SLOW_S = 1.0
SLOWEST_S = 60.0


@dataclass(frozen=True)
class Answer:
    """A classified answer. words: the server's message. after_s: set for "slow"."""

    next_step: NextStep
    words: str = ""
    after_s: float = 0.0


def read_answer(verb: str, status: int, body: Mapping[str, object], headers: Mapping[str, str] = {}) -> Answer:
    """Classify an HTTP answer. body: its JSON, a `Status` on failure. headers: their case does not matter."""
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
        return Answer("slow", words, _read_retry_after(headers))
    if status == 403 and "exceeded quota" in words:
        return Answer("no_room", words)
    if status == 403 and _is_about_content(words):
        return Answer("reject", words)
    if status == 403 and ("error looking up service account" in words or "being terminated" in words):
        return Answer("unknown", words)  # the namespace is starting or ending
    if status in (401, 403):
        return Answer("no_right", words)
    if status in (400, 413, 415, 422):
        return Answer("reject", words)
    return Answer("unknown", words)


def read_failure(error: Exception) -> Answer:
    """Classify a request without a complete answer: it may have happened."""
    return Answer("unknown", f"{type(error).__name__}: {error}"[:300])


def _is_about_content(words: str) -> bool:
    """Return whether admission refused the content, not our rights."""
    return "violates PodSecurity" in words or "ValidatingAdmissionPolicy" in words or "is forbidden: maximum" in words


def _read_retry_after(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "")
    return min(max(float(text), SLOW_S), SLOWEST_S) if text.isdecimal() else SLOW_S
