"""Where gateways count what services answered: one hash of the cache for each service and slot, to which all add.

Counts may be lost, with the cache or a process, and never doubled: what could not be sent is not sent again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import cast

from redis.exceptions import RedisError

from common.cache_server import cache_server
from services.traffic import SLOT_S, Slot, Traffic

KEPT_S = 900
COUNTS = "services:traffic:{}:{}"
REQUESTS, ERRORS = "requests", "errors"
Counted = tuple[int, int, str | int]
"""A service's id, a revision's, and REQUESTS, ERRORS or a bucket of times."""


def add_counts(counts: Mapping[Counted, int], now: float) -> None:
    """Add what a process counted since it last did. now: in seconds since 1970. Raises RedisError."""
    pipe = cache_server().pipeline(transaction=True)
    slot = floor_slot(now)
    for (service, revision, what), n in counts.items():
        pipe.hincrby(COUNTS.format(service, slot), f"{revision}:{what}", n)
    for service in {service for service, _, _ in counts}:
        pipe.expire(COUNTS.format(service, slot), KEPT_S + 2 * SLOT_S)
    pipe.execute()


def read_slots(service: int, since: float, now: float) -> list[Slot] | None:
    """Return the slots of a service that began at `since` or later, KEPT_S at most, oldest first; None if unknown."""
    found = read_slots_of([service], since, now)
    return None if found is None else found[service]


def read_slots_of(services: Collection[int], since: float, now: float) -> dict[int, list[Slot]] | None:
    """Return the same of several services, in one question."""
    first = max(floor_slot(since - 0.001) + SLOT_S, floor_slot(now - KEPT_S))
    slots = range(first, floor_slot(now) + 1, SLOT_S)
    pipe = cache_server().pipeline(transaction=False)
    for service in services:
        for slot in slots:
            pipe.hgetall(COUNTS.format(service, slot))
    try:
        found = iter(cast(list[dict[bytes, bytes]], pipe.execute()))
    except RedisError:
        return None
    return {service: [Slot(slot, _read(next(found))) for slot in slots] for service in services}


def floor_slot(moment: float) -> int:
    """Return when the slot began in which a moment lies."""
    return int(moment // SLOT_S) * SLOT_S


def _read(counts: Mapping[bytes, bytes]) -> dict[int, Traffic]:
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for name, n in counts.items():
        revision, _, what = name.decode().partition(":")
        found[int(revision)][what] = int(n)
    return {
        revision: Traffic(
            requests=of.pop(REQUESTS, 0), errors=of.pop(ERRORS, 0), times={int(bucket): n for bucket, n in of.items()}
        )
        for revision, of in found.items()
    }
