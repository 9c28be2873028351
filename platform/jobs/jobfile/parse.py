"""Parse plain data into a JobSpec, finding all errors in one pass."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from common.errors import FieldError, InvalidInput
from common.resources import duration_text, parse_cpu, parse_duration, parse_gpu, parse_memory
from common.text import shorten
from jobs.jobfile import schema
from jobs.jobfile.field_readers import read_checkpoint, read_data, read_directory, read_ports
from jobs.jobfile.fields import (
    check_keys,
    read_bool,
    read_choice,
    read_code,
    read_env,
    read_image,
    read_keys,
    read_labels,
    read_name,
    read_retry,
    read_run,
    read_span,
    read_workdir,
)
from jobs.jobfile.load import pointer_of
from jobs.jobfile.roles import read_roles
from jobs.jobfile.spec import JobSpec, RoleSpec

DERIVED_NAME = 40  # characters


@dataclass(frozen=True)
class Defaults:
    """Values for keys that were not given."""

    team: str | None = None
    pool: str | None = None
    name: str | None = None


READERS: dict[str, Callable[[object, str], Any]] = {
    "kind": read_choice(("batch",), schema.KINDS_UNSUPPORTED),
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
    "roles": lambda value, pointer: read_roles(value, pointer, ROLE_READERS),
}
ROLE_READERS: dict[str, Callable[[object, str], Any]] = {
    **{key: READERS[key] for key in ("run", "gpu", "cpu", "memory", "env", "ports")},
    "count": READERS["nodes"],
    "ends_job": read_choice(schema.ENDS_JOB),
}
# Key of the file -> field of JobSpec, where they differ.
_FIELDS = {
    "cpu": "cpu_milli", "memory": "memory_mib", "time": "time_s", "max_time": "max_time_s", "count": "nodes",
}  # fmt: skip


def parse_spec(data: dict, *, defaults: Defaults = Defaults()) -> JobSpec:
    """Parse a job spec. Raises InvalidInput with all errors."""
    errors = check_keys(data, schema.SUPPORTED, schema.UNSUPPORTED, "")
    found, more = read_keys(data, READERS, "")
    errors += more
    errors += _check_together(data, found, errors)
    if errors:
        raise InvalidInput(errors=errors[: schema.MAX_ERRORS])
    return _build(found, defaults)


def derive_name(run: str) -> str:
    words = " ".join(run.split("\n", 1)[0].split())
    return shorten(words, DERIVED_NAME).strip()


def _build(found: dict, defaults: Defaults) -> JobSpec:
    retry, roles = found.pop("retry", {}), found.pop("roles", {})
    values = _fields(found) | {f"retry_{key}": value for key, value in retry.items()}
    values["roles"] = tuple(RoleSpec(name=name, **_fields(role)) for name, role in roles.items())
    run = next((role["run"] for role in roles.values()), "") or found["run"]
    fallback: dict[str, Any] = {"name": defaults.name or derive_name(run), "team": defaults.team, "pool": defaults.pool}
    return JobSpec(**(fallback | values))


def _fields(found: dict) -> dict[str, Any]:
    values = {_FIELDS.get(key, key): value for key, value in found.items()}
    if "nodes" in values:
        values["nodes"], most = values["nodes"]
        values["nodes_max"] = most if most > values["nodes"] else None
    return values


def _check_together(data: dict, found: dict, errors: list[FieldError]) -> list[FieldError]:
    """Return errors that involve several keys."""
    wrong = []
    if data.get("roles") is not None:
        beside = [key for key in schema.NOT_WITH_ROLES if data.get(key) is not None]
        wrong += [FieldError(f"/{key}", "beside_roles", {"key": key}) for key in beside]
        twice = [(name, key) for name, role in found.get("roles", {}).items() for key in role.get("env", {})]
        wrong += [
            FieldError(pointer_of(["roles", name, "env", key]), "given_twice", {"key": key, "other": key})
            for name, key in twice
            if key in found.get("env", {})
        ]
    elif "run" not in found and not any(error.pointer == "/run" for error in errors):
        wrong.append(FieldError("/run", "required"))
    time_s, max_time_s = found.get("time"), found.get("max_time")
    if time_s and max_time_s and time_s > max_time_s:
        params = {"time": duration_text(time_s), "max_time": duration_text(max_time_s)}
        wrong.append(FieldError("/time", "time_above_max", params))
    return wrong
