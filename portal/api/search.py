"""API of the search over jobs, arrays, notebooks, people and machines."""

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from cluster.models import Node
from jobs.arrays.models import JobArray
from jobs.models import Job
from notebooks.models import Notebook
from portal.api.http.fields import one_of
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.permissions import SIGNED_IN
from portal.api.view import ApiView, read_query
from portal.search.search import KINDS, search

SCOPES = {
    Job.KIND: "jobs:read",
    JobArray.KIND: "jobs:read",
    Notebook.KIND: "notebooks:read",
    User.KIND: "people:write",
    Node.KIND: "cluster:read",
}
"""What a token needs for the list of each kind."""


@extend_schema_field(one_of(KINDS))
class KindField(serializers.CharField):
    """Read only."""


class FoundShape(serializers.Serializer):
    """about: the owner of a job, array or notebook, a person's full name, a machine's home pool."""

    kind = KindField()
    id = serializers.CharField()
    name = serializers.CharField()
    about = serializers.CharField(allow_blank=True)


class SearchQuery(FieldsQuery):
    """q: an id (job-12), part of a name, an owner, or a job's label (name or name:value); @ for people, # machines."""

    q = serializers.CharField(max_length=100)


class Search(ApiView):
    scopes = {"GET": SIGNED_IN}
    operations = {"GET": "search"}

    @extend_schema(parameters=[SearchQuery], responses=list_of(FoundShape, "FoundList"))
    def get(self, request: Request) -> Response:
        """Find jobs, arrays, notebooks, people and machines, at most 8 of each; a token finds the kinds that it may
        list.
        """
        query = read_query(request, SearchQuery)
        held = getattr(request.auth, "scopes", ())
        kinds = [kind for kind, scope in SCOPES.items() if request.auth is None or scope in held]
        return all_of(search(request.user, query["q"], kinds), FoundShape, query.get("fields"))
