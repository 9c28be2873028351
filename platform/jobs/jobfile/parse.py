"""Parse plain data into a JobSpec, finding all errors in one pass."""

from dataclasses import dataclass
from typing import Any

from common.errors import FieldError
from common.resources import duration_text
from common.text import shorten_text
from datasets.naming import is_environment_name
from jobs.jobfile.description import JOB, NOT_IN_SERVICE, NOT_WITH_ROLES
from jobs.jobfile.shapes import pointer_of, refuse
from jobs.jobfile.spec import LEVELS, JobSpec, RoleSpec, to_json
from secret_store.names import MOST_OF_A_TASK

MAX_ERRORS = 50  # in one answer
DERIVED_NAME = 40  # characters
ENVIRONMENT_FOLDER = "env"
"""What `outputs` call the folder of an environment, which stands outside of the working directory."""


@dataclass(frozen=True)
class Defaults:
    """Values for keys that were not given."""

    team: str | None = None
    pool: str | None = None
    name: str | None = None


def parse_spec(data: dict, *, defaults: Defaults = Defaults()) -> JobSpec:
    """Parse a job spec. Raises InvalidInput with all errors."""
    found, errors = JOB.collect(data, "")
    refuse((errors + _check_together(data, found))[:MAX_ERRORS])
    return _build(found, defaults)


def derive_name(run: str) -> str:
    words = " ".join(run.split("\n", 1)[0].split())
    return shorten_text(words, DERIVED_NAME).strip()


def _build(found: dict, defaults: Defaults) -> JobSpec:
    retry, roles = found.pop("retry", {}), found.pop("roles", {})
    values = _spread(found) | {f"retry_{key}": value for key, value in retry.items()}
    values["roles"] = tuple(RoleSpec(name=name, **_spread(role)) for name, role in roles.items())
    run = next((role["run"] for role in roles.values()), "") or found["run"]
    fallback: dict[str, Any] = {"name": defaults.name or derive_name(run), "team": defaults.team, "pool": defaults.pool}
    return JobSpec(**(fallback | values))


def _check_outputs(found: dict) -> list[FieldError]:
    """Refuse two that stand in one place, and two of one name."""
    outputs = found.get("outputs", {})
    mounted = {target for each in (found, *found.get("roles", {}).values()) for target in each.get("data", {})}
    names = [*outputs.values()]
    wrong = [(target, "data_twice", {"target": target}) for target in outputs if target in mounted]
    wrong += [
        (target, "output_twice", {"name": name})
        for at, (target, name) in enumerate(outputs.items())
        if name in names[:at]
    ]
    wrong += [
        (target, "environment_output", {"name": name})
        for target, name in outputs.items()
        if is_environment_name(name) and (target != ENVIRONMENT_FOLDER or found.get("environment"))
    ]
    return [FieldError(pointer_of(["outputs", target]), code, said) for target, code, said in wrong]


def _check_main(found: dict) -> list[FieldError]:
    main, roles = found.get("main"), found.get("roles", {})
    if main is None or not roles:
        return []
    if main.role not in roles:
        return [FieldError("/main/role", "unknown_role", {"got": main.role, "known": ", ".join(roles)})]
    if main.ends_job and roles[main.role].get("ends_job"):
        said = {"key": "ends_job", "role": main.role}
        return [FieldError(pointer_of(["roles", main.role, "ends_job"]), "main_ends_job", said)]
    return []


def _spread(found: dict) -> dict[str, Any]:
    """Return the values with `nodes` as least and most."""
    if "nodes" not in found:
        return found
    least, most = found["nodes"]
    return {**found, "nodes": least, "nodes_max": most if most > least else None}


def _check_together(data: dict, found: dict) -> list[FieldError]:
    """Return errors that involve several keys."""
    wrong = []
    if data.get("roles") is not None:
        beside = [key for key in NOT_WITH_ROLES if data.get(key) is not None]
        wrong += [FieldError(f"/{key}", "beside_roles", {"key": key}) for key in beside]
        wrong += [
            FieldError(pointer_of(["roles", name, of, key]), "given_twice", {"key": key, "other": key})
            for name, role in found.get("roles", {}).items()
            for of in ("env", "secrets", "data")
            for key in role.get(of, {})
            if key in found.get(of, {})
        ]
        wrong += _check_main(found)
    elif data.get("main") is not None:
        wrong.append(FieldError("/main", "main_without_roles"))
    elif data.get("run") is None:
        wrong.append(FieldError("/run", "required"))
    set_in_env = {name for each in (found, *found.get("roles", {}).values()) for name in each.get("env", {})}
    wrong += _check_secrets(found, set_in_env)
    wrong += _check_place(found)
    wrong += _check_elements(found, set_in_env)
    wrong += _check_outputs(found)
    wrong += _check_service(data, found)
    time_s, max_time_s = found.get("time_s"), found.get("max_time_s")
    if time_s and max_time_s and time_s > max_time_s:
        params = {"time": duration_text(time_s), "max_time": duration_text(max_time_s)}
        wrong.append(FieldError("/time", "time_above_max", params))
    return wrong


def _check_place(found: dict) -> list[FieldError]:
    """Refuse a wish for what `same` gives already, and a `place` that says nothing."""
    place = found.get("place")
    if place is None:
        return []
    if not place.same and not place.prefer:
        return [FieldError("/place", "place_empty")]
    if place.same and place.prefer and LEVELS.index(place.prefer) <= LEVELS.index(place.same):
        return [FieldError("/place/prefer", "place_needless", {"same": place.same})]
    return []


def _check_secrets(found: dict, set_in_env: set[str]) -> list[FieldError]:
    """Refuse a name that is a variable of env for the same tasks, and more secrets than a task can have."""
    of_all, roles = found.get("secrets", {}), found.get("roles", {})
    both = [["secrets", name] for name in of_all if name in set_in_env]
    both += [
        ["roles", role, "secrets", name]
        for role, said in roles.items()
        for name in said.get("secrets", {})
        if name in found.get("env", {}) or name in said.get("env", {})
    ]
    wrong = [FieldError(pointer_of(path), "secret_in_env", {"name": path[-1]}) for path in both]
    counts = {role: len(said["secrets"]) + len(of_all) for role, said in roles.items() if said.get("secrets")}
    return wrong + [
        FieldError(pointer_of(["roles", role, "secrets"]), "too_many", {"max": MOST_OF_A_TASK, "got": count})
        for role, count in counts.items()
        if count > MOST_OF_A_TASK
    ]


def _check_elements(found: dict, set_in_env: set[str]) -> list[FieldError]:
    array, search = found.get("array"), found.get("search")
    wish = array or search
    if wish is None:
        return []
    if array and search:
        return [FieldError("/search", "search_beside_array")]
    path = ["array"] if array else ["search", "space"]
    secrets = {name for each in (found, *found.get("roles", {}).values()) for name in each.get("secrets", {})}
    elsewhere = [(name, "env") for name in set_in_env] + [(name, "secrets") for name in secrets]
    wrong = [
        FieldError(pointer_of([*path, name]), "array_name_twice", {"name": name, "key": key, "of": path[-1]})
        for name, key in sorted(elsewhere)
        if name in wish.names
    ]
    return wrong + ([FieldError("/hold", "array_held")] if found.get("hold") else [])


def _check_service(data: dict, found: dict) -> list[FieldError]:
    serve = found.get("serve")
    if found.get("kind") != "service":
        return [FieldError("/serve", "serve_without_service")] if data.get("serve") is not None else []
    usual = to_json(JobSpec(name=""))  # which a stored file says in full
    refused = [key for key in NOT_IN_SERVICE if data.get(key) not in (None, usual.get(key))]
    wrong = [FieldError(f"/{key}", "not_in_service", {"key": key}) for key in refused]
    if data.get("serve") is None:
        return [*wrong, FieldError("/serve", "required")]
    if serve and serve.replicas[1] == 0:
        wrong.append(FieldError("/serve/replicas", "no_replicas"))
    return wrong
