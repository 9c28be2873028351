"""Manage the webhooks of people and teams."""

import uuid

from django.conf import settings
from django.db import models, transaction
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Now

from accounts.models import Membership, Team, TeamRole, User
from accounts.permissions import may, require
from common.errors import Conflict, FieldError, InvalidInput, NotFound, QuotaExceeded
from common.safe_http import check_url
from common.text import check_name
from events.models import Event
from events.notices import notify
from events.record_and_publish import SYSTEM, hint_sender, record
from webhooks.delivery_queue import resume_webhook
from webhooks.formats import WITH_SECRET
from webhooks.models import Delivery, Format, Webhook
from webhooks.signing import seal_chat_secret, secret_of

MOST_WEBHOOKS, MOST_TOPICS, MOST_SECRET = 20, 20, 200
TOPIC_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz_.")


def webhooks_of(user: User) -> models.QuerySet[Webhook]:
    """Return the user's webhooks and those of teams they lead, with team_name and maker_name."""
    led = Membership.objects.filter(user=user, role=TeamRole.LEAD).values("team")
    found = Webhook.objects.filter(Q(team_id__isnull=True, user_id=user.pk) | Q(team_id__in=led))
    return found.annotate(
        team_name=Subquery(Team.objects.filter(pk=OuterRef("team_id")).values("name")),
        maker_name=Subquery(User.objects.filter(pk=OuterRef("user_id")).values("username")),
    )


def find_webhook(user: User, webhook_id: int) -> Webhook:
    webhook = webhooks_of(user).filter(pk=webhook_id).first()
    if webhook is None:
        raise NotFound(kind="webhook", id=webhook_id)
    return webhook


def find_delivery(user: User, webhook_id: int, delivery_id: int) -> Delivery:
    rows = find_webhook(user, webhook_id).deliveries.select_related("webhook")
    delivery = rows.filter(pk=delivery_id).first()
    if delivery is None:
        raise NotFound(kind="delivery", id=delivery_id)
    return delivery


@transaction.atomic
def create_webhook(
    *,
    actor: User,
    name: str,
    url: str,
    topics: list[str],
    team: Team | None,
    format: str = Format.CLOUDEVENTS,
    chat_secret: str = "",
) -> tuple[Webhook, str]:
    """Return a new webhook and its secret, shown only once. team: None for one's own. chat_secret: of a chat's bot."""
    if team is not None:
        require(actor, "webhook.change", team)
    _check(name=name, url=url, topics=topics, format=format, chat_secret=chat_secret)
    own = Q(team_id=team.pk) if team else Q(team_id__isnull=True, user_id=actor.pk)
    used = Webhook.objects.filter(own).count()
    if used >= MOST_WEBHOOKS:
        raise QuotaExceeded(what="webhooks", used=used, limit=MOST_WEBHOOKS)
    webhook = Webhook.objects.create(
        user_id=actor.pk,
        team_id=team.pk if team else None,
        name=name,
        url=url,
        topics=sorted(set(topics)),
        format=format,
        sealed=seal_chat_secret(chat_secret) if format in WITH_SECRET else "",
    )
    _record(webhook, "created", actor)
    return webhook, secret_of(webhook)


@transaction.atomic
def change_webhook(*, actor: User, webhook: Webhook, enabled: bool | None = None, **fields) -> Webhook:
    """Change name, url, topics, format, a chat's secret, or switch it; who switches a team's on becomes its maker.

    chat_secret: "" keeps the previous one.
    """
    _require(actor, webhook)
    _check(**fields)
    secret = fields.pop("chat_secret", "")
    if fields.get("format", webhook.format) not in WITH_SECRET:
        fields |= {"sealed": ""} if webhook.sealed else {}
    elif secret:
        fields["sealed"] = seal_chat_secret(secret)
    if "topics" in fields:
        fields["topics"] = sorted(set(fields["topics"]))
    if enabled is True:
        fields |= {"disabled_at": None, "disabled_why": "", "rests_until": None, "user_id": actor.pk}
    elif enabled is False and webhook.disabled_at is None:
        fields |= {"disabled_at": Now(), "disabled_why": "by_hand"}
    if fields:
        Webhook.objects.filter(pk=webhook.pk).update(**fields)
        _record(webhook, "changed", actor, fields=sorted(fields))
    if enabled is False:
        _drop_deliveries(webhook)
    return Webhook.objects.get(pk=webhook.pk)


@transaction.atomic
def change_secret(*, actor: User, webhook: Webhook) -> str:
    """Replace the signing secret at once, and return it."""
    _require(actor, webhook)
    Webhook.objects.filter(pk=webhook.pk).update(salt=uuid.uuid4())
    _record(webhook, "secret_changed", actor)
    webhook.refresh_from_db()
    return secret_of(webhook)


@transaction.atomic
def delete_webhook(*, actor: User, webhook: Webhook) -> None:
    _require(actor, webhook)
    webhook = _lock(webhook)
    _record(webhook, "deleted", actor)
    webhook.delete()


@transaction.atomic
def redeliver(*, actor: User, delivery: Delivery) -> Delivery:
    """Queue the delivery's event once more."""
    _require(actor, delivery.webhook)
    same = {"webhook_id": delivery.webhook_id, "event_id": delivery.event_id, "data": delivery.data}
    again = Delivery.objects.create(**same, due_at=Now())
    return _send_now(again)


@transaction.atomic
def try_webhook(*, actor: User, webhook: Webhook) -> Delivery:
    """Send a "webhook.tested" event, whatever the topics. Raises Conflict where it is off."""
    _require(actor, webhook)
    webhook = _lock(webhook)
    if webhook.disabled_at is not None:
        raise Conflict("webhook_off")
    event = _record(webhook, "tested", actor)
    delivery, _ = Delivery.objects.get_or_create(webhook=webhook, event=event, defaults={"due_at": Now()})
    return _send_now(delivery)


@transaction.atomic
def disable_webhook(*, webhook: Webhook, why: str) -> None:
    """Switch off a webhook and notify its owner or leads. why: failing, gone, maker_left."""
    if not Webhook.objects.filter(pk=webhook.pk, disabled_at=None).update(disabled_at=Now(), disabled_why=why):
        return
    _drop_deliveries(webhook)
    record(webhook, "disabled", actor=SYSTEM, params={"why": why})
    for user_id in _list_responsible(webhook):
        notify(user_id=user_id, kind="webhook_disabled", about=webhook, params={"name": webhook.name, "why": why})


def is_maker_allowed(webhook: Webhook) -> bool:
    """Whether its maker is active, and for a team's webhook still a lead."""
    user = User.objects.filter(pk=webhook.user_id, suspended_at__isnull=True).first()
    if user is None or webhook.team_id is None:
        return user is not None
    team = Team.objects.filter(pk=webhook.team_id).first()
    return team is not None and may(user, "webhook.change", team)


def _send_now(delivery: Delivery) -> Delivery:
    """Send at once, even to an address paused after failures."""
    resume_webhook(delivery.webhook_id)
    hint_sender()
    return Delivery.objects.select_related("event", "webhook").get(pk=delivery.pk)


def _list_responsible(webhook: Webhook) -> list[int]:
    if webhook.team_id is None:
        return [webhook.user_id]
    leads = Membership.objects.filter(team_id=webhook.team_id, role=TeamRole.LEAD, user__suspended_at__isnull=True)
    return list(leads.values_list("user_id", flat=True))


def _require(actor: User, webhook: Webhook) -> None:
    if webhook.team_id is not None:
        require(actor, "webhook.change", Team.objects.get(pk=webhook.team_id))


def _lock(webhook: Webhook) -> Webhook:
    locked = Webhook.objects.select_for_update().filter(pk=webhook.pk).first()
    if locked is None:
        raise NotFound(kind="webhook", id=webhook.pk)
    return locked


def _check(
    *,
    name: str | None = None,
    url: str | None = None,
    topics: list[str] | None = None,
    format: str | None = None,
    chat_secret: str = "",
) -> None:
    if format is not None and format not in Format.values:
        raise InvalidInput(
            [FieldError("/format", "unknown_value", {"got": format[:40], "allowed": list(Format.values)})]
        )
    if len(chat_secret) > MOST_SECRET or not chat_secret.isprintable():
        raise InvalidInput([FieldError("/chat_secret", "bad_chat_secret", {"max": MOST_SECRET})])
    if name is not None:
        check_name(name)
    if url is not None:
        check_url(url, settings.TESSERA_WEBHOOK_PRIVATE)
    if topics is not None:
        _check_topics(topics)


def _check_topics(topics: list[str]) -> None:
    if len(topics) > MOST_TOPICS:
        raise InvalidInput([FieldError("/topics", "too_many", {"got": len(topics), "max": MOST_TOPICS})])
    for place, topic in enumerate(topics):
        if not topic or len(topic) > 60 or not set(topic) <= TOPIC_LETTERS:
            raise InvalidInput([FieldError(f"/topics/{place}", "bad_topic")])


def _drop_deliveries(webhook: Webhook) -> None:
    webhook.deliveries.filter(due_at__isnull=False).update(due_at=None, claimed_until=None, error="disabled")


def _record(webhook: Webhook, verb: str, actor: User, **params: object) -> Event:
    return record(webhook, verb, actor=actor.as_actor, params={"name": webhook.name, **params})
