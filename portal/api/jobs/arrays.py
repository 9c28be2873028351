"""API of arrays of jobs. They are submitted like jobs; their elements are jobs."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.arrays.models import JobArray, has_array_state
from jobs.arrays.services import find_array, retry_array, stop_array
from jobs.states import JobState
from portal.api.http.bodies import JSON, read_json
from portal.api.http.lists import PageQuery, SortField, StatesField, list_of, page, read_moment, read_name
from portal.api.jobs.array_shapes import ArrayDetailShape, ArrayShape, show_array
from portal.api.view import ApiView, read_query

READ, WRITE = ("jobs:read",), ("jobs:write",)


class ArraysQuery(PageQuery):
    """state: one or more, with commas. team: by name. owner: a name, or "me". q: part of the name."""

    state = StatesField(JobState)
    team = serializers.CharField(max_length=64, required=False)
    owner = serializers.CharField(max_length=64, required=False)
    q = serializers.CharField(max_length=100, required=False)
    sort = SortField({"name": read_name, "submitted_at": read_moment})


class ArrayList(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_arrays"}

    @extend_schema(parameters=[ArraysQuery], responses=list_of(ArrayShape, "ArrayPage"))
    def get(self, request: Request) -> Response:
        """List the arrays of one's teams, newest first."""
        query = read_query(request, ArraysQuery)
        return page(_filter(request, query), query, ArrayShape)


class ArrayDetail(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "get_array"}

    @extend_schema(responses=ArrayDetailShape)
    def get(self, request: Request, array_id: str) -> Response:
        """Show an array with how many of its elements are in which state."""
        return Response(show_array(find_array(request.user, array_id)))


class ArrayStop(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "stop_array"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=ArrayDetailShape)
    def post(self, request: Request, array_id: str) -> Response:
        """Stop all open elements, and make no more. An array that has ended is left as it is."""
        stop_array(actor=request.user, array=find_array(request.user, array_id))
        return Response(show_array(find_array(request.user, array_id)))


class ArrayRetryAsk(serializers.Serializer):
    """only_failed: false for all that did not succeed: also those cancelled, and those that a stop kept from being
    made.
    """

    only_failed = serializers.BooleanField(default=True)


class ArrayRetry(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "retry_array"}
    refusals = {"POST": ("409",)}

    @extend_schema(request={JSON: ArrayRetryAsk}, responses=ArrayDetailShape)
    def post(self, request: Request, array_id: str) -> Response:
        """Queue elements again as there is room: those that have failed by now. An array that was halted goes on."""
        array, asked = find_array(request.user, array_id), read_json(request, ArrayRetryAsk)
        retry_array(actor=request.user, array=array, **asked)
        return Response(show_array(find_array(request.user, array_id)))


def _filter(request: Request, query: dict) -> QuerySet[JobArray]:
    if query.get("owner") == "me":
        query["owner"] = request.user.username
    named = {"team": "team__name__iexact", "owner": "user__username__iexact", "q": "name__icontains"}
    wanted = {column: query[name] for name, column in named.items() if name in query}
    rows = JobArray.objects.visible_to(request.user).with_names().filter(**wanted)
    return rows.filter(has_array_state(query["state"])) if query.get("state") else rows
