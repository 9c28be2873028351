"""The job file as JSON Schema (draft 2020-12): all that parsed data can show, for editors and the API's description."""

from typing import Any

from jobs.jobfile.description import JOB, NOT_WITH_ROLES


def job_schema(yaml: bool) -> dict[str, Any]:
    """Describe a job file, in which any YAML parser may have made a number of a text, or the JSON of one."""
    given = {"not": {"type": "null"}}
    return {
        "title": "Job file",
        **JOB.schema(yaml),
        "if": {"required": ["roles"], "properties": {"roles": given}},
        "then": {"properties": {key: {"type": "null"} for key in NOT_WITH_ROLES}},
        "else": {"required": ["run"], "properties": {"run": given}},
    }


def editor_schema() -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **job_schema(yaml=True)}
