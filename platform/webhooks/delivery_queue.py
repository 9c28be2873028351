"""The queue of deliveries of events: queued with the event, claimed by the sender, paused while a webhook fails."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Q
from django.db.models.functions import Now

from common.steady_clock import steady_now
from events.models import Event
from events.outgoing import PAUSES_S, claim_batches
from events.record_and_publish import TEAM_KINDS, hint_sender
from webhooks.models import Delivery, Webhook

KEPT = timedelta(days=30)
LONGEST_REST_S = 120
"""The longest pause of a webhook, after which it is tried again."""
ADDRESSED = frozenset({"alert"})
"""Kinds of objects whose events are queued by who makes them, for whom they name, with words of their own."""


@dataclass(frozen=True)
class Addressed:
    """An event for one webhook. data: what its body says besides the event."""

    webhook: Webhook
    event: Event
    data: dict


def queue_deliveries(events: Sequence[Event]) -> None:
    """Queue the deliveries of new events, in their transaction; `settings.TESSERA_EVENT_LISTENERS` names it."""
    events = [event for event in events if event.kind not in ADDRESSED]
    if not events:
        return
    own = Q(team_id__isnull=True, user_id__in={event.owner_id for event in events} - {None})
    of_team = Q(team_id__in={event.team_id for event in events if event.kind in TEAM_KINDS} - {None})
    listening = list(Webhook.objects.filter(own | of_team, disabled_at__isnull=True))
    wanted = [
        (webhook, event)
        for event in events
        for webhook in listening
        if _concerns_owner(webhook, event) and webhook.wants(event.type)
    ]
    if wanted:
        Delivery.objects.bulk_create(Delivery(webhook=webhook, event=event, due_at=Now()) for webhook, event in wanted)
        hint_sender()


def list_listening(user_ids: Collection[int], team_ids: Collection[int]) -> list[Webhook]:
    """Return the webhooks of people and of teams that are not disabled."""
    own, of_team = Q(team_id__isnull=True, user_id__in=user_ids), Q(team_id__in=team_ids)
    return list(Webhook.objects.filter(own | of_team, disabled_at__isnull=True))


def queue_addressed(addressed: Sequence[Addressed]) -> None:
    """Queue events for webhooks that were chosen already; their topics are asked here."""
    wanted = [one for one in addressed if one.webhook.wants(one.event.type)]
    if wanted:
        Delivery.objects.bulk_create(
            Delivery(webhook=one.webhook, event=one.event, data=one.data, due_at=Now()) for one in wanted
        )
        hint_sender()


def claim_deliveries() -> Iterator[list[Delivery]]:
    """Yield claimed batches of due deliveries, of webhooks that are not paused."""
    awake = Q(webhook__rests_until__isnull=True) | Q(webhook__rests_until__lte=Now())
    return claim_batches(Delivery.objects.filter(awake).select_related("webhook", "event"))


def pause_webhook(webhook: Webhook, attempts: int) -> None:
    """Pause a failing webhook, so that others go first."""
    pause = min(PAUSES_S[min(attempts, len(PAUSES_S)) - 1], LONGEST_REST_S)
    Webhook.objects.filter(pk=webhook.pk).update(rests_until=Now() + timedelta(seconds=pause))


def resume_webhook(webhook_id: int) -> None:
    """End a webhook's pause."""
    Webhook.objects.filter(pk=webhook_id, rests_until__isnull=False).update(rests_until=None)


def put_back(delivery: Delivery, seconds: float) -> None:
    """Let a claimed delivery wait, as if it had not been tried."""
    mine = Delivery.objects.filter(pk=delivery.pk, claim_no=delivery.claim_no)
    mine.update(due_at=Now() + timedelta(seconds=max(seconds, 1)), claimed_until=None, attempts=F("attempts") - 1)


def drop_old_deliveries() -> None:
    Delivery.objects.filter(due_at__isnull=True, created_at__lt=steady_now() - KEPT).delete()


def _concerns_owner(webhook: Webhook, event: Event) -> bool:
    """Whether the event is the webhook's user's or team's; its topics are asked elsewhere."""
    if webhook.team_id is None:
        return webhook.user_id == event.owner_id
    return webhook.team_id == event.team_id and event.kind in TEAM_KINDS
