"""API that takes alerts from an Alertmanager."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import FieldError, InvalidInput
from monitoring.alerts.foreign import MOST_ALERTS, VERSION, Brought, take_foreign_alerts
from portal.api.http.bodies import JSON, read_json
from portal.api.view import ApiView

NEVER = datetime(1, 1, 2, tzinfo=UTC)
"""An Alertmanager writes the zero time, 0001-01-01, for no end."""
MOST_URL = 2000


class BroughtShape(serializers.Serializer):
    """status: firing or resolved."""

    status = serializers.ChoiceField(["firing", "resolved"])
    labels = serializers.DictField(child=serializers.CharField(allow_blank=True))  # type: ignore[assignment]
    annotations = serializers.DictField(child=serializers.CharField(allow_blank=True), default=dict)
    startsAt = serializers.DateTimeField()
    endsAt = serializers.DateTimeField(required=False, allow_null=True)
    generatorURL = serializers.CharField(max_length=MOST_URL, allow_blank=True, default="")


class AlertmanagerAsk(serializers.Serializer):
    """What an Alertmanager's webhook sends, version 4. Other fields of it are not read."""

    version = serializers.CharField(max_length=10)
    externalURL = serializers.CharField(max_length=MOST_URL, allow_blank=True, default="")
    alerts = serializers.ListField(child=BroughtShape(), max_length=MOST_ALERTS)


class Taken(serializers.Serializer):
    taken = serializers.IntegerField()


class AlertsFromAlertmanager(ApiView):
    scopes = {"POST": ("alerts:write",)}
    operations = {"POST": "take_alertmanager_alerts"}

    @extend_schema(request={JSON: AlertmanagerAsk}, responses=Taken)
    def post(self, request: Request) -> Response:
        """Show an Alertmanager's alerts on the page *Alerts*: to the token's owner, administrators and auditors. Name
        it as `webhook_configs` with the token as `http_config.authorization.credentials`. Alerts that came from here
        are left out.
        """
        sent = read_json(request, AlertmanagerAsk)
        if sent["version"] != VERSION:
            about = {"got": sent["version"], "allowed": [VERSION]}
            raise InvalidInput([FieldError("/version", "unknown_value", about)])
        alerts = [_read(place, one) for place, one in enumerate(sent["alerts"])]
        return Response({"taken": take_foreign_alerts(user=request.user, source=sent["externalURL"], alerts=alerts)})


def _read(place: int, sent: dict[str, Any]) -> Brought:
    end = sent.get("endsAt")
    is_over = sent["status"] == "resolved"
    ended = (end if end is not None and end > NEVER else sent["startsAt"]) if is_over else None
    return Brought(sent["labels"], sent["annotations"], sent["startsAt"], ended, sent["generatorURL"], place)
