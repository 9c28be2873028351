"""API of datasets and models, and their versions."""

from itertools import islice

from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from datasets.models import DatasetKind, DatasetVersion
from datasets.services import (
    add_version,
    change_dataset,
    compare_versions,
    find_dataset,
    find_version,
    list_datasets,
    open_files,
    place_in_store,
    restore_version,
)
from jobs.submit import find_team
from jobs.used_data.naming import delete_unused_version
from portal.api.datasets.shapes import (
    LONGEST_PATH,
    DatasetChange,
    DatasetShape,
    DatasetVersionAsk,
    DatasetVersionShape,
    DifferenceShape,
    FileShape,
    KindField,
)
from portal.api.http.bodies import JSON, AnyBytes, read_json
from portal.api.http.fields import full_url
from portal.api.http.lists import FieldsQuery, PageQuery, SortField, all_of, list_of, page, read_name
from portal.api.view import ApiView, read_query
from portal.downloads import send_file

READ, WRITE = ("files:read",), ("files:write",)
MOST_DIFFERENCES = 10_000
RANGE = OpenApiParameter("Range", str, OpenApiParameter.HEADER, description="One range, such as bytes=1000-.")


class DatasetsQuery(PageQuery):
    """kind: dataset or model. q: part of the name."""

    kind = KindField(DatasetKind.choices, required=False)
    q = serializers.CharField(max_length=100, required=False)
    sort = SortField({"name": read_name})


class FolderQuery(FieldsQuery):
    """path: with slashes, from the top of the version on; empty: the top itself."""

    path = serializers.CharField(default="", max_length=LONGEST_PATH, allow_blank=True, trim_whitespace=False)


class FileQuery(serializers.Serializer):
    path = serializers.CharField(max_length=LONGEST_PATH, trim_whitespace=False)


class DiffQuery(FieldsQuery):
    """against: the number of the version to compare with."""

    against = serializers.IntegerField(min_value=1, max_value=10**9)


class Datasets(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_datasets", "POST": "add_dataset_version"}
    refusals = {"POST": ("409", "507")}

    @extend_schema(parameters=[DatasetsQuery], responses=list_of(DatasetShape, "DatasetPage"))
    def get(self, request: Request) -> Response:
        """List the datasets and models that one may read."""
        query = read_query(request, DatasetsQuery)
        rows = list_datasets(request.user, query.get("kind", "")).prefetch_related("shared_with", "stages__version")
        return page(rows.filter(name__icontains=query.get("q", "")), query, DatasetShape)

    @extend_schema(
        request={JSON: DatasetVersionAsk},
        responses={201: OpenApiResponse(DatasetVersionShape, "What is to be made, and its address in Location.")},
    )
    def post(self, request: Request) -> Response:
        """Take a folder as the next version of a dataset, which is made if the team has none of that name. Its state
        is `taking` until all is read.
        """
        said = read_json(request, DatasetVersionAsk)
        team = find_team(request.user, said.pop("team", None))
        made = add_version(actor=request.user, team=team, **said)
        parts = {"dataset_id": made.dataset.public_id, "version": made.number}
        shown = DatasetVersionShape(find_version(made.dataset, made.number)).data
        return Response(shown, status=201, headers={"Location": full_url("api-dataset-version", **parts)})


class DatasetDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE}
    operations = {"GET": "get_dataset", "PATCH": "change_dataset"}

    @extend_schema(responses=DatasetShape)
    def get(self, request: Request, dataset_id: str) -> Response:
        """Show a dataset or model."""
        return Response(DatasetShape(find_dataset(request.user, dataset_id)).data)

    @extend_schema(request={JSON: DatasetChange}, responses=DatasetShape)
    def patch(self, request: Request, dataset_id: str) -> Response:
        """Change who may read it, what is said of it and its stages, as its owner or a lead. Accepted jobs keep the
        versions that they were submitted with.
        """
        dataset = find_dataset(request.user, dataset_id)
        require(request.user, "dataset.change", dataset.team, dataset.user_id)
        changed = change_dataset(actor=request.user, dataset=dataset, **read_json(request, DatasetChange))
        return Response(DatasetShape(changed).data)


class Versions(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_dataset_versions"}

    @extend_schema(parameters=[PageQuery], responses=list_of(DatasetVersionShape, "DatasetVersionPage"))
    def get(self, request: Request, dataset_id: str) -> Response:
        """List its versions, newest first; deleted ones too."""
        rows = find_dataset(request.user, dataset_id).versions.select_related("user", "dataset__team")
        return page(rows, read_query(request, PageQuery), DatasetVersionShape)


class VersionDetail(ApiView):
    scopes = {"GET": READ, "DELETE": WRITE}
    operations = {"GET": "get_dataset_version", "DELETE": "delete_dataset_version"}
    refusals = {"DELETE": ("409",)}

    @extend_schema(responses=DatasetVersionShape)
    def get(self, request: Request, dataset_id: str, version: int) -> Response:
        """Show a version, and how far it is while it is taken."""
        return Response(DatasetVersionShape(_find(request, dataset_id, version)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "No new job can name it. Its files are kept for a week.")})
    def delete(self, request: Request, dataset_id: str, version: int) -> Response:
        """Delete a version, as owner or lead. 409 while a job that has yet to end uses it."""
        delete_unused_version(actor=request.user, version=_find(request, dataset_id, version))
        return Response(status=204)


class VersionRestore(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "restore_dataset_version"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=DatasetVersionShape)
    def post(self, request: Request, dataset_id: str, version: int) -> Response:
        """Take a deletion back, within a week of it."""
        row = _find(request, dataset_id, version)
        restore_version(actor=request.user, version=row)
        return Response(DatasetVersionShape(_find(request, dataset_id, version)).data)


class VersionFiles(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_dataset_files"}
    refusals = {"GET": ("409",)}

    @extend_schema(parameters=[FolderQuery], responses=list_of(FileShape, "DatasetFiles"))
    def get(self, request: Request, dataset_id: str, version: int) -> Response:
        """List a folder of a version; at most 10,000 entries."""
        row = _find(request, dataset_id, version)
        query = read_query(request, FolderQuery)
        found = open_files(request.user, row).list_folder(place_in_store(row, query["path"]))
        return all_of(found.entries, FileShape, query.get("fields"))


class VersionContent(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "read_dataset_file"}
    refusals = {"GET": ("409", "416")}
    renderer_classes = [AnyBytes, JSONRenderer]

    @extend_schema(
        parameters=[FileQuery, RANGE],
        responses={
            (status, "application/octet-stream"): OpenApiResponse({"type": "string", "format": "binary"}, words)
            for status, words in ((200, "The whole file, always as a download."), (206, "The range."))
        },
    )
    def get(self, request: Request, dataset_id: str, version: int) -> HttpResponseBase:
        """Download a file of a version, or a range of it."""
        row = _find(request, dataset_id, version)
        query = read_query(request, FileQuery)
        return send_file(request._request, open_files(request.user, row), place_in_store(row, query["path"]))


class VersionDiff(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "compare_dataset_versions"}
    refusals = {"GET": ("409",)}

    @extend_schema(parameters=[DiffQuery], responses=list_of(DifferenceShape, "DatasetDifferences"))
    def get(self, request: Request, dataset_id: str, version: int) -> Response:
        """List what is other in this version than in `against`, the first 10,000."""
        row = _find(request, dataset_id, version)
        query = read_query(request, DiffQuery)
        found = compare_versions(find_version(row.dataset, query["against"]), row)
        return all_of(list(islice(found, MOST_DIFFERENCES)), DifferenceShape, query.get("fields"))


def _find(request: Request, dataset_id: str, number: int) -> DatasetVersion:
    return find_version(find_dataset(request.user, dataset_id), number)
