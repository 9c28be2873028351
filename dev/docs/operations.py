"""The reference of the API: a page for each noun, from docs/openapi.json. The standard library only."""

from collections.abc import Iterator

FOLDER = "reference/api/"
DEPTH = 3
"""How deep the fields of a body are listed."""


def describe_operations(openapi: dict) -> dict[str, str]:
    """Return {address of the page below docs: its Markdown}, by the operations' tags."""
    nouns: dict[str, list[str]] = {}
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            if "operationId" in operation:
                tag = operation["tags"][0]
                title = f"# {tag.replace('-', ' ').capitalize()}"
                nouns.setdefault(tag, [title, ""]).extend(_describe(method, path, operation, openapi))
    return {f"{FOLDER}{tag}.md": "\n".join(lines) for tag, lines in sorted(nouns.items())}


def _describe(method: str, path: str, operation: dict, openapi: dict) -> list[str]:
    shown = path.removeprefix("/api/v1")
    lines = [f"## `{method.upper()} {shown}` {{ #{operation['operationId']} }}", ""]
    lines += [_escape(part) + "\n" for part in operation.get("description", "").split("\n\n")]
    lines += _parameters(operation.get("parameters", []))
    body = operation.get("requestBody", {}).get("content", {})
    if body:
        lines += [f"**Body**, as {', '.join(f'`{kind}`' for kind in body)}:", "", *_fields(body, openapi)]
    answers = {status: one for status, one in operation["responses"].items() if status < "400"}
    for status, answer in answers.items():
        lines += [
            f"**{status}** {_escape(answer.get('description', ''))}",
            "",
            *_fields(answer.get("content", {}), openapi),
        ]
    refused = {status: one for status, one in operation["responses"].items() if status >= "400"}
    if refused:
        lines += ['??? note "Refusals"', "", "    | Status | When |", "    |---|---|"]
        lines += [f"    | {status} | {_escape(one.get('description', ''))} |" for status, one in refused.items()]
    return [*lines, ""]


def _parameters(parameters: list[dict]) -> list[str]:
    if not parameters:
        return []
    rows = [
        f"| `{one['name']}` | {one['in']} | {_type(one['schema'], {})} | {_escape(one.get('description', ''))} |"
        for one in parameters
    ]
    return ["| Parameter | In | Type | Is |", "|---|---|---|---|", *rows, ""]


def _fields(content: dict, openapi: dict) -> list[str]:
    schema: dict = next((one.get("schema", {}) for one in content.values()), {})
    if schema.get("$ref", "").endswith("/JobFile"):
        return ["A job file: [every key](../job-file.md).", ""]
    rows = list(_rows(schema, "", openapi, 0))
    return ["| Field | Type | Is |", "|---|---|---|", *rows, ""] if rows else []


def _rows(schema: dict, above: str, openapi: dict, depth: int) -> Iterator[str]:
    """Yield a line for each field; those of lists and objects below it, as `above.field`."""
    schema, above = _inner(schema, above, openapi)
    if depth == DEPTH:
        return
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        needed = "" if name in required or field.get("readOnly") else ", optional"
        words = _escape(_resolve(field, openapi).get("description", ""))
        yield f"| `{above}{name}` | {_type(field, openapi)}{needed} | {words} |"
        yield from _rows(field, f"{above}{name}.", openapi, depth + 1)


def _inner(schema: dict, above: str, openapi: dict) -> tuple[dict, str]:
    """Return the object whose fields are listed: of a list, that of its entries."""
    schema = _resolve(schema, openapi)
    while schema.get("type") == "array":
        schema, above = _resolve(schema["items"], openapi), f"{above[:-1]}[]." if above else "[]."
    return schema, above


def _resolve(schema: dict, openapi: dict) -> dict:
    """Follow references, and what can be null or one thing only."""
    for key in ("allOf", "anyOf", "oneOf"):
        real = [one for one in schema.get(key, ()) if one.get("type") != "null" and "const" not in one]
        if len(real) == 1:
            return {
                **_resolve(real[0], openapi),
                **({"description": schema["description"]} if "description" in schema else {}),
            }
    if "$ref" in schema:
        return _resolve(
            openapi.get("components", {}).get("schemas", {}).get(schema["$ref"].rpartition("/")[2], {}), openapi
        )
    return schema


def _type(schema: dict, openapi: dict) -> str:
    schema = _resolve(schema, openapi) if openapi else schema
    if words := [one["const"] for one in schema.get("oneOf", ()) if "const" in one] or schema.get("enum"):
        return ", ".join(f"`{word}`" for word in words)
    kinds = schema.get("type", "any")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    name = " or ".join(
        f"list of {_type(schema.get('items', {}), openapi)}" if kind == "array" else kind for kind in kinds
    )
    return f"{name} ({schema['format']})" if "format" in schema else name


def _escape(text: str) -> str:
    """Return it in one line, without the list of an enumeration's values, which its type names."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("* `")]
    return " ".join(" ".join(lines).split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
