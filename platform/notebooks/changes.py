"""Check and apply the settings of a notebook."""

import re
from dataclasses import replace
from typing import Any

from accounts.models import User
from common.errors import FieldError, InvalidInput
from common.resources import parse_gpu
from common.text import shorten_text
from jobs.jobfile.shapes import pointer_of, refuse
from jobs.jobfile.spec import JobSpec
from jobs.jobfile.values import DATA, ENV, SECRETS, read_environment
from jobs.submit import choose_pool, find_team
from jobs.used_secrets.naming import resolve_secrets
from quotas.services import get_notebook_hours

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
OTHERS_NAMES = re.compile(r"(nb|job)-[0-9]+")
"""These are ids at the SSH gateway."""

CHANGES = ("name", "gpu", "cpu_milli", "memory_mib", "pool", "env", "secrets", "data", "environment", "hours")


def check_notebook_name(name: str) -> str:
    """Check a name, which also names a folder and an SSH host."""
    if not NAME.fullmatch(name) or OTHERS_NAMES.fullmatch(name):
        raise InvalidInput([FieldError("/name", "bad_notebook_name", {"got": shorten_text(name)})])
    return name


def apply_changes(user: User, spec: JobSpec, changes: dict[str, Any]) -> JobSpec:
    """Apply settings to a spec. Raises InvalidInput with all errors."""
    made: dict[str, Any] = {}
    errors: list[FieldError] = []
    for key, value in changes.items():
        try:
            made |= _read_change(user, key, value)
        except InvalidInput as error:
            errors += error.errors
    if errors:
        raise InvalidInput(errors)
    changed = replace(spec, **made)
    if made.get("secrets") or (changed.secrets and "env" in made):
        _check_secrets(user, changed)
    if "pool" in made:  # whether it exists, with quota
        choose_pool(user=user, spec=changed, check=lambda draft: None, containers=True)
    return changed


def _read_change(user: User, key: str, value: Any) -> dict[str, Any]:
    if key == "name":
        return {"name": check_notebook_name(value)}
    if key == "gpu":
        return {"gpu": parse_gpu(value)}
    if key == "env":
        return {"env": ENV.read(value, "/env")}
    if key == "secrets":
        return {"secrets": SECRETS.read(value, "/secrets")}
    if key == "data":
        return {"data": DATA.read(value, "/data")}
    if key == "environment":
        return {"environment": read_environment(value, "/environment") if value else None}
    if key == "hours":
        return {"max_time_s": _seconds(value, get_notebook_hours(user))}
    if key in ("cpu_milli", "memory_mib", "pool"):
        return {key: value}
    raise InvalidInput([FieldError(f"/{key}", "unknown_value", {"got": key, "allowed": list(CHANGES)})])


def _check_secrets(user: User, spec: JobSpec) -> None:
    """Refuse names that are variables of env too, or that nobody has set. Whose they are is found at each start."""
    both = [name for name in spec.secrets if name in spec.env]
    refuse([FieldError(pointer_of(["secrets", name]), "secret_in_env", {"name": name}) for name in both])
    resolve_secrets(user, find_team(user, spec.team), spec.secrets)


def _seconds(hours: int | None, most: int | None) -> int | None:
    """Return seconds; None for the person's limit."""
    if hours is None:
        return None
    if hours < 1:
        raise InvalidInput([FieldError("/hours", "too_small", {"min": 1, "got": hours})])
    if hours > (most if most is not None else 24 * 366):
        raise InvalidInput([FieldError("/hours", "too_large", {"max": most or 24 * 366, "got": hours})])
    return hours * 3600
