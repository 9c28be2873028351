"""Read a job file's roles."""

from common.errors import FieldError, InvalidInput
from jobs.jobfile import schema
from jobs.jobfile.fields import check_keys, fail, read_keys, read_map, read_role_name
from jobs.jobfile.load import pointer_of


def read_roles(value: object, pointer: str, readers: dict) -> dict[str, dict]:
    """Read {name: values of its keys}, in file order, with all errors."""
    given = read_map(value, pointer)
    if not given:
        fail(pointer, "required")
    if len(given) > schema.MAX_ROLES:
        fail(pointer, "too_many", max=schema.MAX_ROLES, got=len(given))
    errors = _check_names(given, pointer)
    roles: dict[str, dict] = {}
    for name, said in given.items():
        try:
            roles[name] = _read_role(said, pointer + pointer_of([name]), readers)
        except InvalidInput as error:
            errors += error.errors
    errors += _check_count(roles, pointer)
    if errors:
        raise InvalidInput(errors=errors)
    return roles


def _read_role(value: object, pointer: str, readers: dict) -> dict:
    given = {} if value is None else read_map(value, pointer)
    errors = check_keys(given, schema.ROLE_SUPPORTED, schema.ROLE_UNSUPPORTED, pointer)
    found, more = read_keys(given, readers, pointer)
    errors += more
    if "run" not in found and not any(error.pointer == f"{pointer}/run" for error in errors):
        errors.append(FieldError(f"{pointer}/run", "required"))
    if errors:
        raise InvalidInput(errors=errors)
    return found


def _check_names(given: dict, pointer: str) -> list[FieldError]:
    """Refuse names that differ only in - and _, as environment variables have no dash."""
    seen: dict[str, str] = {}
    errors = []
    for name in given:
        where, other = pointer + pointer_of([name]), seen.setdefault(name.replace("-", "_"), name)
        try:
            read_role_name(name, where)
        except InvalidInput as error:
            errors += error.errors
        if other != name:
            errors.append(FieldError(where, "role_twice", {"role": name, "other": other}))
    return errors


def _check_count(roles: dict[str, dict], pointer: str) -> list[FieldError]:
    tasks = sum(role.get("count", (1, 1))[1] for role in roles.values())
    if tasks <= schema.MAX_NODES:
        return []
    return [FieldError(pointer, "too_many_tasks", {"max": schema.MAX_NODES, "got": tasks})]
