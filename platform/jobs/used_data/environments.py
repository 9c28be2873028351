"""The environment that a job names: pinned to a version when it is submitted, with the image in which it was made."""

from dataclasses import replace

from accounts.models import Team, User
from common.errors import FieldError, InvalidInput
from datasets.naming import read_environment_name
from jobs.jobfile.shapes import pointer_of
from jobs.jobfile.spec import JobSpec
from jobs.used_data.naming import choose_versions


def pin_environment(user: User, team: Team, spec: JobSpec, *, containers: bool) -> JobSpec:
    """Return the spec with its environment's version, and the image of that. containers: whether there are images.

    Raises InvalidInput where it may not be used, or not in the image that the spec names.
    """
    name = read_environment_name(spec.environment) if spec.environment else None
    if name is None:
        return spec
    version = choose_versions(user, team, {"/environment": name})["/environment"]
    base = version.base
    if base and not containers:
        raise InvalidInput([FieldError("/environment", "no_containers")])
    said = {"name": version.job_file_name, "known": base.partition("@")[0]}
    images = {"/image": spec.image, **{pointer_of(["roles", role.name, "image"]): role.image for role in spec.roles}}
    if wrong := [pointer for pointer, image in images.items() if image not in (None, base)]:
        raise InvalidInput([FieldError(pointer, "image_of_environment", said) for pointer in wrong])
    return replace(spec, environment=version.job_file_name, image=base or None)
