"""The job file as JSON Schema (draft 2020-12): all that parsed data can show, for editors and the API's description."""

from collections.abc import Iterable, Mapping
from typing import Any

from jobs.jobfile.description import JOB, NOT_WITH_ROLES
from jobs.jobfile.shapes import Choice, Field, Flag, Keys, Map, Shape


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


def list_completions(hints: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Return what an editor offers, by the place in a file: "" is the top, "roles.*" each role, "retry" below retry.

    Each has its key, perhaps an example as text (`hint`), and the words that are possible as its value. hints: better
    examples by key.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    _add_completions("", JOB, found)
    for offers in found.values():
        for offer in offers:
            offer |= {"hint": hints[offer["key"]]} if offer["key"] in hints else {}
    return found


def _add_completions(place: str, shape: Shape, found: dict[str, list[dict[str, Any]]]) -> None:
    if isinstance(shape, Map):
        _add_completions(f"{place}.*", shape.value, found)
    elif isinstance(shape, Keys):
        fields = list(shape.fields)
        found[place] = [_complete(field) for field in fields]
        for field in fields:
            _add_completions(f"{place}.{field.key}".lstrip("."), field.shape, found)


def _complete(field: Field) -> dict[str, Any]:
    plain = [str(example) for example in field.examples if isinstance(example, str | int)]
    hint = {"hint": ", ".join(plain)} if plain else {}
    return {"key": field.key, **hint, "words": list(_list_words(field.shape))}


def _list_words(shape: Shape) -> Iterable[str]:
    if isinstance(shape, Flag):
        return ("true", "false")
    return shape.known if isinstance(shape, Choice) else ()
