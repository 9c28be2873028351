"""Decide what becomes of a service's replicas. Pure functions of what was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from jobs.jobfile.serving import Serving
from services.canaries.judging import Breach, Trial, judge_canary

DOWN_AFTER = timedelta(seconds=60)
"""How long fewer replicas must have been enough before one ends."""
DRAIN_AT_LEAST = timedelta(seconds=3)
"""Gateways may send requests by what they read a second ago, and say a second later that they did."""
DRAIN_AT_MOST = timedelta(seconds=60)
BACK_OFF = (timedelta(seconds=5), timedelta(seconds=30), timedelta(seconds=120))
"""Before the next replica, after each crash in a row; one more, and the revision has failed."""
STABLE_S = 600.0
"""A replica that was ready for so long ends a row of crashes."""


@dataclass(frozen=True)
class ReplicaSeen:
    """revision: its id. in_flight: requests that gateways passed to it. preemptible: others may stop it."""

    pk: int
    revision: int
    ready: bool
    in_flight: int = 0
    draining_at: datetime | None = None


@dataclass(frozen=True)
class ServiceSeen:
    """A service, and its replicas whose jobs have not ended.

    serving, retry_at, failed: of the revision that is scaled. in_flight: requests of the service that gateways hold or
    passed on; None if no gateway says how many. trial: of the rollout, while it is a canary. The moments are those of
    `services.models.Service`.
    """

    serving: Serving
    current: int
    rollout: int | None
    stopped: bool
    woken_at: datetime | None
    busy_at: datetime | None
    low_since: datetime | None
    in_flight: int | None
    replicas: tuple[ReplicaSeen, ...] = ()
    retry_at: datetime | None = None
    failed: bool = False
    trial: Trial | None = None

    @property
    def scaled(self) -> int:
        """The revision that has as many replicas as the requests need: not a canary, which has one."""
        return self.current if self.rollout is None or self.trial else self.rollout


@dataclass(frozen=True)
class Plan:
    """start: whether each new replica of the scaled revision may be stopped for others. drain, end: replicas' ids.

    start_canary: whether the canary gets its replica. begin_trial: whether its time begins. back: why it goes back, if
    it does. end_trial: whether it passed. promote: whether the rollout becomes the current revision. busy_at,
    low_since: what is remembered. awake: whether there is anything to do for it.
    """

    start: tuple[bool, ...] = ()
    start_canary: bool = False
    begin_trial: bool = False
    back: Breach | None = None
    end_trial: bool = False
    drain: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    promote: bool = False
    busy_at: datetime | None = None
    low_since: datetime | None = None
    awake: bool = True


def decide(seen: ServiceSeen, now: datetime) -> Plan:
    """Return the steps that lead to as many replicas as the requests need."""
    busy_at = now if seen.in_flight else seen.busy_at
    kept = [one for one in seen.replicas if one.draining_at is None]
    mine = [one for one in kept if one.revision == seen.scaled]
    canary = [one for one in kept if seen.trial and one.revision == seen.rollout]
    others = [one for one in kept if one not in mine and one not in canary]
    need = count_needed(seen, len(mine), now)
    low_since = (seen.low_since or now) if need < len(mine) else None
    surplus = _choose_surplus(mine, need) if _may_shrink(seen, need, low_since, now) else []
    known = seen.in_flight is not None
    rolls_out = seen.rollout is not None and seen.trial is None
    promote = rolls_out and _can_promote(mine, others, need, known=known)
    out = others if promote or not rolls_out or seen.stopped else []
    back = judge_canary(seen.trial, now) if seen.trial else None
    no_canary = canary if back or not need else canary[1:]
    return Plan(
        start=_plan_starts(seen, len(mine), need, now),
        start_canary=back is None and _needs_canary(seen, len(canary), need, now),
        begin_trial=seen.trial is not None and seen.trial.since is None and any(one.ready for one in canary),
        back=back,
        end_trial=back is None and known and _has_passed(seen.trial, now),
        drain=tuple(one.pk for one in [*surplus, *out, *no_canary]),
        end=tuple(one.pk for one in seen.replicas if is_drained(one, known=known, now=now)),
        promote=promote,
        busy_at=busy_at if need or seen.in_flight else None,
        low_since=None if surplus else low_since,
        awake=bool(need or seen.in_flight),
    )


def count_needed(seen: ServiceSeen, running: int, now: datetime) -> int:
    """Return how many replicas of the scaled revision there should be. running: how many there are."""
    if seen.stopped:
        return 0
    least, most = seen.serving.replicas
    if seen.in_flight is None:  # nobody says: no fewer than there are
        return min(max(least, running, 1 if _is_awake(seen, now) else 0), most)
    asked = ceil(seen.in_flight / seen.serving.target)
    return min(max(least, asked, 1 if _is_awake(seen, now) else 0), most)


def is_drained(replica: ReplicaSeen, *, known: bool, now: datetime) -> bool:
    """Whether a draining replica may end. known: whether gateways say what is in flight."""
    if replica.draining_at is None:
        return False
    since = now - replica.draining_at
    if not replica.ready:
        return True
    return since >= DRAIN_AT_MOST or (known and replica.in_flight == 0 and since >= DRAIN_AT_LEAST)


def count_crash(crashes: int, ready_s: float) -> tuple[int, timedelta | None]:
    """Return the crashes in a row after one more, and the wait before the next start; None: the revision has failed.

    ready_s: how long the replica had been ready.
    """
    crashes = 1 if ready_s >= STABLE_S else crashes + 1
    return crashes, BACK_OFF[crashes - 1] if crashes <= len(BACK_OFF) else None


def _is_awake(seen: ServiceSeen, now: datetime) -> bool:
    last = max((at for at in (seen.busy_at, seen.woken_at) if at is not None), default=None)
    return last is not None and now - last < timedelta(seconds=seen.serving.idle_s)


def _plan_starts(seen: ServiceSeen, running: int, need: int, now: datetime) -> tuple[bool, ...]:
    """Return for each new replica whether it may be stopped for others: what is beyond the least may."""
    if seen.failed or (seen.retry_at is not None and now < seen.retry_at):
        return ()
    return tuple(place >= seen.serving.replicas[0] for place in range(running, need))


def _needs_canary(seen: ServiceSeen, running: int, need: int, now: datetime) -> bool:
    """Whether the canary gets its replica: a further one, which others may stop, while the service is awake."""
    if seen.trial is None or running or not need:
        return False
    return seen.trial.retry_at is None or now >= seen.trial.retry_at


def _has_passed(trial: Trial | None, now: datetime) -> bool:
    """Whether a canary's time is over and all that it answered is known."""
    return trial is not None and trial.has_ended(now) and trial.answered is not None


def _may_shrink(seen: ServiceSeen, need: int, low_since: datetime | None, now: datetime) -> bool:
    if low_since is None:
        return False
    # To sleep, `idle` was waited for already.
    return seen.stopped or need == 0 or now - low_since >= DOWN_AFTER


def _choose_surplus(replicas: Sequence[ReplicaSeen], need: int) -> list[ReplicaSeen]:
    """Choose those whose end costs the least: what is not ready, then what has the fewest requests, newest first."""
    return sorted(replicas, key=lambda one: (one.ready, one.in_flight, -one.pk))[: max(len(replicas) - need, 0)]


def _can_promote(mine: Sequence[ReplicaSeen], others: Sequence[ReplicaSeen], need: int, *, known: bool) -> bool:
    """Whether the new revision can take the place of the old one without fewer ready replicas than are needed.

    known: whether gateways say what is in flight.
    """
    ready, were_ready = sum(one.ready for one in mine), sum(one.ready for one in others)
    if need == 0 and (known or not others):
        return True  # asleep, or about to be: the next request wakes the new one
    return ready >= max(1, min(need, were_ready))
