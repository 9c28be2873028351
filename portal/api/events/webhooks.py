"""API of webhooks and their deliveries."""

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.safe_http import MAX_URL
from jobs.submit import find_team
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import full_url
from portal.api.http.lists import PageQuery, list_of, page
from portal.api.view import ApiView, read_query
from webhooks.models import Delivery, Format, Webhook
from webhooks.services import (
    MOST_SECRET,
    MOST_TOPICS,
    change_secret,
    change_webhook,
    create_webhook,
    delete_webhook,
    find_delivery,
    find_webhook,
    redeliver,
    try_webhook,
    webhooks_of,
)

SCOPE = ("webhooks:write",)


class WebhookShape(serializers.Serializer):
    """team: null for one's own. topics: kinds or types of events, none means all. format: what the receiver reads.
    disabled_why: by_hand, failing, gone (it answered 410), maker_left."""

    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    url = serializers.CharField()
    topics = serializers.ListField(child=serializers.CharField())
    format = serializers.ChoiceField(Format.choices)  # type: ignore[assignment]
    has_chat_secret = serializers.SerializerMethodField()
    team = serializers.CharField(source="team_name", allow_null=True)
    user = serializers.CharField(source="maker_name", allow_null=True)
    enabled = serializers.SerializerMethodField()
    disabled_at = serializers.DateTimeField(allow_null=True)
    disabled_why = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()

    def get_has_chat_secret(self, webhook: Webhook) -> bool:
        return bool(webhook.sealed)

    def get_enabled(self, webhook: Webhook) -> bool:
        return webhook.disabled_at is None


class NewWebhookShape(WebhookShape):
    """secret: shown only in this answer. It is the key of X-Tessera-Signature."""

    secret = serializers.CharField()


class WebhookAsk(serializers.Serializer):
    """team: one that you lead; left out, it is your own, for your own events. format: what the receiver reads; an
    Alertmanager is sent alerts alone. chat_secret: that DingTalk or Feishu shows for its bot, kept encrypted.
    """

    name = serializers.CharField(max_length=64)
    url = serializers.CharField(max_length=MAX_URL)
    topics = serializers.ListField(child=serializers.CharField(max_length=60), max_length=MOST_TOPICS, default=list)
    team = serializers.CharField(max_length=64, required=False)
    format = serializers.ChoiceField(Format.choices, default=Format.CLOUDEVENTS)  # type: ignore[assignment]
    chat_secret = serializers.CharField(max_length=MOST_SECRET, allow_blank=True, required=False)


class WebhookChange(serializers.Serializer):
    """What is left out stays as it is. enabled: switch it off or on."""

    name = serializers.CharField(max_length=64, required=False)
    url = serializers.CharField(max_length=MAX_URL, required=False)
    topics = serializers.ListField(child=serializers.CharField(max_length=60), max_length=MOST_TOPICS, required=False)
    format = serializers.ChoiceField(Format.choices, required=False)  # type: ignore[assignment]
    chat_secret = serializers.CharField(max_length=MOST_SECRET, allow_blank=True, required=False)
    enabled = serializers.BooleanField(required=False)


class DeliveryShape(serializers.Serializer):
    """state: waiting, sent, or failed for good. status: of the last answer. error: of the last try: refused, timeout,
    unreachable, unresolved, tls, forbidden_address, chat_refused, chat_too_fast, not_an_alert, disabled,
    not_permitted. next_at: of the next try."""

    id = serializers.IntegerField(source="pk")
    event = serializers.IntegerField(source="event_id")
    type = serializers.CharField(source="event.type")
    object = serializers.CharField(source="event.label")
    state = serializers.SerializerMethodField()
    attempts = serializers.IntegerField()
    status = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    took_ms = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    tried_at = serializers.DateTimeField(allow_null=True)
    next_at = serializers.DateTimeField(allow_null=True)

    def get_state(self, delivery: Delivery) -> str:
        return "waiting" if delivery.due_at else "sent" if delivery.sent_at else "failed"


class Webhooks(ApiView):
    scopes = {"GET": SCOPE, "POST": SCOPE}
    operations = {"GET": "list_webhooks", "POST": "create_webhook"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[PageQuery], responses=list_of(WebhookShape, "WebhookPage"))
    def get(self, request: Request) -> Response:
        """List one's own webhooks and those of teams that one leads, newest first."""
        return page(webhooks_of(request.user), read_query(request, PageQuery), WebhookShape)

    @extend_schema(request={JSON: WebhookAsk}, responses={201: OpenApiResponse(NewWebhookShape)})
    def post(self, request: Request) -> Response:
        """Create a webhook. It gets each event as CloudEvents 1.0 JSON by POST, at least once, for up to a day until
        it answers 2xx; an event keeps its `id`. X-Tessera-Signature is "sha256=" and the hexadecimal HMAC-SHA256 over
        X-Tessera-Timestamp, a dot and the body, with the secret as key.
        """
        asked = read_json(request, WebhookAsk)
        name = asked.pop("team", None)
        team = find_team(request.user, name) if name else None
        webhook, secret = create_webhook(actor=request.user, team=team, **asked)
        return _show_secret(find_webhook(request.user, webhook.pk), secret, status=201)


class WebhookDetail(ApiView):
    scopes = {"GET": SCOPE, "PATCH": SCOPE, "DELETE": SCOPE}
    operations = {"GET": "get_webhook", "PATCH": "change_webhook", "DELETE": "delete_webhook"}

    @extend_schema(responses=WebhookShape)
    def get(self, request: Request, webhook_id: int) -> Response:
        return Response(WebhookShape(find_webhook(request.user, webhook_id)).data)

    @extend_schema(request={JSON: WebhookChange}, responses=WebhookShape)
    def patch(self, request: Request, webhook_id: int) -> Response:
        """Change it, or switch it off or on. Whoever switches on a team's answers for it from then on."""
        webhook = find_webhook(request.user, webhook_id)
        change_webhook(actor=request.user, webhook=webhook, **read_json(request, WebhookChange))
        return Response(WebhookShape(find_webhook(request.user, webhook_id)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "It is gone, with its list of deliveries.")})
    def delete(self, request: Request, webhook_id: int) -> Response:
        delete_webhook(actor=request.user, webhook=find_webhook(request.user, webhook_id))
        return Response(status=204)


class WebhookSecret(ApiView):
    scopes = {"POST": SCOPE}
    operations = {"POST": "change_webhook_secret"}

    @extend_schema(request=None, responses=NewWebhookShape)
    def post(self, request: Request, webhook_id: int) -> Response:
        """Replace the secret; the old one signs no more."""
        webhook = find_webhook(request.user, webhook_id)
        return _show_secret(webhook, change_secret(actor=request.user, webhook=webhook))


class WebhookTest(ApiView):
    scopes = {"POST": SCOPE}
    rates = {"POST": ("sends",)}
    operations = {"POST": "try_webhook"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses={201: OpenApiResponse(DeliveryShape)})
    def post(self, request: Request, webhook_id: int) -> Response:
        """Send it an event of type webhook.tested, whatever its topics. 409 while it is switched off."""
        delivery = try_webhook(actor=request.user, webhook=find_webhook(request.user, webhook_id))
        return Response(DeliveryShape(delivery).data, status=201)


class Deliveries(ApiView):
    scopes = {"GET": SCOPE}
    operations = {"GET": "list_deliveries"}

    @extend_schema(parameters=[PageQuery], responses=list_of(DeliveryShape, "DeliveryPage"))
    def get(self, request: Request, webhook_id: int) -> Response:
        """List deliveries, newest first. Kept for 30 days."""
        rows = find_webhook(request.user, webhook_id).deliveries.select_related("event")
        return page(rows, read_query(request, PageQuery), DeliveryShape)


class Redeliver(ApiView):
    scopes = {"POST": SCOPE}
    rates = {"POST": ("sends",)}
    operations = {"POST": "redeliver"}

    @extend_schema(request=None, responses={201: OpenApiResponse(DeliveryShape)})
    def post(self, request: Request, webhook_id: int, delivery_id: int) -> Response:
        """Send the same event again, as a new delivery."""
        delivery = find_delivery(request.user, webhook_id, delivery_id)
        return Response(DeliveryShape(redeliver(actor=request.user, delivery=delivery)).data, status=201)


def _show_secret(webhook: Webhook, secret: str, status: int = 200) -> Response:
    shown: dict[str, Any] = {**WebhookShape(webhook).data, "secret": secret}
    return Response(shown, status=status, headers={"Location": full_url("api-webhook", webhook_id=webhook.pk)})
