"""API of environments beside that of datasets, which has their versions, files and shares."""

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.resources import parse_cpu, parse_memory
from datasets.models import DatasetVersion
from datasets.naming import MOST_NAME
from datasets.services import find_dataset, find_version, require_ready
from environments.recipes import MOST_FILES, MOST_LINE, MOST_LINES, MOST_TEST, Recipe
from environments.services import build_environment, compare_packages, find_own_notebook, list_environments, save_kept
from portal.api.datasets.shapes import DatasetVersionShape, EnvironmentShape
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import full_url
from portal.api.http.headers import KEY, read_once
from portal.api.http.lists import FieldsQuery, PageQuery, SortField, all_of, list_of, page, read_name
from portal.api.view import ApiView, read_query
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers

MOST_TEXT = 500
MOST_PATH = 1024


class EnvironmentsQuery(PageQuery):
    """package: one that a version brings, by a part of its name or as name==version. q: part of the name."""

    package = serializers.CharField(max_length=300, required=False)
    q = serializers.CharField(max_length=100, required=False)
    sort = SortField({"name": read_name})


class PackagesQuery(FieldsQuery):
    """against: the number of a version; then only what differs from it is listed."""

    against = serializers.IntegerField(min_value=1, max_value=10**9, required=False)


class PackageShape(serializers.Serializer):
    """A Python package. version: null where this version of the environment has it no more. before: its version in
    `against`, null where it was not there, or without `against`.
    """

    name = serializers.CharField()
    version = serializers.CharField(allow_null=True)  # type: ignore[assignment]
    before = serializers.CharField(allow_null=True)


class RecipeAsk(serializers.Serializer):
    """What is to be installed. base: an image by its name in the catalogue or in full; empty: the machines' own Python.
    pip: lines of a requirements file. files: from their path in the code to that in the environment. code: the digest
    of an uploaded folder with those, and with what `-r` names. test: a shell text that must succeed, or there is no
    version. cpu, memory, pool: of the job that builds it.
    """

    name = serializers.CharField(max_length=MOST_NAME)
    team = serializers.CharField(max_length=64, required=False)
    pool = serializers.CharField(max_length=64, required=False)
    base = serializers.CharField(max_length=512, default="", allow_blank=True)
    pip = serializers.ListField(child=serializers.CharField(max_length=MOST_LINE), max_length=MOST_LINES, default=list)
    files = serializers.DictField(child=serializers.CharField(max_length=MOST_PATH), default=dict)
    code = serializers.RegexField("sha256:[0-9a-f]{64}", required=False)
    test = serializers.CharField(max_length=MOST_TEST, default="", allow_blank=True)
    cpu = serializers.CharField(max_length=20, required=False)
    memory = serializers.CharField(max_length=20, required=False)

    def validate_files(self, said: dict[str, str]) -> dict[str, str]:
        if len(said) > MOST_FILES:
            raise serializers.ValidationError(str(MOST_FILES), code="max_length")
        return said


class BuildShape(serializers.Serializer):
    """job: what builds it, as an ordinary job; the next version is there once it has succeeded."""

    job = serializers.CharField(source="public_id")


class SaveAsk(serializers.Serializer):
    """name: of the environment; where the team has none of that name it is made. note: of this version."""

    name = serializers.CharField(max_length=MOST_NAME)
    note = serializers.CharField(max_length=MOST_TEXT, allow_blank=True, default="")


class Environments(ApiView):
    scopes = {"GET": ("files:read",)}
    operations = {"GET": "list_environments"}

    @extend_schema(parameters=[EnvironmentsQuery], responses=list_of(EnvironmentShape, "EnvironmentPage"))
    def get(self, request: Request) -> Response:
        """List the environments that one may use: datasets of that kind, with versions, shares and files as those."""
        query = read_query(request, EnvironmentsQuery)
        rows = list_environments(request.user, query.get("package", "")).prefetch_related("shared_with")
        return page(rows.filter(name__icontains=query.get("q", "")), query, EnvironmentShape)


class EnvironmentBuild(ApiView):
    scopes = {"POST": ("jobs:write",)}
    operations = {"POST": "build_environment"}
    refusals = {"POST": ("409", "422", "507")}
    rates = {"POST": ("submits",)}

    @extend_schema(
        parameters=[KEY],
        request={JSON: RecipeAsk},
        responses={201: OpenApiResponse(BuildShape, "The job, and its address in Location.")},
    )
    def post(self, request: Request) -> Response:
        """Build the next version of an environment by a job, which has a log, a quota and retries as others have."""
        said = read_json(request, RecipeAsk)
        once = read_once(request, {name: str(value) for name, value in said.items()})
        able = {"check": check_possible, "containers": runtime_has_containers()}
        job = build_environment(user=request.user, recipe=_read_recipe(said), **able, **once)
        return Response(
            BuildShape(job).data, status=201, headers={"Location": full_url("api-job", job_id=job.public_id)}
        )


class EnvironmentSave(ApiView):
    scopes = {"POST": ("files:write",)}
    operations = {"POST": "save_notebook_environment"}
    refusals = {"POST": ("409", "507")}

    @extend_schema(request={JSON: SaveAsk}, responses={201: DatasetVersionShape})
    def post(self, request: Request, notebook_id: str) -> Response:
        """Save the packages that a notebook keeps as the next version of an environment of its team."""
        notebook = find_own_notebook(request.user, notebook_id)
        made = save_kept(actor=request.user, notebook=notebook, **read_json(request, SaveAsk))
        return Response(DatasetVersionShape(find_version(made.dataset, made.number)).data, status=201)


class VersionPackages(ApiView):
    scopes = {"GET": ("files:read",)}
    operations = {"GET": "list_environment_packages"}
    refusals = {"GET": ("409",)}

    @extend_schema(parameters=[PackagesQuery], responses=list_of(PackageShape, "EnvironmentPackages"))
    def get(self, request: Request, dataset_id: str, version: int) -> Response:
        """List the packages that a version of an environment brings, or what differs from another one."""
        query = read_query(request, PackagesQuery)
        row = require_ready(find_version(find_dataset(request.user, dataset_id), version))
        return all_of(_list_packages(row, query.get("against")), PackageShape, query.get("fields"))


def _list_packages(row: DatasetVersion, against: int | None) -> list[dict[str, str | None]]:
    if against is None:
        return [{"name": one.name, "version": one.number, "before": None} for one in row.packages.all()]
    changes = compare_packages(require_ready(find_version(row.dataset, against)), row)
    return [{"name": one.name, "version": one.after or None, "before": one.before or None} for one in changes]


def _read_recipe(said: dict[str, Any]) -> Recipe:
    amounts = {
        "cpu_milli": parse_cpu(said.pop("cpu"), "/cpu") if "cpu" in said else None,
        "memory_mib": parse_memory(said.pop("memory"), "/memory") if "memory" in said else None,
    }
    return Recipe(**{**said, **amounts, "pip": tuple(said["pip"])})
