"""States of a notebook, derived from the job of its newest start."""

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
    """Return a notebook's state. job: its newest start's state. ready: JupyterLab answered."""
    if job == JobState.RUNNING:
        return NotebookState.RUNNING if ready else NotebookState.STARTING
    if job in (None, JobState.SUCCEEDED, JobState.CANCELLED):
        return NotebookState.STOPPED
    return NotebookState(job)
