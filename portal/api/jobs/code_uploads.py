"""API of uploaded code, named by digest in jobs."""

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import NotFound
from jobs.code.upload import keep_code
from jobs.models import CodePack
from portal.api.http.bodies import GZIP, media_type, read_pieces
from portal.api.view import ApiView


class CodeShape(serializers.Serializer):
    """digest: for a job's `code`. files, bytes: unpacked."""

    digest = serializers.CharField()
    files = serializers.IntegerField()
    bytes = serializers.IntegerField()


class CodeUpload(ApiView):
    scopes = {"POST": ("jobs:write",)}
    operations = {"POST": "upload_code"}
    refusals = {"POST": ("507",)}

    @extend_schema(request={GZIP: OpenApiTypes.BINARY}, responses={201: OpenApiResponse(CodeShape)})
    def post(self, request: Request) -> Response:
        """Upload a .tar.gz. It is checked but not unpacked; the same bytes are stored once."""
        media_type(request, GZIP)
        pack = keep_code(user=request.user, pieces=read_pieces(request, settings.CODE_MAX_BYTES))
        return Response(CodeShape(pack).data, status=201)


class CodeDetail(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "find_code"}

    @extend_schema(responses=CodeShape)
    def get(self, request: Request, digest: str) -> Response:
        """Show whether the caller uploaded it; others' uploads are unknown. HEAD does the same."""
        pack = CodePack.objects.filter(user=request.user, digest=digest).first()
        if pack is None:
            raise NotFound(kind="code", id=digest)
        return Response(CodeShape(pack).data)
