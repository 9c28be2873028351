"""What comes of a template: a job, or a service."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.urls import reverse

from accounts.models import User
from common.errors import InvalidInput
from job_templates.services import Version, render_job, share_code
from job_templates.template_file import blame_parameter
from jobs.models import JobKind
from jobs.submit import Check, submit_job
from services.services import create_service


def run_or_serve(
    user: User, version: Version, values: Mapping[str, Any], changes: Mapping[str, Any], check: Check, containers: bool
) -> str:
    """Submit the job of these values, or create the service. Returns where it is shown.

    Raises what render_job, jobs.submit.submit_job and services.services.create_service do.
    """
    rendered, origin = render_job(version, values, changes)
    share_code(user, version, rendered.spec.code)
    can: dict[str, Any] = {"check": check, "containers": containers}
    if rendered.spec.kind != JobKind.SERVICE:
        job = submit_job(user=user, spec=rendered.spec, origin=origin, **can)
        return reverse("job", args=[job.public_id])
    try:
        made = create_service(user=user, job_file=rendered.text, **can)
    except InvalidInput as error:
        at_keys = (replace(one, pointer=one.pointer.removeprefix("/job_file")) for one in error.errors)
        raise InvalidInput([blame_parameter(version.file, one, changes) for one in at_keys]) from None
    return reverse("service", args=[made.public_id])
