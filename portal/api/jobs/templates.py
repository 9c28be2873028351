"""API of templates: jobs with parameters, kept in versions."""

import json
from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Team
from job_templates.models import JobTemplate
from job_templates.parameters import TYPES, Parameter
from job_templates.services import (
    Template,
    TemplateQuery,
    Version,
    add_version,
    archive_template,
    create_template,
    find_template,
    find_version,
    list_templates,
    list_versions,
    render_job,
    require_change,
    restore_template,
    run_template,
)
from jobs.jobfile.load import MAX_BYTES, load_json
from jobs.jobfile.spec import to_json
from jobs.submit import find_team
from portal.api.http.bodies import JSON, MAX_JSON, media_type, read_body, read_json
from portal.api.http.fields import full_url, moment
from portal.api.http.headers import KEY, read_key
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.jobs.jobs import answer_new_job
from portal.api.jobs.shapes import JobDetailShape
from portal.api.view import ApiView, read_query
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers


class TemplateShape(serializers.Serializer):
    """A template. id: tpl-4, or the name of an example, which comes with the platform and never changes. team: null for
    everybody's. version: the newest.
    """

    id = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    team = serializers.SerializerMethodField()
    example = serializers.BooleanField(source="is_example")
    made_by = serializers.SerializerMethodField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField(allow_null=True)
    archived_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_team(self, template: Template) -> str | None:
        return template.team or None

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_made_by(self, template: Template) -> str | None:
        return template.by or None


class ParameterShape(serializers.Serializer):
    """A parameter. default: null where a value is required. choices: of type choice. least, most: of a number."""

    name = serializers.CharField()
    type = serializers.ChoiceField(choices=TYPES)
    required = serializers.BooleanField()  # type: ignore[assignment]
    default = serializers.JSONField()
    choices = serializers.ListField(child=serializers.CharField())
    least = serializers.FloatField(allow_null=True)
    most = serializers.FloatField(allow_null=True)
    help = serializers.CharField(allow_blank=True)  # type: ignore[assignment]


class TemplateVersionShape(TemplateShape):
    """A version of a template. number: which one. file: its text, a job file with a head. parameters: as that names
    them.
    """

    number = serializers.IntegerField()
    parameters = ParameterShape(many=True)
    file = serializers.CharField()


class VersionShape(serializers.Serializer):
    number = serializers.IntegerField()
    made_by = serializers.CharField(source="user.username")
    created_at = serializers.DateTimeField()


class TemplatesQuery(FieldsQuery):
    """q: words of its name, description, team or maker. name: exactly. team: of that team alone. examples: true for
    those alone, false for none. archived: those instead of the others.
    """

    q = serializers.CharField(max_length=100, required=False, allow_blank=True)
    name = serializers.CharField(max_length=64, required=False)
    team = serializers.CharField(max_length=64, required=False)
    examples = serializers.BooleanField(required=False, allow_null=True, default=None)
    archived = serializers.BooleanField(required=False, default=False)


class TemplateAsk(serializers.Serializer):
    """file: a job file with a head `template:` that says name, description and parameters, and ${{ name }} where the
    value of a parameter belongs. team: left out, your only one. everybody: for all teams, by administrators.
    """

    file = serializers.CharField(max_length=MAX_BYTES, trim_whitespace=False)
    team = serializers.CharField(max_length=64, required=False)
    everybody = serializers.BooleanField(default=False)


class VersionAsk(serializers.Serializer):
    """file: as of a new template, with the same name."""

    file = serializers.CharField(max_length=MAX_BYTES, trim_whitespace=False)


class VersionQuery(serializers.Serializer):
    """version: left out, the newest."""

    version = serializers.IntegerField(min_value=1, max_value=2**31 - 1, required=False)


@extend_schema_field({})
class AnyValue(serializers.Field):
    """Any JSON, null too; a parameter's or the job file's own reader checks it."""

    def run_validation(self, data: Any = None) -> Any:
        return data


class RunAsk(serializers.Serializer):
    """version: left out, the newest. values: of parameters, by name; the others have their defaults. changes: keys of
    the job file that are said otherwise, such as team; null leaves one out, a map such as env is added to the file's.
    """

    version = serializers.IntegerField(min_value=1, max_value=2**31 - 1, required=False)
    values = serializers.DictField(child=AnyValue(), required=False)
    changes = serializers.DictField(child=AnyValue(), required=False)


class RenderedShape(serializers.Serializer):
    """A job file made of a template. file: its text. spec: as it is read."""

    file = serializers.CharField()
    spec = serializers.DictField()
    values = serializers.DictField()


class TemplateList(ApiView):
    scopes = {"GET": ("jobs:read",), "POST": ("jobs:write",)}
    operations = {"GET": "list_templates", "POST": "create_template"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[TemplatesQuery], responses=list_of(TemplateShape, "TemplateList"))
    def get(self, request: Request) -> Response:
        """List the templates of one's teams, everybody's, and the examples."""
        query = read_query(request, TemplatesQuery)
        fields = query.pop("fields", None)
        return all_of(
            list_templates(request.user, TemplateQuery(text=query.pop("q", ""), **query)), TemplateShape, fields
        )

    @extend_schema(
        request={JSON: TemplateAsk},
        responses={201: OpenApiResponse(TemplateVersionShape, "The template, and its address in Location.")},
    )
    def post(self, request: Request) -> Response:
        """Create a template. What would be wrong with any values is refused at once."""
        asked = read_json(request, TemplateAsk)
        team: Team | None = None if asked["everybody"] else find_team(request.user, asked.get("team"))
        row = create_template(actor=request.user, text=asked["file"], team=team)
        shown = show_version(find_version(find_template(request.user, row.public_id)))
        location = full_url("api-template", template_id=row.public_id)
        return Response(shown, status=201, headers={"Location": location})


class TemplateDetail(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "get_template"}

    @extend_schema(parameters=[VersionQuery], responses=TemplateVersionShape)
    def get(self, request: Request, template_id: str) -> Response:
        """Show a template with the parameters and the text of one version."""
        number = read_query(request, VersionQuery).get("version")
        return Response(show_version(find_version(find_template(request.user, template_id), number)))


class TemplateVersions(ApiView):
    scopes = {"GET": ("jobs:read",), "POST": ("jobs:write",)}
    operations = {"GET": "list_template_versions", "POST": "add_template_version"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(VersionShape, "TemplateVersionList"))
    def get(self, request: Request, template_id: str) -> Response:
        """List its stored versions, newest first. An example has none."""
        query, versions = read_query(request, FieldsQuery), list_versions(find_template(request.user, template_id))
        return all_of(versions, VersionShape, **query)

    @extend_schema(request={JSON: VersionAsk}, responses={201: OpenApiResponse(TemplateVersionShape)})
    def post(self, request: Request, template_id: str) -> Response:
        """Store a new version: by who made the template, a lead of its team, or an administrator. The earlier ones
        stay as they are.
        """
        row = find_changeable(request, template_id)
        version = add_version(actor=request.user, template=row, text=read_json(request, VersionAsk)["file"])
        found = find_version(find_template(request.user, template_id), version.number)
        return Response(show_version(found), status=201)


class TemplateArchive(ApiView):
    scopes = {"POST": ("jobs:write",)}
    operations = {"POST": "archive_template"}

    @extend_schema(request=None, responses=TemplateShape)
    def post(self, request: Request, template_id: str) -> Response:
        """Take a template out of lists; no job is made of it until it is restored."""
        archive_template(actor=request.user, template=find_changeable(request, template_id))
        return Response(TemplateShape(find_template(request.user, template_id)).data)


class TemplateRestore(ApiView):
    scopes = {"POST": ("jobs:write",)}
    operations = {"POST": "restore_template"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=TemplateShape)
    def post(self, request: Request, template_id: str) -> Response:
        """Put an archived template back."""
        restore_template(actor=request.user, template=find_changeable(request, template_id))
        return Response(TemplateShape(find_template(request.user, template_id)).data)


class TemplateRender(ApiView):
    scopes = {"POST": ("jobs:read",)}
    operations = {"POST": "render_template"}
    refusals = {"POST": ("409",)}

    @extend_schema(request={JSON: RunAsk}, responses=RenderedShape)
    def post(self, request: Request, template_id: str) -> Response:
        """Show the job file of these values. Nothing is submitted."""
        template = find_template(request.user, template_id)
        asked = read_run(request)
        version = find_version(template, asked.get("version"))
        rendered, _origin = render_job(version, asked.get("values", {}), asked.get("changes"))
        return Response({"file": rendered.text, "spec": to_json(rendered.spec), "values": rendered.values})


class TemplateRun(ApiView):
    scopes = {"POST": ("jobs:write",)}
    operations = {"POST": "run_template"}
    refusals = {"POST": ("409", "422", "507")}
    rates = {"POST": ("submits",)}

    @extend_schema(
        parameters=[KEY],
        request={JSON: RunAsk},
        responses={201: OpenApiResponse(JobDetailShape, "The job, and its address in Location.")},
    )
    def post(self, request: Request, template_id: str) -> Response:
        """Submit the job of these values. It keeps the template, its version and the values."""
        template = find_template(request.user, template_id)
        asked = read_run(request)
        job = run_template(
            user=request.user,
            version=find_version(template, asked.get("version")),
            values=asked.get("values", {}),
            changes=asked.get("changes"),
            check=check_possible,
            containers=runtime_has_containers(),
            key=read_key(request),
            body=json.dumps([template_id, asked], sort_keys=True).encode(),
        )
        return answer_new_job(job)


def read_run(request: Request) -> dict[str, Any]:
    """Read what is asked of a template, within the limits of a job file."""
    media_type(request, JSON)
    sent = RunAsk(data=load_json(read_body(request, MAX_JSON)))
    sent.is_valid(raise_exception=True)
    return sent.validated_data


def find_changeable(request: Request, template_id: str) -> JobTemplate:
    """Return a template that the caller may change, before a body is read."""
    return require_change(request.user, find_template(request.user, template_id))


def show_version(version: Version) -> dict[str, Any]:
    parameters = [show_parameter(name, one) for name, one in version.file.parameters.items()]
    told = {"number": version.number, "parameters": parameters, "file": version.file.text}
    shown = {**TemplateShape(version.template).data, **told, "description": version.file.description}
    return shown | {"created_at": moment(version.created_at), "made_by": version.by or None}


def show_parameter(name: str, one: Parameter) -> dict[str, Any]:
    return {
        "name": name,
        "type": one.kind,
        "required": one.is_required,
        "default": one.default,
        "choices": list(one.choices),
        "least": one.least,
        "most": one.most,
        "help": one.help,
    }
