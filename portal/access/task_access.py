"""Access to running tasks by terminal, SSH and ports.

Only the owner enters, and colleagues to whom the owner opened it, while members or leads of the team: sharing.shares
decides. Unknown and forbidden names get the same answer.
"""

import re
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q

from accounts.models import User
from common.errors import Conflict, NotFound
from common.locks import lock_rows
from events.record_and_publish import record
from jobs.lifecycle import lock_job
from jobs.models import Job, Task
from jobs.states import HOLDING, TaskState
from notebooks.models import Notebook
from sharing.shares import may_enter

SHELL = """[ -z "$NOTEBOOK_FOLDER" ] || cd "$HOME/$NOTEBOOK_FOLDER"
command -v bash >/dev/null 2>&1 || exec sh -l
[ -z "$NOTEBOOK_FOLDER" ] || exec bash -l -c 'PATH="${TESSERA_TOOLS:+$TESSERA_TOOLS/bin:}$PATH" exec bash'
exec bash -l
"""
LOGIN_SHELL = ("/bin/sh", "-c", SHELL)
"""The default command; in a notebook it starts in its folder, with its Python on PATH."""

NOTEBOOK_ID = re.compile(r"nb-([1-9][0-9]{0,17})")
JOB_NAME = re.compile(r"job-([1-9][0-9]{0,17})(?:\.([A-Za-z0-9_-]{1,32})\.([0-9]{1,6}))?")


@dataclass(frozen=True)
class TaskAccess:
    """A running task that a user may enter.

    task: uuid in hex. name: as requested.
    """

    task: str
    name: str
    user_id: int
    team_id: int
    job_id: int
    notebook_id: int | None = None


def find_task_access(user: User, name: str) -> TaskAccess:
    """Return the running task of a notebook (name or `nb-51`) or job (`job-412`, `job-412.main.3`).

    Raises NotFound if there is none to enter, Conflict("not_running", name, state).
    """
    job, role, rank, notebook = _job(user, name)
    if job is None or not may_enter(user, job):
        raise NotFound(name=name)
    place = {"role": role, "rank": rank} if role else {}
    task = job.newest_tasks.filter(**place).order_by("rank").first()
    if task is None:
        raise NotFound(name=name)
    if task.state != TaskState.RUNNING:
        raise Conflict("not_running", name=name, state=task.state.lower())
    return TaskAccess(task.uuid.hex, name, user.pk, job.team_id, job.pk, notebook.pk if notebook else None)


def find_refusal(user_id: int, task: str) -> str:
    """Return why a session must end: "ended", "revoked" or "". Sessions ask now and then."""
    user = User.objects.filter(pk=user_id).first()
    row = Task.objects.filter(uuid=task, state__in=HOLDING).select_related("job__team").first()
    if row is None:
        return "ended"
    return "" if user and may_enter(user, row.job) else "revoked"


@transaction.atomic
def record_session(*, access: TaskAccess, kind: str, seconds: int | None = None) -> None:
    """Record a session's beginning or end in the history.

    kind: "terminal", "ssh", ... seconds: None at its beginning.
    """
    person = User.objects.get(pk=access.user_id)
    task = Task.objects.get(uuid=access.task)
    where = {"kind": kind, "role": task.role, "rank": task.rank}
    params = where if seconds is None else {**where, "seconds": seconds}
    verb = "entered" if seconds is None else "left"
    row = (
        lock_rows(Notebook.objects.filter(pk=access.notebook_id))[0] if access.notebook_id else lock_job(access.job_id)
    )
    record(row, verb, actor=person.as_actor, params=params)


def _job(user: User, name: str) -> tuple[Job | None, str, int, Notebook | None]:
    """Resolve a name to (job, role or "", rank, notebook)."""
    if found := JOB_NAME.fullmatch(name):
        job = Job.objects.visible_to(user).select_related("team").filter(pk=int(found[1])).first()
        return job, found[2] or "", int(found[3] or 0), None
    found = NOTEBOOK_ID.fullmatch(name)
    which = Q(pk=int(found[1])) & (Q(user=user) | Q(job__shares__user=user)) if found else Q(user=user, name=name)
    notebook = Notebook.objects.live().filter(which).select_related("job__team").first()
    if notebook and not notebook.is_started:
        raise Conflict("not_running", name=name, state=notebook.state.lower())
    return notebook.job if notebook else None, "", 0, notebook
