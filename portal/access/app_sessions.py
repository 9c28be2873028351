"""Access to apps: what a browser's session or a notebook's token opens.

For a browser the portal issues a one-time code, which the app's host redeems for a session.
"""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now

from accounts.models import User
from accounts.permissions import PERMISSIONS, may
from common.errors import NotFound, NotPermitted
from common.secrets import digest_secret
from common.steady_clock import steady_now
from jobs.code.git_code import find_from_top
from jobs.jobfile.spec import code_of, from_json, roles_of
from jobs.models import Job, JobKind, JobQuerySet, Task
from jobs.states import TaskState
from jobs.task_access import derive_task_secret
from notebooks.models import Notebook, NotebookQuerySet
from portal.access.app_links import NOTEBOOK_PORT
from portal.access.services.callers import may_call
from portal.access.session_user import load_session_user
from portal.models import App, AppCode, AppKind, AppSession
from services.models import Service, ServiceQuerySet
from sharing.models import Share
from sharing.shares import find_share, note_visit
from sharing.tokens import PREFIX, find_notebook_token

CODE_S, SESSION_S = 30, 12 * 3600
OF_SERVICE = ("service__team", "service__current", "service__rollout")
WITH = ("owner", "job__team", "notebook__team", "notebook__job", *OF_SERVICE)
OPEN = (TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING)


@dataclass(frozen=True)
class AppGrant:
    """What one browser or program may reach on an app's host.

    task: uuid in hex, "" if none runs. authorization: header for the program. name: of job, notebook or service.
    start_path: page to start it. board: directory of a TensorBoard. service: its id; its replicas have the tasks.
    """

    user_id: int
    language: str
    task: str
    port: int
    authorization: str
    name: str
    start_path: str
    board: str = ""
    service: int = 0

    @property
    def is_open(self) -> bool:
        """Whether there is somewhere to go."""
        return bool(self.task or self.service)


def find_app(user: User, label: str) -> App:
    """Return the app. Raises NotFound if `user` does not see what it is of, NotPermitted without the right."""
    app = App.objects.select_related(*WITH).filter(label=label).first()
    if app is not None and _may_open(user, app):
        return app
    if app is None or not _things_of(app).visible_to(user).filter(pk=app.runs_in.pk).exists():
        raise NotFound(name=label)
    if app.service is not None:
        raise NotPermitted("service_opens_to_others", access=app.service.newest.serving.access)
    raise NotPermitted(action=_action(app), needs=sorted(PERMISSIONS[_action(app)]))


@transaction.atomic
def issue_code(*, app: App, user: User, session_key: str, state: str, path: str) -> str:
    """Create a code that works once, with this state, for CODE_S seconds."""
    for old in (AppCode, AppSession):
        old.objects.filter(user=user, expires_at__lt=steady_now()).delete()
    code = secrets.token_urlsafe(32)
    AppCode.objects.create(
        digest=digest_secret(code),
        app=app,
        user=user,
        session_key=session_key,
        state=digest_secret(state),
        path=path,
        expires_at=steady_now() + timedelta(seconds=CODE_S),
    )
    return code


@transaction.atomic
def redeem_code(*, label: str, code: str, state: str) -> tuple[str, str] | None:
    """Return (session secret, path); None if the code is used, expired or another's.

    The UPDATE is the exchange: of two concurrent requests one succeeds.
    """
    mine = AppCode.objects.filter(digest=digest_secret(code), app__label=label, state=digest_secret(state))
    if not mine.filter(used_at__isnull=True, expires_at__gt=steady_now()).update(used_at=Now()):
        return None
    row = mine.get()
    secret = secrets.token_urlsafe(32)
    AppSession.objects.create(
        digest=digest_secret(secret),
        app_id=row.app_id,
        user_id=row.user_id,
        session_key=row.session_key,
        expires_at=steady_now() + timedelta(seconds=SESSION_S),
    )
    return secret, row.path


def load_visit(label: str, secret: str) -> AppGrant | None:
    """Return what the secret opens; None if unknown, signed out or no longer permitted.

    secret: of a browser's session, or a notebook's token.
    """
    return _load_by_token(label, secret) if secret.startswith(PREFIX) else _load_by_session(label, secret)


def _load_by_token(label: str, secret: str) -> AppGrant | None:
    token = find_notebook_token(secret)
    app = App.objects.select_related(*WITH).filter(label=label).first() if token else None
    if token is None or app is None or app.notebook_id != token.notebook_id or not _may_open(token.user, app):
        return None
    return _visit(token.user, app)


def _load_by_session(label: str, secret: str) -> AppGrant | None:
    rows = AppSession.objects.select_related(*(f"app__{name}" for name in WITH))
    row = rows.filter(digest=digest_secret(secret), app__label=label, expires_at__gt=steady_now()).first()
    person = load_session_user(row.session_key) if row else None
    if row is None or person is None or person.pk != row.user_id or not _may_open(person, row.app):
        return None
    if person.pk != row.app.owner_id and (share := _find_share(person, row.app)):
        note_visit(share)
    return _visit(person, row.app)


def _things_of(app: App) -> NotebookQuerySet | JobQuerySet | ServiceQuerySet:
    if app.service_id:
        return Service.objects.all()
    return Notebook.objects.all() if app.notebook_id else Job.objects.all()


def _action(app: App) -> str:
    """Return the permission needed: JupyterLab is the owner's only, ports are also the team's."""
    return "job.enter" if app.notebook_id or _is_jupyter(app) else "port.open"


def _is_jupyter(app: App) -> bool:
    """Whether it is the port of a notebook's JupyterLab: who was let in once may have kept the secret of its task."""
    return app.job is not None and app.job.kind == JobKind.INTERACTIVE and app.port == NOTEBOOK_PORT


def _may_open(user: User, app: App) -> bool:
    if app.service is not None:
        return app.service.deleted_at is None and may_call(user, app.service)
    gone = app.notebook is not None and app.notebook.deleted_at is not None
    return not gone and (may(user, _action(app), app.runs_in.team, app.owner_id) or _find_share(user, app) is not None)


def _find_share(user: User, app: App) -> Share | None:
    """Return the share by which a colleague opens a notebook."""
    job = app.notebook.job if app.notebook else None
    return find_share(user, job) if job is not None else None


def _visit(user: User, app: App) -> AppGrant:
    if app.service is not None:
        start_path = f"/services/{app.service.public_id}/"
        return AppGrant(user.pk, user.language, "", 0, "", app.service.name, start_path, service=app.service.pk)
    task = _open_task(app)
    name = app.runs_in.public_id
    return AppGrant(
        user_id=user.pk,
        language=user.language,
        task=task.uuid.hex if task else "",
        port=int(task.ports.get(str(app.port), app.port)) if task else 0,
        authorization=f"token {derive_task_secret(task.uuid)}" if task and app.notebook_id else "",
        name=name,
        start_path=f"/n/{name}/open" if app.notebook_id else f"/j/{name}/",
        board=_find_board(app.job) if app.job and app.kind == AppKind.TENSORBOARD else "",
    )


def _find_board(job: Job) -> str:
    """Return the directory of a job's TensorBoard, which runs beside its first task; "" without one."""
    spec = from_json(job.spec)
    return find_from_top(spec.tensorboard, *code_of(spec, roles_of(spec)[0])) if spec.tensorboard else ""


def _open_task(app: App) -> Task | None:
    job = app.notebook.job if app.notebook else app.job
    if job is None:
        return None
    place = {} if app.notebook_id else {"role": app.role, "rank": app.rank}
    return job.newest_tasks.filter(state__in=OPEN, **place).first()
