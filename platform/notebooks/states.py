"""The states of a notebook. They are read from the job of its newest start, and stored nowhere."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.states import JobState


class NotebookState(models.TextChoices):
    QUEUED = "QUEUED", _("Queued")
    STARTING = "STARTING", _("Starting")
    RUNNING = "RUNNING", _("Running")
    STOPPING = "STOPPING", _("Stopping")
    STOPPED = "STOPPED", _("Stopped")
    FAILED = "FAILED", _("Failed")


def derive_state(job: str | None, *, ready: bool) -> str:
    """job: the state of the newest start's job, None where it was never started. ready: JupyterLab has answered."""
    if job == JobState.RUNNING:
        return NotebookState.RUNNING if ready else NotebookState.STARTING
    if job in (None, JobState.SUCCEEDED, JobState.CANCELLED):
        return NotebookState.STOPPED
    return NotebookState(job)
