"""API version, its description and the answer to unknown addresses."""

from functools import cache

from django.conf import settings
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import NotFound
from jobs.jobfile.schema import editor_schema
from portal.access.ssh_endpoint import find_ssh_endpoint
from portal.api.permissions import ANYBODY
from portal.api.view import ApiView

API_VERSION = "1"


class SshShape(serializers.Serializer):
    """Where ssh connects to. host_key: as in known_hosts, without the host's name."""

    host = serializers.CharField()
    port = serializers.IntegerField()
    host_key = serializers.CharField()
    fingerprint = serializers.CharField()


class VersionShape(serializers.Serializer):
    """ssh: null without an SSH gateway."""

    version = serializers.CharField()
    api = serializers.CharField()
    ssh = SshShape(allow_null=True)


class Version(ApiView):
    scopes = {"GET": ANYBODY}
    operations = {"GET": "get_version"}

    @extend_schema(responses=VersionShape)
    def get(self, request: Request) -> Response:
        """Show the platform's and the API's version, and the SSH gateway."""
        return Response(
            VersionShape({"version": settings.TESSERA_VERSION, "api": API_VERSION, "ssh": find_ssh_endpoint()}).data
        )


class Description(ApiView):
    scopes = {"GET": ANYBODY}
    operations = {"GET": "get_openapi"}

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response(describe())


class JobSchema(ApiView):
    """The JSON Schema of a job file, for editors."""

    scopes = {"GET": ANYBODY}
    operations = {"GET": "get_job_schema"}

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response(editor_schema())


class Nowhere(ApiView):
    """Answers 404 to every unknown address."""

    scopes = dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"), ANYBODY)
    http_method_names = ["get", "head", "post", "put", "patch", "delete", "options"]

    @extend_schema(exclude=True)
    def get(self, request: Request, path: str) -> Response:
        raise NotFound(kind="address", id=path[:80])

    post = put = patch = delete = options = get  # type: ignore[assignment]


@cache
def describe() -> dict:
    """Return the OpenAPI 3.1 description; a test compares it with docs/openapi.json."""
    return SchemaGenerator().get_schema(request=None, public=True)
