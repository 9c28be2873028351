"""API of the caller's saved views of the list of jobs."""

from datetime import date
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from cluster.models import Pool
from common.errors import FieldError, InvalidInput
from common.text import shorten_text
from jobs.finding.list_query import DAYS, KINDS, LONGEST, SORTS, STATES, USUAL_SORT, WHOSE, ListQuery
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import moment, one_of
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query
from portal.models import SavedView
from portal.saved_views.store import delete_view, save_view

FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(8999, 12, 31)


class WordField(serializers.ChoiceField):
    """A choice whose refusal names what is possible. Raises InvalidInput."""

    def to_internal_value(self, data: Any) -> str:
        if isinstance(data, str) and data in self.choices:
            return data
        about = {"got": shorten_text(str(data)), "allowed": [word for word in self.choices if word]}
        raise InvalidInput([FieldError(f"/{self.field_name or self.parent.field_name}", "unknown_value", about)])


@extend_schema_field(one_of(KINDS))
class KindField(WordField):
    """ "" is all but the starts of notebooks."""


class SavedViewAsk(serializers.Serializer):
    """What is left out or empty does not matter. whose: "team" is all that the caller sees. days, since, until: when
    jobs were submitted; the last two are days, both included. q: as in GET /jobs. sort: "-" reverses it.
    """

    name = serializers.CharField(max_length=SavedView.NAME_MAX)
    whose = WordField(WHOSE, default="mine")
    kind = KindField(choices=KINDS, default="")
    state = serializers.ListField(child=WordField([*STATES]), max_length=len(STATES), default=[])
    pool = serializers.CharField(max_length=LONGEST["pool"], allow_blank=True, default="")
    label = serializers.CharField(max_length=LONGEST["label"], allow_blank=True, default="")  # type: ignore[assignment]
    owner = serializers.CharField(max_length=LONGEST["owner"], allow_blank=True, default="")
    days = WordField(["", *DAYS], default="")
    since = serializers.DateField(
        allow_null=True, default=None, validators=[MinValueValidator(FIRST_DAY), MaxValueValidator(LAST_DAY)]
    )
    until = serializers.DateField(
        allow_null=True, default=None, validators=[MinValueValidator(FIRST_DAY), MaxValueValidator(LAST_DAY)]
    )
    q = serializers.CharField(max_length=LONGEST["q"], allow_blank=True, default="")
    sort = WordField(SORTS, default=USUAL_SORT)


class SavedViewShape(serializers.Serializer):
    """A saved view of the list of jobs, as it was asked for. jobs: the query of GET /jobs that finds its jobs now, in
    the order of that list.
    """

    id = serializers.IntegerField()
    name = serializers.CharField()
    whose = serializers.ChoiceField(WHOSE, source="asks.whose")
    kind = KindField(choices=KINDS, source="asks.kind")
    state = serializers.ListField(child=serializers.ChoiceField([*STATES]), source="asks.state")
    pool = serializers.CharField(source="asks.pool", allow_blank=True)
    label = serializers.CharField(source="asks.label", allow_blank=True)  # type: ignore[assignment]
    owner = serializers.CharField(source="asks.owner", allow_blank=True)
    days = serializers.CharField(source="asks.days", allow_blank=True)
    since = serializers.DateField(source="asks.first", allow_null=True)
    until = serializers.DateField(source="asks.last", allow_null=True)
    q = serializers.CharField(source="asks.q", allow_blank=True)
    sort = serializers.CharField(source="asks.sort")
    created_at = serializers.DateTimeField()
    jobs = serializers.SerializerMethodField()

    @extend_schema_field(serializers.DictField(child=serializers.CharField()))
    def get_jobs(self, view: SavedView) -> dict[str, str]:
        return show_jobs_query(view.asks)


class SavedViews(ApiView):
    scopes = {"GET": ("jobs:read",), "POST": ("jobs:write",)}
    operations = {"GET": "list_saved_views", "POST": "save_view"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(SavedViewShape, "SavedViewList"))
    def get(self, request: Request) -> Response:
        """List one's own saved views of the list of jobs, by name."""
        views = SavedView.objects.filter(user=request.user)
        return all_of(views, SavedViewShape, **read_query(request, FieldsQuery))

    @extend_schema(
        request={JSON: SavedViewAsk},
        responses={
            200: OpenApiResponse(SavedViewShape, "The view that replaces one of the same name."),
            201: OpenApiResponse(SavedViewShape, "The new view."),
        },
    )
    def post(self, request: Request) -> Response:
        """Save filters and an order of the list of jobs under a name, for oneself; a view of that name is replaced."""
        asked = read_json(request, SavedViewAsk)
        view, new = save_view(request.user, asked.pop("name"), _read_query(asked))
        view.refresh_from_db()
        return Response(SavedViewShape(view).data, status=201 if new else 200)


class SavedViewDetail(ApiView):
    scopes = {"DELETE": ("jobs:write",)}
    operations = {"DELETE": "delete_saved_view"}

    @extend_schema(responses={204: OpenApiResponse(None, "It is deleted.")})
    def delete(self, request: Request, view_id: int) -> Response:
        """Delete one of one's own saved views. Its jobs are left as they are."""
        delete_view(request.user, view_id)
        return Response(status=204)


def show_jobs_query(asked: ListQuery) -> dict[str, str]:
    """Return what GET /jobs is asked for the same jobs."""
    found = asked.filter
    wanted: dict[str, Any] = {
        "owner": found.owner or ("me" if asked.whose == "mine" else ""),
        "state": ",".join(state.lower() for state in found.states),
        "pool": found.pool,
        "label": found.label,
        "kind": found.kind,
        "since": found.since and moment(found.since),
        "until": found.until and moment(found.until),
        "q": found.text,
    }
    return {name: value for name, value in wanted.items() if value}


def _read_query(asked: dict[str, Any]) -> ListQuery:
    """Raises InvalidInput where there is no such pool."""
    first, last, states = asked.pop("since"), asked.pop("until"), asked.pop("state")
    known = list(Pool.objects.order_by("name").values_list("name", flat=True))
    if asked["pool"] and asked["pool"] not in known:
        raise InvalidInput([FieldError("/pool", "unknown_pool", {"pool": asked["pool"], "known": known})])
    return ListQuery(first=first, last=last, state=tuple(one for one in STATES if one in states), **asked)
