"""Remind people who are away of what they hold. Nothing is ever taken from them."""

import logging
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Max

from accounts.models import User
from common.locks import database_now, lock_rows
from events.models import Event
from events.notices import notify
from events.record_and_publish import SYSTEM, record
from monitoring.people.absence import is_due
from monitoring.people.loading import load_away

log = logging.getLogger("tessera.idle")

VERB = "away_reminded"
MOST_A_ROUND = 200


def remind_away() -> None:
    """Remind who is due, each in a transaction of their own."""
    now = database_now()
    away = load_away(now)
    reminded = load_reminders(one.user_id for one in away)
    due = [one for one in away if is_due(reminded.get(one.user_id), one, settings.TESSERA_AWAY_DAYS, now)]
    for one in due[:MOST_A_ROUND]:
        try:
            _remind(one.user_id)
        except DatabaseError as failed:  # of this person; the next round tries again
            log.warning("%s was not reminded: %s", one.username, failed)


def load_reminders(user_ids: Iterable[int]) -> dict[int, datetime]:
    """Return when people were last reminded, by id."""
    events = Event.objects.filter(kind=User.KIND, object_id__in=list(user_ids), verb=VERB).order_by()
    return dict(events.values_list("object_id").annotate(at=Max("at")))


@transaction.atomic
def _remind(user_id: int) -> None:
    """Remind a person, unless another worker has or they came back meanwhile: looked at again under their lock."""
    locked = lock_rows(User.objects.filter(pk=user_id))
    now = database_now()
    away = load_away(now, users=[user_id])
    last = load_reminders([user_id]).get(user_id)
    if not locked or not away or not is_due(last, away[0], settings.TESSERA_AWAY_DAYS, now):
        return
    params = {"days": away[0].count_days(now), **asdict(away[0].held)}
    record(locked[0], VERB, actor=SYSTEM, params=params)
    notify(user_id=user_id, kind="away", about=locked[0], params=params)
