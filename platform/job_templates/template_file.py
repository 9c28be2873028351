"""A template: a job file with a head that names its parameters, and ${{ name }} wherever one of them stands.

`${{` is what no shell can read, so a command's own variables are never meant; and it may stand unquoted in YAML. Values
are put into the values that YAML was read to, never into its text, so that none can add a key.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import FieldError, InvalidInput
from common.text import MAX_NAME, bad_character, did_you_mean, shorten_text
from job_templates.parameters import PARAMETERS, Parameter, Value, as_text, read_values
from jobs.jobfile.dump import dump_file
from jobs.jobfile.load import keeps_text, load_jobfile, load_with_lines
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.shapes import Field, Keys, Path, Plain, fail, pointer_of, read_map, read_text, refuse
from jobs.jobfile.spec import JobSpec

HEAD = "template"
MAX_DESCRIPTION = 500
TEMPLATE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

_PLACEHOLDER = re.compile(r"\$\{\{([^{}]*)\}\}")
_OPENING = "${{"
_SAMPLES = {"gpu": "0", "cpu": "1", "memory": "1GB", "duration": "1h"}
_COMMANDS = (("run",), ("main", "run"), ("roles", "*", "run"))


@dataclass(frozen=True)
class TemplateFile:
    """text: as it was written. data: the job file's keys, with their placeholders. lines: {pointer: line}."""

    text: str
    name: str
    description: str
    parameters: dict[str, Parameter]
    data: dict
    lines: dict[str, int]


@dataclass(frozen=True)
class Rendered:
    """A job file made of a template. text: as it is shown, and submitted."""

    values: dict[str, Value]
    text: str
    spec: JobSpec


def load_template(text: str) -> TemplateFile:
    """Read a template that was accepted once, so that it outlives stricter rules of what stands in it."""
    data, lines = load_with_lines(text.encode("utf-8", "surrogatepass"))
    if data.get(HEAD) is None:
        fail(f"/{HEAD}", "no_template_head")
    head = _HEAD.read(read_map(data.pop(HEAD), f"/{HEAD}"), f"/{HEAD}")
    return TemplateFile(text, head["name"], head.get("description", ""), head.get("parameters", {}), data, lines)


def read_template(text: str) -> TemplateFile:
    """Read a template and check that its parameters and placeholders agree. Raises InvalidInput with all errors."""
    file = load_template(text)
    refuse(_check_placeholders(file.data, file.parameters) + _check_token(file.data))
    _check_job(file)
    return file


def render(file: TemplateFile, given: Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> Rendered:
    """Return the job file with these values; defaults stand for the others.

    changes: keys of the job file that are said otherwise, or left out if None; a map such as env is added to the
    file's. Raises InvalidInput: at /values/NAME where a parameter is to blame.
    """
    values = read_values(file.parameters, given)
    text = dump_file(_change(_put(file.data, values), changes or {}))
    try:
        return Rendered(values, text, parse_spec(load_jobfile(text.encode("utf-8", "surrogatepass"))))
    except InvalidInput as error:
        raise InvalidInput([blame_parameter(file, one, changes or {}) for one in error.errors]) from None


def blame_parameter(file: TemplateFile, error: FieldError, changes: Mapping[str, Any]) -> FieldError:
    """Return the error at the parameter whose value stands where it is told, if there is one alone."""
    said_otherwise = error.pointer.split("/")[1:2] != [] and error.pointer.split("/")[1] in changes
    names = set() if said_otherwise else _find_names(file, error.pointer)
    return FieldError(f"/values/{names.pop()}", error.code, error.params) if len(names) == 1 else error


def _change(data: dict, changes: Mapping[str, Any]) -> dict:
    """Return the keys with these changes."""
    changed = dict(data)
    for key, value in changes.items():
        said = changed.get(key)
        changed[key] = {**said, **value} if isinstance(said, dict) and isinstance(value, dict) else value
    return changed


def _put(data: dict, values: Mapping[str, Value]) -> dict:
    return {key: _fill(value, values, (key,)) for key, value in data.items()}


def _fill(value: Any, values: Mapping[str, Value], path: Path) -> Any:
    if isinstance(value, dict):
        return {key: _fill(item, values, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, values, (*path, i)) for i, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    if alone := _PLACEHOLDER.fullmatch(value.strip()):
        return _stand_alone(values[alone[1].strip()], path)
    write = _quote if _is_command(path) else as_text
    return _PLACEHOLDER.sub(lambda found: write(values[found[1].strip()]), value)


def _stand_alone(value: Value, path: Path) -> Any:
    """Return a value that is all that a key says. Empty text leaves the key out, but for a variable or a label."""
    if value == "" and path[-2:-1] not in (("env",), ("labels",)):
        return None
    return as_text(value) if keeps_text(path) else value


def _quote(value: Value) -> str:
    """Write a value as one word of a command, whatever is in it."""
    return shlex.quote(as_text(value))


def _is_command(path: Path) -> bool:
    return any(
        len(path) == len(pattern) and all(part in ("*", step) for part, step in zip(pattern, path, strict=True))
        for pattern in _COMMANDS
    )


def _list_texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str, bool]]:
    """List (path, text, whether it is a key) of all texts."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), key, True
            yield from _list_texts(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _list_texts(item, (*path, i))
    elif isinstance(value, str):
        yield path, value, False


def _check_token(data: dict) -> list[FieldError]:
    """Refuse a token, by which one person's commands would act with the rights of all who run the template."""
    return [FieldError("/token", "token_in_template")] if data.get("token") else []


def _check_placeholders(data: dict, parameters: Mapping[str, Parameter]) -> list[FieldError]:
    errors, used = [], set()
    for path, text, is_key in _list_texts(data):
        if _OPENING in _PLACEHOLDER.sub("", text):
            errors.append(FieldError(pointer_of(path), "bad_placeholder"))
        for found in _PLACEHOLDER.finditer(text):
            name = found[1].strip()
            used.add(name)
            if is_key:
                errors.append(FieldError(pointer_of(path), "placeholder_in_key", {"name": shorten_text(name)}))
            elif name not in parameters:
                near = did_you_mean(name, parameters)
                about = {"name": shorten_text(name)} | ({"did_you_mean": near} if near else {})
                errors.append(FieldError(pointer_of(path), "undeclared_parameter", about))
    unused = [name for name in parameters if name not in used]
    head = (HEAD, "parameters")
    return errors + [FieldError(pointer_of([*head, name]), "unused_parameter", {"name": name}) for name in unused]


def _check_job(file: TemplateFile) -> None:
    """Refuse what would be wrong with any values: what is told where no parameter without a default stands."""
    samples = {name: _sample(one) for name, one in file.parameters.items() if one.is_required}
    try:
        render(file, samples)
    except InvalidInput as error:
        refuse([_tell_of_default(one) for one in error.errors if not samples.keys() & _find_names(file, one.pointer)])


def _tell_of_default(error: FieldError) -> FieldError:
    """Return what is told of a value at the default that it comes from."""
    _, first, *rest = [*error.pointer.split("/"), ""]
    at_default = pointer_of([HEAD, "parameters", rest[0], "default"]) if first == "values" else error.pointer
    return FieldError(at_default, error.code, error.params)


def _sample(parameter: Parameter) -> Value:
    if parameter.kind == "boolean":
        return False
    if parameter.kind in ("integer", "number"):
        limit = parameter.most if parameter.least is None else parameter.least
        return 1 if limit is None else limit  # type: ignore[return-value]
    return parameter.choices[0] if parameter.choices else _SAMPLES.get(parameter.kind, "text")


def _find_names(file: TemplateFile, pointer: str) -> set[str]:
    """Return the parameters that stand at a place of the job file, or the one at /values/NAME."""
    first, *rest = pointer.split("/")[1:] or [""]
    if first == "values":
        return {*rest}
    value: Any = file.data if first else {}
    for part in (first, *rest):
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(value, dict) or key not in value:
            break
        value = value[key]
    if value is file.data:
        return set()
    return {found[1].strip() for _path, text, _key in _list_texts(value) for found in _PLACEHOLDER.finditer(text)}


def _read_template_name(value: object, pointer: str) -> str:
    text = read_text(value, pointer)
    if not TEMPLATE_NAME.fullmatch(text):
        fail(pointer, "bad_template_name", got=shorten_text(text))
    return text


def _read_description(value: object, pointer: str) -> str:
    text = " ".join(read_text(value, pointer).split())
    if len(text) > MAX_DESCRIPTION:
        fail(pointer, "too_long", max=MAX_DESCRIPTION, got=len(text))
    if bad := bad_character(text):
        fail(pointer, "bad_characters", character=bad)
    return text


_HEAD = Keys(
    (
        Field("name", Plain(_read_template_name, {"maxLength": MAX_NAME}), required=True),
        Field("description", Plain(_read_description, {})),
        Field("parameters", PARAMETERS),
    )
)
