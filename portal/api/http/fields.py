"""Fields and values shared by shapes."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Choices
from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from cluster.models import NodeState, Pool
from common.errors import FieldError, InvalidInput
from common.resources import show_place
from common.text import shorten_text
from jobs.models import Priority
from jobs.reason_messages import describe_wait
from jobs.states import JobState, TaskState

EARLIEST = datetime.min.replace(tzinfo=UTC)


class Span(serializers.Serializer):
    """Adds `from`, which Python cannot name, before the other fields; it is as `to` is."""

    to = serializers.DateTimeField()

    def get_fields(self) -> dict[str, serializers.Field]:
        fields = super().get_fields()
        return {"from": serializers.DateTimeField(required=fields["to"].required), **fields}


def one_of(words: Iterable[str]) -> dict[str, Any]:
    """Describe a closed list of words. Not "enum", for which drf-spectacular makes up components."""
    return {"type": "string", "oneOf": [{"const": word} for word in words]}


def _lower_case(choices: type[Choices]) -> type[serializers.CharField]:
    @extend_schema_field(one_of(value.lower() for value in choices.values))
    class LowerCase(serializers.CharField):
        """Read only."""

        def to_representation(self, value: str) -> str:
            return value.lower()

    return LowerCase


JobStateField = _lower_case(JobState)
TaskStateField = _lower_case(TaskState)
NodeStateField = _lower_case(NodeState)


class Amount(serializers.Serializer):
    """A quantity in its base unit, and in words. `value` null with text "" means no limit or unknown."""

    value = serializers.IntegerField(allow_null=True)
    text = serializers.CharField(allow_blank=True)


@extend_schema_field(Amount)
class AmountField(serializers.ReadOnlyField):
    """A number or None, as an Amount."""

    def __init__(self, show: Callable[[int], str], **options: Any):
        super().__init__(**options)
        self.show = show

    def get_attribute(self, instance: object) -> dict[str, Any]:
        return amount(super().get_attribute(instance), self.show)


@extend_schema_field(str)
class PlaceField(serializers.ReadOnlyField):
    """A card's index: "3", or "1:0" for a MIG instance."""

    def __init__(self, **options: Any):
        super().__init__(source="index", **options)

    def to_representation(self, index: int) -> str:
        return show_place(index)


@extend_schema_field({"type": "string", "maxLength": 32})
class PoolField(serializers.Field):
    """A pool by name. Write only. Raises InvalidInput with the known ones."""

    def to_internal_value(self, data: Any) -> Pool:
        known = {pool.name: pool for pool in Pool.objects.all()}
        if not isinstance(data, str) or data not in known:
            unknown = {"pool": shorten_text(str(data)), "known": list(known)}
            raise InvalidInput([FieldError(f"/{self.field_name}", "unknown_pool", unknown)])
        return known[data]


class Reason(serializers.Serializer):
    """Why a job waits. `code` and `params` never change with the language; `text` is for people."""

    code = serializers.CharField()
    params = serializers.DictField()
    text = serializers.CharField()


class Links(serializers.Serializer):
    """Full addresses of this object and of its page."""

    self = serializers.CharField()  # type: ignore[assignment]
    html = serializers.CharField()


def amount(value: int | None, show: Callable[[int], str]) -> dict[str, Any]:
    return {"value": value, "text": "" if value is None else show(value)}


def moment(value: datetime | None) -> str | None:
    """RFC 3339 in UTC."""
    return None if value is None else serializers.DateTimeField().to_representation(value)


def priority_word(priority: int) -> str:
    return Priority(priority).name.lower()


def show_reasons(reasons: Iterable[dict]) -> list[dict[str, Any]]:
    return [{"code": r["code"], "params": r.get("params", {}), "text": describe_wait(r)} for r in reasons]


def full_url(name: str, /, **parts: object) -> str:
    return settings.TESSERA_PUBLIC_URL + reverse(name, kwargs=parts)


def go_back(at: datetime, by: timedelta) -> datetime:
    """Return the moment that much earlier, or the first that there is."""
    return max(at, EARLIEST + by) - by
