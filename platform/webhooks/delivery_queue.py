"""The queue of deliveries of events: queued with the event, claimed by the sender, paused while a webhook fails."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from common.steady_clock import steady_now
from events.models import Event
from events.outgoing import PAUSES_S, claim_batches
from events.record_and_publish import TEAM_KINDS, hint_sender
from webhooks.models import Delivery, Webhook

KEPT = timedelta(days=30)
LONGEST_REST_S = 120
"""The longest pause of a webhook, after which it is tried again."""


def queue_deliveries(events: Sequence[Event]) -> None:
    """Queue the deliveries of new events, in their transaction; `settings.TESSERA_EVENT_LISTENERS` names it."""
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


def drop_old_deliveries() -> None:
    Delivery.objects.filter(due_at__isnull=True, created_at__lt=steady_now() - KEPT).delete()


def _concerns_owner(webhook: Webhook, event: Event) -> bool:
    """Whether the event is the webhook's user's or team's; its topics are asked elsewhere."""
    if webhook.team_id is None:
        return webhook.user_id == event.owner_id
    return webhook.team_id == event.team_id and event.kind in TEAM_KINDS
