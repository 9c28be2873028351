"""Canaries of services: what is seen of one, and what is written as it begins, passes and goes back.

The callers hold the service's lock.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from events.notices import notify
from events.record_and_publish import SYSTEM, publish_row, record
from services.canaries.judging import RECENT_S, Answered, Breach, Trial
from services.models import Replica, Revision, Service
from services.traffic import sum_slots
from services.traffic_counts import read_slots

NOTICE = "service_failed"
WENT_BACK = "went_back"
"""The code of a revision's `why`, beside the fields of a breach."""


def see_trial(service: Service, now: datetime) -> Trial | None:
    """Return what is seen of a service's canary; None if it has none."""
    canary = service.canary
    if canary is None or canary.serving.canary is None:
        return None
    answered = load_answered(service, canary, now) if service.canary_since else ()
    return Trial(canary.serving.canary, service.canary_since, answered, canary.retry_at)


def load_answered(service: Service, canary: Revision, now: datetime) -> tuple[Answered, ...] | None:
    """Return what a canary and the good revision answered since it is ready, and lately; None if it is not known."""
    since = service.canary_since or now
    slots = read_slots(service.pk, since.timestamp(), now.timestamp())
    if slots is None:
        return None
    return tuple(
        Answered(sum_slots(slots, span, canary.pk), sum_slots(slots, span, service.current_id))
        for span in (0.0, now.timestamp() - RECENT_S)
    )


def begin_trial(service: Service, now: datetime) -> None:
    """Let the time of a canary run, whose replica is ready now."""
    Service.objects.filter(pk=service.pk).update(canary_since=now)
    service.canary_since = now
    record(service, "tried", actor=SYSTEM, params={"revision": service.newest.number})


def end_trial(service: Service) -> None:
    """Let a canary that passed take over as any other revision does: once it has the replicas that are needed."""
    Service.objects.filter(pk=service.pk).update(canary_passed=True)
    service.canary_passed = True
    record(service, "passed", actor=SYSTEM, params={"revision": service.newest.number})


def go_back(service: Service, replicas: Sequence[Replica], breach: Breach, now: datetime) -> None:
    """Give a canary up; the good revision answers all requests again."""
    bad = service.newest
    job = next((one.job.public_id for one in reversed(replicas) if one.revision_id == bad.pk), "")
    why = {"code": WENT_BACK, "job": job, **asdict(breach)}
    Revision.objects.filter(pk=bad.pk).update(failed_at=now, why=why)
    Service.objects.filter(pk=service.pk).update(rollout=None)
    service.rollout = None
    record(service, WENT_BACK, actor=SYSTEM, params={"revision": bad.number, **asdict(breach)})
    tell_owner(service, bad, why)
    publish_row(service)


def tell_owner(service: Service, bad: Revision, why: dict) -> None:
    """Tell a service's owner that a revision of it failed or went back. why: as the revision stores it."""
    params = {"name": service.name, "revision": bad.number, "why": why}
    notify(user_id=service.user_id, kind=NOTICE, about=service, params=params)
