"""API of uploads in pieces, resumed from an offset."""

from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import FieldError, InvalidInput
from files.uploads import CHUNK_BYTES, append_upload, begin_upload, drop_upload, find_upload
from portal.api.files.shapes import UploadBody, UploadShape, upload_of
from portal.api.http.bodies import media_type, read_json, read_pieces
from portal.api.view import ApiView

PIECE_TYPE = "application/offset+octet-stream"
OFFSET = OpenApiParameter(
    "Upload-Offset", int, OpenApiParameter.HEADER, required=True, description="Where this piece begins."
)


class Uploads(ApiView):
    scopes = {"POST": ("files:write",)}
    operations = {"POST": "begin_upload"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=UploadBody, responses={201: UploadShape})
    def post(self, request: Request) -> Response:
        """Begin an upload. Refused at once if it would not fit. An empty file is then complete."""
        body = read_json(request, UploadBody)
        return _answer(upload_of(begin_upload(user=request.user, **body)), 201)


class UploadDetail(ApiView):
    scopes = {"GET": ("files:write",), "PATCH": ("files:write",), "DELETE": ("files:write",)}
    operations = {"GET": "find_upload", "PATCH": "append_to_upload", "DELETE": "drop_upload"}
    refusals = {"PATCH": ("409", "413", "415")}
    http_method_names = ["get", "head", "patch", "delete"]

    @extend_schema(responses=UploadShape)
    def get(self, request: Request, upload_id: UUID) -> Response:
        """Show how far it is: go on from `offset`."""
        return _answer(upload_of(find_upload(request.user, upload_id)))

    @extend_schema(
        parameters=[OFFSET],
        request={PIECE_TYPE: OpenApiTypes.BINARY},
        responses={200: OpenApiResponse(UploadShape, "The file has its name once `done` is true.")},
    )
    def patch(self, request: Request, upload_id: UUID) -> Response:
        """Send a piece of at most 8 MiB. From another offset: 409 `wrong_offset`, with the right one."""
        media_type(request, PIECE_TYPE)
        pieces = read_pieces(request, CHUNK_BYTES)
        upload = append_upload(user=request.user, uuid=upload_id, offset=_offset(request), pieces=pieces)
        return _answer(upload_of(upload))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, upload_id: UUID) -> Response:
        """Delete what was sent. A complete file stays."""
        drop_upload(user=request.user, uuid=upload_id)
        return Response(status=204)


def _offset(request: Request) -> int:
    said = request.headers.get("Upload-Offset", "")
    if not (said.isascii() and said.isdecimal() and len(said) < 19):
        raise InvalidInput([FieldError("/Upload-Offset", "required")])
    return int(said)


def _answer(shown: object, status: int = 200) -> Response:
    data = UploadShape(shown).data
    return Response(data, status=status, headers={"Upload-Offset": str(data["offset"])})
