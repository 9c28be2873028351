"""OpenAPI by drf-spectacular, with what all operations share."""

import re
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction
from rest_framework import serializers

from jobs.changing import CHANGEABLE
from jobs.jobfile.schema import job_schema
from portal.api.http.problems import CONTENT_TYPE
from portal.api.permissions import AGENT, ANYBODY, scopes_of

PARTS = {
    "notebook_id": {"type": "string", "pattern": r"^nb-[1-9][0-9]{0,17}$"},
    "array_id": {"type": "string", "pattern": r"^arr-[1-9][0-9]{0,17}$"},
    "service_id": {"type": "string", "pattern": r"^svc-[1-9][0-9]{0,17}$"},
    "schedule_id": {"type": "string", "pattern": r"^sch-[1-9][0-9]{0,17}$"},
    "dataset_id": {"type": "string", "pattern": r"^ds-[1-9][0-9]{0,17}$"},
    "version": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "job_id": {"type": "string", "pattern": r"^job-[1-9][0-9]{0,17}$"},
    "template_id": {"type": "string", "pattern": r"^[a-z][a-z0-9-]{0,62}$"},
    "name": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"},
    "person": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"},
    "pool": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"},
    "uuid": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"},
    "digest": {"type": "string", "pattern": r"^sha256:[0-9a-f]{64}$"},
    "upload_id": {"type": "string", "format": "uuid"},
    "secret_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "webhook_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "delivery_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "alert_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "rule_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "silence_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "maintenance_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "window_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "volume_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "image_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "login_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "exemption_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "idle_rule_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "announcement_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "price_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "notebook_token_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "service_key_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "token_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "view_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "key_id": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
}
WORDS = {
    "400": "Something that was sent cannot be used; `errors` names each field.",
    "401": "No session and no live token.",
    "403": "The token lacks the scope, or the person may not do this.",
    "404": "No such thing, or none that the caller may see.",
    "405": "The method is not possible here.",
    "406": "It cannot be answered in the form that Accept asks for.",
    "409": "It clashes with what is there, or a limit of counts is met.",
    "412": "It was changed since the ETag that If-Match names.",
    "413": "The body is too large.",
    "415": "The body's Content-Type is not one of those that are read here.",
    "416": "The range lies outside the file.",
    "429": "Too many calls in a short time: Retry-After says when to try again, RateLimit how many are left.",
    "422": "It could never run here (`impossible`), or the Idempotency-Key came with another body.",
    "503": "The platform is busy, or what it needs is not there: Retry-After says when to try again.",
    "507": "The platform's disk is full. What runs goes on; try again when there is room.",
}
ALWAYS = ("400", "404", "405", "406")
WITH_BODY = ("413", "415")


JOB_FILE = {"$ref": "#/components/schemas/JobFile"}
JOB_CHANGE = {"$ref": "#/components/schemas/JobChange"}


class FieldProblem(serializers.Serializer):
    pointer = serializers.CharField(allow_blank=True, help_text="JSON pointer into what was sent; empty: all of it")
    code = serializers.CharField()
    detail = serializers.CharField()
    params = serializers.DictField()


class Hint(serializers.Serializer):
    action = serializers.CharField()
    pointer = serializers.CharField(allow_blank=True)
    value = serializers.JSONField()


class Problem(serializers.Serializer):
    """RFC 9457. code and params never change; title and detail follow Accept-Language.

    Refusals before the API is reached have no instance, params, errors, hints.
    """

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField(required=False)
    code = serializers.CharField()
    help = serializers.CharField(help_text="Address of the documents' entry about the code")
    params = serializers.DictField(required=False)
    request_id = serializers.CharField(allow_blank=True)
    errors = FieldProblem(many=True, required=False)  # type: ignore[assignment]
    hints = Hint(many=True, required=False)


class Schema(AutoSchema):
    """Names operations by the view's `operations = {"GET": "list_jobs"}`."""

    def get_operation_id(self) -> str:
        return self.view.operations[self.method]  # type: ignore[attr-defined]

    def get_tags(self) -> list[str]:
        return [re.split(r"[/:]", self.path.removeprefix("/api/v1/"))[0]]

    def get_description(self) -> str:
        words = (getattr(self.view, self.method.lower()).__doc__ or "").strip()
        scopes = scopes_of(self.view, self.method)
        if scopes == ANYBODY:
            return words
        if scopes == AGENT:
            return f"{words}\n\nNeeds the key of the machine's agent, and no other will do.".strip()
        needs = f"Needs the scope `{'`, `'.join(scopes)}`." if scopes else "Any token will do."
        return f"{words}\n\n{needs}".strip()

    def _get_format_parameters(self) -> list[dict[str, Any]]:
        return []

    def get_auth(self) -> list[dict[str, Any]]:
        if scopes_of(self.view, self.method) == AGENT:
            return [{AgentScheme.name: []}]
        found = super().get_auth()
        return [] if scopes_of(self.view, self.method) == ANYBODY else [one for one in found if one]

    def _resolve_path_parameters(self, variables: list[str]) -> list[dict[str, Any]]:
        return [{"in": "path", "name": name, "required": True, "schema": PARTS[name]} for name in variables]

    def _get_response_bodies(self, direction: str = "response") -> dict[str, Any]:
        found = super()._get_response_bodies(direction)
        for status in self._refusals():
            answer = self._get_response_for_code(Problem, status, media_types=[CONTENT_TYPE])
            found.setdefault(status, {**answer, "description": WORDS[status]})
        return found

    def _refusals(self) -> list[str]:
        signed = () if scopes_of(self.view, self.method) == ANYBODY else ("401", "403", "429")
        body = WITH_BODY if self.method in {"POST", "PATCH"} and self.get_request_serializer() is not None else ()
        more = getattr(self.view, "refusals", {}).get(self.method, ())
        return sorted({*ALWAYS, *signed, *body, *more})


class RowScheme(OpenApiSerializerExtension):
    target_class = "portal.api.http.lists.Row"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        described = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        described.pop("required", None)
        return described


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "portal.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token (tes_...), made under API tokens."}


class AgentScheme(OpenApiAuthenticationExtension):
    target_class = "portal.api.authentication.AgentAuthentication"
    name = "agent"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "The key (tag_...) that a machine's agent made."}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "portal.api.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "tessera",
            "description": "The portal's own session. What changes something carries X-CSRFToken and Origin as well.",
        }


def add_job_file(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the components that JOB_FILE and JOB_CHANGE name: a hook of drf-spectacular, after that for enums."""
    whole = job_schema(yaml=False)
    keys = (*CHANGEABLE, "labels")
    some = {"type": "object", "properties": {key: whole["properties"][key] for key in keys}}
    change = some | {"additionalProperties": False, "minProperties": 1}
    schemas = {**result["components"]["schemas"], "JobFile": whole, "JobChange": change}
    result["components"]["schemas"] = dict(sorted(schemas.items()))
    return result
