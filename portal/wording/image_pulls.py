"""Image pulls in words: progress and remedies."""

import re
from collections.abc import Iterable
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.resources import show_duration
from jobs.models import Job, Task
from jobs.reason_messages import end_hint
from jobs.states import TaskState

HINTS = (
    ("no space left on device", gettext_lazy("The machine's disk is full: tell an administrator.")),
    (
        "no match for platform|no matching manifest|exec format error",
        gettext_lazy("The image is for another kind of processor: use one for this kind, or for several."),
    ),
    (
        "unauthorized|authorization failed|access denied|denied:|forbidden|authentication required|no basic auth",
        gettext_lazy(
            "The registry denies access: the image may be private. Ask your team's lead for a login there, and "
            "check the name."
        ),
    ),
    (
        "not found|manifest unknown|name unknown|image not known",
        gettext_lazy("The registry has no such image: check name and tag."),
    ),
    ("no such host", gettext_lazy("There is no registry with this name: check how the image is written.")),
    (
        "x509|certificate|tls:|http: server gave HTTP response",
        gettext_lazy("The machine does not trust the registry's certificate: tell an administrator."),
    ),
    (
        "timeout|timed out|connection refused|connection reset|unreachable|deadline exceeded|EOF",
        gettext_lazy("The registry did not respond. Retry the job; if it happens again, tell an administrator."),
    ),
    ("toomanyrequests|too many requests|429", gettext_lazy("The registry limits requests. Retry the job later.")),
    (
        "invalid reference|parse image name",
        gettext_lazy("This is not a valid image name. Write it like registry/name:tag."),
    ),
)
"""(pattern, hint) for messages of engines and registries; the first match counts."""


def pull_hint(words: str) -> str:
    """Return what to do about an engine's message for a failed pull."""
    for pattern, hint in HINTS:
        if re.search(pattern, words, re.IGNORECASE):
            return str(hint)
    return end_hint("image_pull")


def job_hint(job: Job, tasks: Iterable[Task]) -> str:
    """Return what to do about the job's end. tasks: of the newest attempt."""
    return next((task_hint(task) for task in tasks if task.reason == job.reason), end_hint(job.reason))


def task_hint(task: Task) -> str:
    return pull_hint(task.detail) if task.reason == "image_pull" else end_hint(task.reason)


def start_sentence(job: Job, tasks: Iterable[Task]) -> str:
    """Return what delays these tasks' start, or ""."""
    starting = [task for task in tasks if task.state in (TaskState.ASSIGNED, TaskState.STARTING) and task.node]
    stuck = next((task for task in starting if task.detail), None)
    if stuck is not None and stuck.node:
        said = {"node": stuck.node.name, "words": stuck.detail}
        return _("Cannot start on %(node)s yet, retrying: %(words)s") % said
    fetching = [
        (task.fetching_since, task.node.name, task.role) for task in starting if task.fetching_since and task.node
    ]
    return _fetching_sentence(job, *min(fetching)) if fetching else ""


def _fetching_sentence(job: Job, since: datetime, node: str, role: str) -> str:
    took = round((timezone.now() - since).total_seconds())
    named = job.spec.get("roles", {}).get(role, {}).get("image") or job.spec.get("image") or ""
    image = named.partition("@")[0]  # without digest
    said = {"node": node, "took": show_duration(max(took, 1)), "image": image}
    if not image:
        return _("Pulling the image on %(node)s, %(took)s so far.") % said
    return _("Pulling the image %(image)s on %(node)s, %(took)s so far.") % said
