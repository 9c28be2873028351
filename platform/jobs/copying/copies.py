"""Job files of new jobs that are made from an earlier one."""

from dataclasses import replace

from accounts.models import User
from accounts.permissions import may
from common.errors import Conflict
from jobs.arrays.models import JobArray
from jobs.code.git_code import is_git, without_commit
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.spec import JobSpec, change_code, change_images, from_json
from jobs.models import CodePack, Job, JobKind
from jobs.submit import Check, Origin, submit_job
from jobs.used_secrets.naming import split_wish
from runtimes.images.names import read_image


def copy_file(user: User, job: Job | JobArray) -> dict:
    """Return the keys of the file of a job or an array as this person may submit them: without code of others or a
    foreign team.

    Whose a secret is, is found anew: one's own goes before the team's.
    """
    data = load_jobfile(dump_yaml(from_json(job.spec)).encode())
    data.pop("hold", None)
    if job.user_id != user.pk:
        data.pop("token", None)
    for each in (data, *data.get("roles", {}).values()):
        if "secrets" in each:
            each["secrets"] = {name: split_wish(wish)[1] for name, wish in each["secrets"].items()}
    if not may(user, "job.submit", job.team):
        data.pop("team", None)
    for each in (data, *data.get("roles", {}).values()):
        if not _may_use(user, each.get("code", "")):
            each.pop("code", None)
    return data


def rerun_job(
    *, user: User, parent: Job, exact: bool, check: Check, containers: bool, key: str = "", body: bytes = b""
) -> Job:
    """Submit a job's file once more, as a new job whose parent it is. Raises what build_rerun and submit_job raise."""
    spec, origin = build_rerun(user, parent, exact=exact), Origin(template=parent.template, parent=parent)
    return submit_job(user=user, spec=spec, check=check, containers=containers, key=key, body=body, origin=origin)


def build_rerun(user: User, job: Job, *, exact: bool) -> JobSpec:
    """Return the spec with which a job is run once more. When it is to start is not copied: at once, as it may.

    Another person's token is not copied either: his commands would act for whoever copies them.
    exact: its file as it was accepted, with the bytes of its image and its code; else what its image's name means now,
    and without code that is not the person's own. Raises Conflict for the job of a notebook.
    """
    if job.kind != JobKind.BATCH:
        raise Conflict("only_batch_jobs_rerun")
    spec = from_json(job.spec) if exact else parse_spec(copy_file(user, job))
    if not exact:
        spec = change_images(spec, _without_digest)
        spec = change_code(spec, lambda text, _: without_commit(text))
    token = spec.token if job.user_id == user.pk else ()
    return replace(spec, hold=False, start_at=None, after={}, token=token)


def _may_use(user: User, code: str) -> bool:
    return is_git(code) or CodePack.objects.filter(user=user, digest=code).exists()


def _without_digest(text: str, _pointer: str) -> str:
    """Return an image's name with its tag alone; one that has only a digest stays."""
    image = read_image(text)
    return image.at("") if image.tag else text
