"""API of team quotas and one's own limits."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from cluster.models import HighPriority
from common.resources import show_cpu, show_gpu, show_memory
from jobs.models import Job
from jobs.pricing.price import Price, load_prices
from jobs.states import JOB_ACTIVE
from notebooks.services import list_other_starts
from portal.access.redacted_rows import team_ids_in_sight
from portal.api.http.fields import Amount, amount, moment
from portal.api.view import ApiView
from portal.wording.changes import describe_return
from portal.wording.priority import describe_price
from quotas.models import RESOURCES, Holding, Quota, add_amounts, list_subtree, load_parents
from quotas.services import load_limits

NOTHING = (0, 0, 0)
SHOW = {"gpu_milli": show_gpu, "cpu_milli": show_cpu, "memory_mib": show_memory}


class Line(serializers.Serializer):
    """One resource. gpu in thousandths of a card, cpu of a core, memory in MiB. limit.value null = no limit."""

    used = Amount()
    guarantee = Amount()
    limit = Amount()


class Hours(serializers.FloatField):
    """With one digit after the point."""

    def to_representation(self, value: float) -> float:
        return round(value, 1)


class BudgetShape(serializers.Serializer):
    """In GPU hours of this week. ran: at high priority. asked: by jobs of high priority that wait or run."""

    total = Hours()
    ran = Hours()
    asked = Hours()
    left = Hours()
    refills_at = serializers.DateTimeField()


class HighPriorityShape(serializers.Serializer):
    """What high priority costs. leads: who can give their consent, besides admins. budget: null if it is not the price.
    text: all of it in a sentence.
    """

    price = serializers.ChoiceField(HighPriority.choices, source="kind")
    leads = serializers.ListField(child=serializers.CharField())
    budget = BudgetShape(allow_null=True)
    text = serializers.SerializerMethodField()

    def get_text(self, price: Price) -> str:
        return describe_price(price)


class ThenLine(serializers.Serializer):
    guarantee = Amount(required=False)
    limit = Amount(required=False)


class ThenShape(serializers.Serializer):
    """What a quota returns to at `until`: only what is another by then. ends: the team has no quota then. text: all of
    it in a sentence.
    """

    gpu = ThenLine(required=False)
    cpu = ThenLine(required=False)
    memory = ThenLine(required=False)
    weight = serializers.IntegerField(required=False)
    cell = serializers.IntegerField(required=False)
    ends = serializers.BooleanField()
    text = serializers.CharField()


class QuotaShape(serializers.Serializer):
    """until, then: null for a quota that lasts."""

    team = serializers.CharField()
    pool = serializers.CharField()
    gpu = Line()
    cpu = Line()
    memory = Line()
    weight = serializers.IntegerField()
    cell = serializers.IntegerField()
    until = serializers.DateTimeField(allow_null=True)
    then = ThenShape(allow_null=True)
    high_priority = HighPriorityShape()


class UsedOf(serializers.Serializer):
    used = Amount()
    limit = Amount()


class OwnLimits(serializers.Serializer):
    """Over all pools. jobs_running, jobs_waiting and notebooks_running are counts."""

    gpu = UsedOf()
    cpu = UsedOf()
    memory = UsedOf()
    jobs_running = UsedOf()
    jobs_waiting = UsedOf()
    notebooks_running = UsedOf()


class QuotaList(serializers.Serializer):
    results = QuotaShape(many=True)
    me = OwnLimits()
    next_cursor = serializers.CharField(allow_null=True)


class Quotas(ApiView):
    scopes = {"GET": ("cluster:read",)}
    operations = {"GET": "list_quotas"}

    @extend_schema(responses=QuotaList)
    def get(self, request: Request) -> Response:
        """List quotas by team and pool, with what the team and its subteams hold now."""
        rows = quota_lines(request.user)
        return Response({"results": rows, "me": load_user_limits(request.user), "next_cursor": None})


def quota_lines(user: User) -> list[dict[str, Any]]:
    quotas = Quota.objects.select_related("team", "pool")
    in_sight = team_ids_in_sight(user)
    if in_sight is not None:
        quotas = quotas.filter(team__in=in_sight)
    held, parents = Holding.objects.live().totals_by("team", "pool"), load_parents()
    prices = load_prices([(quota.team, quota.pool) for quota in quotas])
    return [
        {
            "team": quota.team.name,
            "pool": quota.pool.name,
            **_lines(
                add_amounts(held.get((team, quota.pool_id), NOTHING) for team in list_subtree(quota.team_id, parents)),
                quota,
            ),
            "weight": quota.weight,
            "cell": quota.cell,
            "until": moment(quota.until),
            "then": _then(quota) if quota.until else None,
            "high_priority": HighPriorityShape(price).data,
        }
        for quota, price in zip(quotas, prices, strict=True)
    ]


def load_user_limits(user: User) -> dict[str, Any]:
    limits = load_limits(user)
    mine, jobs = Holding.objects.live().filter(user=user).totals(), Job.objects.filter(user=user)
    counts = {"jobs_running": jobs.filter(state__in=JOB_ACTIVE).count(), "jobs_waiting": jobs.waiting().count()}
    counts["notebooks_running"] = list_other_starts(user).count()
    return {
        **{
            _short(name): {"used": amount(used, SHOW[name]), "limit": amount(limits[name], SHOW[name])}
            for name, used in zip(RESOURCES, mine, strict=True)
        },
        **{name: {"used": amount(used, str), "limit": amount(limits[name], str)} for name, used in counts.items()},
    }


def _lines(used: tuple[int, int, int], quota: Quota) -> dict[str, Any]:
    values = zip(RESOURCES, used, quota.guarantees(), quota.limits(), strict=True)
    return {
        _short(name): {
            "used": amount(held, SHOW[name]),
            "guarantee": amount(guarantee, SHOW[name]),
            "limit": amount(limit, SHOW[name]),
        }
        for name, held, guarantee, limit in values
    }


def _then(quota: Quota) -> dict[str, Any]:
    found: dict[str, Any] = {"ends": quota.then is None, "text": describe_return(quota)}
    for name, value in (quota.then or {}).items():
        stored, _underscore, kind = name.rpartition("_")
        if stored in SHOW:
            found.setdefault(_short(stored), {})[kind] = amount(value, SHOW[stored])
        else:
            found[name] = value
    return found


def _short(resource: str) -> str:
    return resource.partition("_")[0]
