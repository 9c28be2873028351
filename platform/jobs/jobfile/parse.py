"""Plain data to JobSpec. Everything that is wrong is found in one pass, so that nobody mends a file error by error."""

from dataclasses import dataclass

from common.errors import FieldError, InvalidInput
from common.resources import duration_text, parse_cpu, parse_duration, parse_gpu, parse_memory
from common.text import shorten
from jobs.jobfile import schema
from jobs.jobfile.beside import read_checkpoint, read_data, read_directory, read_ports
from jobs.jobfile.fields import (
    check_keys,
    fail,
    read_bool,
    read_choice,
    read_code,
    read_env,
    read_image,
    read_keys,
    read_labels,
    read_map,
    read_name,
    read_retry,
    read_role_name,
    read_run,
    read_span,
    read_workdir,
)
from jobs.jobfile.load import pointer_of
from jobs.jobfile.spec import JobSpec

DERIVED_NAME = 40  # characters of `run` that name a job without a name


@dataclass(frozen=True)
class Defaults:
    """What stands in for a key that was not given, such as the person's only team."""

    team: str | None = None
    pool: str | None = None
    name: str | None = None


READERS = {
    "kind": read_choice(("batch",), schema.KINDS_LATER),
    "name": read_name,
    "team": read_name,
    "pool": read_name,
    "image": read_image,
    "code": read_code,
    "run": read_run,
    "gpu": parse_gpu,
    "cpu": parse_cpu,
    "memory": parse_memory,
    "nodes": read_span(1, schema.MAX_NODES),
    "env": read_env,
    "workdir": read_workdir,
    "priority": read_choice(schema.PRIORITIES),
    "time": parse_duration,
    "max_time": parse_duration,
    "retry": read_retry,
    "preemptible": read_bool,
    "labels": read_labels,
    "hold": read_bool,
    "ports": read_ports,
    "tensorboard": read_directory,
    "data": read_data,
    "checkpoint": read_checkpoint,
}
ROLE_READERS = {key: READERS[key] for key in ("run", "gpu", "cpu", "memory", "env", "ports")} | {
    "count": READERS["nodes"]
}
# The key of the file -> the field of JobSpec, where the two differ.
_FIELDS = {
    "cpu": "cpu_milli", "memory": "memory_mib", "time": "time_s", "max_time": "max_time_s", "count": "nodes",
}  # fmt: skip


def parse_spec(data: dict, *, defaults: Defaults = Defaults()) -> JobSpec:
    """The spec that `data` describes. Raises InvalidInput with every error of it (at most `schema.MAX_ERRORS`)."""
    errors = check_keys(data, schema.BUILT, schema.LATER, "")
    found, more = read_keys(data, READERS, "")
    role, in_role, wrong = _read_roles(data)
    errors += more + wrong + _given_twice(data, role or "", in_role)
    found |= in_role
    errors += _check_together(found, errors)
    if errors:
        raise InvalidInput(errors=errors[: schema.MAX_ERRORS])
    return _build(found, role, defaults)


def derive_name(run: str) -> str:
    """A name for a job without one: the beginning of what it runs."""
    words = " ".join(run.split("\n", 1)[0].split())
    return shorten(words, DERIVED_NAME).strip()


def _build(found: dict, role: str | None, defaults: Defaults) -> JobSpec:
    retry = found.pop("retry", {})
    values = {_FIELDS.get(key, key): value for key, value in found.items()}
    values |= {f"retry_{key}": value for key, value in retry.items()}
    if "nodes" in values:
        values["nodes"], most = values["nodes"]
        values["nodes_max"] = most if most > values["nodes"] else None
    if role:
        values["role"] = role
    fallback = {"name": defaults.name or derive_name(found["run"]), "team": defaults.team, "pool": defaults.pool}
    return JobSpec(**(fallback | values))


def _read_roles(data: dict) -> tuple[str | None, dict, list[FieldError]]:
    """(role, what was read of it, errors). This version runs jobs of exactly one role."""
    if data.get("roles") is None:
        return None, {}, []
    try:
        name, given = _only_role(data["roles"])
    except InvalidInput as error:
        return None, {}, error.errors
    pointer = "/roles" + pointer_of([name])
    errors = check_keys(given, schema.ROLE_BUILT, schema.ROLE_LATER, pointer)
    found, more = read_keys(given, ROLE_READERS, pointer)
    return name, found, errors + more


def _only_role(value: object) -> tuple[str, dict]:
    roles = read_map(value, "/roles")
    if not roles:
        fail("/roles", "required")
    if len(roles) > 1:
        fail("/roles", "not_supported_yet", key="roles", feature="several_roles")
    [(name, given)] = roles.items()
    pointer = "/roles" + pointer_of([name])
    return read_role_name(name, pointer), {} if given is None else read_map(given, pointer)


def _given_twice(data: dict, role: str, in_role: dict) -> list[FieldError]:
    """A key that stands in the role and beside it: neither is silently the stronger."""
    errors = []
    for key in in_role:
        other = "nodes" if key == "count" else key
        if data.get(other) is not None:
            errors.append(FieldError("/roles" + pointer_of([role, key]), "given_twice", {"key": key, "other": other}))
    return errors


def _check_together(found: dict, errors: list[FieldError]) -> list[FieldError]:
    """What no single value shows."""
    wrong = []
    # Where a role or its command could not be read, it is not known to be missing.
    unread = any(error.pointer.startswith("/roles") and error.pointer.count("/") < 3 for error in errors)
    if "run" not in found and not unread and not any(error.pointer.endswith("/run") for error in errors):
        wrong.append(FieldError("/run", "required"))
    time_s, max_time_s = found.get("time"), found.get("max_time")
    if time_s and max_time_s and time_s > max_time_s:
        params = {"time": duration_text(time_s), "max_time": duration_text(max_time_s)}
        wrong.append(FieldError("/time", "time_above_max", params))
    return wrong
