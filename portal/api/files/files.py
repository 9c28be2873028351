"""API of people's files: one's home and team folders."""

from typing import Any

from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from files.file_areas import FileArea, find_file_area, list_file_areas
from files.usage import load_used, record_removal
from portal.api.files.shapes import (
    FolderShape,
    MkdirBody,
    MoveBody,
    PathQuery,
    PlaceShape,
    PlainPathQuery,
    listing_of,
    place_of,
)
from portal.api.http.bodies import AnyBytes, read_json
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query
from portal.downloads import send_archive, send_file

RANGE = OpenApiParameter("Range", str, OpenApiParameter.HEADER, description="One range, such as bytes=1000-.")


class Places(ApiView):
    scopes = {"GET": ("files:read",)}
    operations = {"GET": "list_places"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(PlaceShape, "Places"))
    def get(self, request: Request) -> Response:
        """List the caller's home and team folders, and how full each is."""
        places = [place_of(area, load_used(area)) for area in list_file_areas(request.user)]
        return all_of(places, PlaceShape, **read_query(request, FieldsQuery))


class FolderView(ApiView):
    scopes = {"GET": ("files:read",)}
    operations = {"GET": "list_files"}

    @extend_schema(parameters=[PlainPathQuery], responses=FolderShape)
    def get(self, request: Request) -> Response:
        """List a folder; "" is the place itself. At most 10,000 entries; `cut` says that there are more."""
        query = read_query(request, PlainPathQuery)
        area = find_file_area(request.user, query["place"])
        return Response(FolderShape(listing_of(area, query["path"])).data)


class Content(ApiView):
    scopes = {"GET": ("files:read",), "DELETE": ("files:write",)}
    operations = {"GET": "read_file", "DELETE": "delete_file"}
    refusals = {"GET": ("409", "416"), "DELETE": ("409",)}
    renderer_classes = [AnyBytes, JSONRenderer]

    @extend_schema(
        parameters=[PathQuery, RANGE],
        responses={
            (status, "application/octet-stream"): OpenApiResponse({"type": "string", "format": "binary"}, words)
            for status, words in ((200, "The whole file, always as a download."), (206, "The range."))
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Download a file, or a range of it."""
        area, path = _find_named_area(request)
        return send_file(request._request, area.store, path)

    @extend_schema(parameters=[PathQuery], responses={204: None})
    def delete(self, request: Request) -> Response:
        """Delete a file, a link, or a folder with its content, for good."""
        area, path = _find_named_area(request, write=True)
        record_removal(area=area, freed_bytes=area.store.remove(path))
        return Response(status=204)


class FolderContent(ApiView):
    scopes = {"GET": ("files:read",)}
    operations = {"GET": "read_folder"}
    renderer_classes = [AnyBytes, JSONRenderer]

    @extend_schema(
        parameters=[PlainPathQuery],
        responses={
            (200, "application/octet-stream"): OpenApiResponse(
                {"type": "string", "format": "binary"}, "The folder as a tar archive, always as a download."
            )
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Download a folder as a tar archive; "" is the place itself. Its last member names what the caller may not
        read.
        """
        query = read_query(request, PlainPathQuery)
        area = find_file_area(request.user, query["place"])
        return send_archive(area.store, query["path"], area.name_of(query["path"]))


class Move(ApiView):
    scopes = {"POST": ("files:write",)}
    operations = {"POST": "move_file"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=MoveBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Rename within a place. Nothing is overwritten without `replace`."""
        body = read_json(request, MoveBody)
        area = find_file_area(request.user, body["place"], write=True)
        area.store.move(body["path"], body["to"], replace=body["replace"])
        return Response(status=204)


class Mkdir(ApiView):
    scopes = {"POST": ("files:write",)}
    operations = {"POST": "make_folder"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=MkdirBody, responses={201: None})
    def post(self, request: Request) -> Response:
        """Create a folder in an existing one."""
        body = read_json(request, MkdirBody)
        find_file_area(request.user, body["place"], write=True).store.make_folder(body["path"])
        return Response(status=201)


def _find_named_area(request: Request, write: bool = False) -> tuple[FileArea, str]:
    query: dict[str, Any] = read_query(request, PathQuery)
    return find_file_area(request.user, query["place"], write=write), query["path"]
