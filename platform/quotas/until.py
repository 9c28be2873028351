"""Quotas that hold until a moment: what they return to then. Pure, but for the row that is given."""

from collections.abc import Iterable
from copy import copy
from datetime import datetime, timedelta
from typing import Literal

from common.errors import FieldError
from quotas.models import QUOTA_FIELDS, Quota

LONGEST = timedelta(days=366)
Until = datetime | Literal["kept"] | None
"""Until when what is changed holds. None: from now on. "kept": so does all that held until a moment."""


def plan_return(quota: Quota, before: Quota | None, until: Until) -> list[FieldError]:
    """Set what a changed quota returns to, and when; return what is wrong with that. before: None if there was none.

    A field that is changed without `until` lasts, and does not return; others still do.
    """
    if until == "kept":
        quota.until, quota.then = None, None
        return []
    if before is None:
        quota.until, quota.then = until, None
        return []
    was = {name: getattr(before, name) for name in QUOTA_FIELDS}
    changed = {name: value for name, value in was.items() if value != getattr(quota, name)}
    if until and not changed and not before.until:
        return [FieldError("/until", "nothing_until")]
    if before.until and before.then is None:
        quota.until, quota.then = until or (None if changed else before.until), None
        return []
    then = before.then or {}
    then = changed | then if until else {name: value for name, value in then.items() if name not in changed}
    then = {name: value for name, value in then.items() if value != getattr(quota, name)}
    quota.until, quota.then = (until or before.until, then) if then else (None, None)
    return []


def check_until(until: Until, now: datetime) -> list[FieldError]:
    """Return what is wrong with a moment."""
    if not isinstance(until, datetime):
        return []
    if until <= now:
        return [FieldError("/until", "until_past", {"until": until.timestamp()})]
    if until > now + LONGEST:
        return [FieldError("/until", "until_too_far", {"until": until.timestamp(), "days": LONGEST.days})]
    return []


def quota_at(quota: Quota, moment: datetime | None) -> Quota | None:
    """Return the quota as it will be, None if there is none then. moment: None is now."""
    if moment is None or quota.until is None or moment < quota.until:
        return quota
    if quota.then is None:
        return None
    after = copy(quota)
    put_back(after)
    return after


def put_back(quota: Quota) -> None:
    """Give the quota the values that it returns to."""
    for name, value in (quota.then or {}).items():
        setattr(quota, name, value)
    quota.until, quota.then = None, None


def list_moments(quotas: Iterable[Quota]) -> list[datetime]:
    """Return when any of them returns, first to last."""
    return sorted({quota.until for quota in quotas if quota.until})
