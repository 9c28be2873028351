"""What colleagues opened to a person, with the ways in."""

from dataclasses import dataclass

from django.conf import settings

from accounts.models import User
from jobs.models import Job, JobKind
from jobs.states import JobState
from portal.access.app_links import link_to_notebook
from sharing.shares import find_shared_notebook, list_shares


@dataclass(frozen=True)
class SharedJob:
    """A job that somebody else opened. link: of its JupyterLab, "" if it has none."""

    job: Job
    link: str

    @property
    def runs(self) -> bool:
        return self.job.state == JobState.RUNNING


def list_shared_jobs(user: User) -> list[SharedJob]:
    return [SharedJob(share.job, find_link(share.job)) for share in list_shares(user)]


def find_link(job: Job) -> str:
    """Return the address of a notebook's JupyterLab; "" for any other job, or without a host for apps."""
    notebook = find_shared_notebook(job) if job.kind == JobKind.INTERACTIVE and settings.TESSERA_APPS_URL else None
    return link_to_notebook(notebook) if notebook else ""
