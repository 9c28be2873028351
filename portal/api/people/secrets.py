"""API of secrets: set, listed without values, deleted. No operation returns a value."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.submit import find_team
from jobs.used_secrets.naming import delete_secret
from portal.api.http.bodies import JSON, read_json
from portal.api.http.lists import PageQuery, list_of, page
from portal.api.view import ApiView, read_query
from secret_store.names import MOST_NAME
from secret_store.services import get_secret, list_secrets, set_secret

SCOPE = ("secrets:write",)


class SecretShape(serializers.Serializer):
    """team: null for one's own. version: counts the values that it had. used_at, used_by: when it was last given to a
    task, and of which job.
    """

    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    team = serializers.CharField(source="team.name", default=None, allow_null=True)
    version = serializers.IntegerField()
    changed_at = serializers.DateTimeField()
    changed_by = serializers.CharField()
    used_at = serializers.DateTimeField(allow_null=True)
    used_by = serializers.CharField(source="used_by_id", allow_null=True)


class SecretAsk(serializers.Serializer):
    """name: as of an environment variable. value: text of up to 64 KiB, kept encrypted and never shown. team: one that
    you lead; left out, it is your own.
    """

    name = serializers.CharField(max_length=MOST_NAME)
    value = serializers.CharField(trim_whitespace=False, write_only=True)
    team = serializers.CharField(max_length=64, required=False)


class DeleteQuery(serializers.Serializer):
    """force: though jobs name it that have yet to end; those that have not started will fail."""

    force = serializers.BooleanField(default=False)


class Secrets(ApiView):
    scopes = {"GET": SCOPE, "POST": SCOPE}
    operations = {"GET": "list_secrets", "POST": "set_secret"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[PageQuery], responses=list_of(SecretShape, "SecretPage"))
    def get(self, request: Request) -> Response:
        """List one's own secrets and those of teams whose jobs one may submit, newest first, without their values."""
        return page(list_secrets(request.user), read_query(request, PageQuery), SecretShape)

    @extend_schema(request={JSON: SecretAsk}, responses={201: OpenApiResponse(SecretShape)})
    def post(self, request: Request) -> Response:
        """Set a secret: a new one, or a new value of the one of that name, for tasks that start from now on."""
        asked = read_json(request, SecretAsk)
        name = asked.pop("team", None)
        secret = set_secret(actor=request.user, **asked, team=find_team(request.user, name) if name else None)
        return Response(SecretShape(secret).data, status=201)


class SecretDetail(ApiView):
    scopes = {"DELETE": SCOPE}
    operations = {"DELETE": "delete_secret"}
    refusals = {"DELETE": ("409",)}

    @extend_schema(parameters=[DeleteQuery], responses={204: OpenApiResponse(None, "No task gets it any more.")})
    def delete(self, request: Request, secret_id: int) -> Response:
        """Delete a secret. 409 while jobs name it that have yet to end, unless `force` is true."""
        secret = get_secret(request.user, secret_id)
        delete_secret(actor=request.user, secret=secret, force=read_query(request, DeleteQuery)["force"])
        return Response(status=204)
