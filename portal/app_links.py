"""The addresses of people's apps: one host name for each, so that browsers keep them apart from the portal and from
each other.

    A  https://<label>.apps.example.net    a wildcard host (TESSERA_APPS_URL), better of another registrable domain
    B  http://<label>.localhost:PORT       on one machine or through ssh -L; browsers map *.localhost to loopback

A portal that is known by an IP address only has no apps: a second port is no wall (cookies know no ports), and a path
of the portal's own is never one.
"""

import re
import secrets
from urllib.parse import urlsplit

from django.conf import settings

from accounts.models import User
from common.errors import Unavailable
from jobs.models import Job, Task
from notebooks.models import Notebook
from portal.models import App, AppKind
from portal.origin import origin_of

ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
LABEL = re.compile(rf"[{ALPHABET}]{{20}}")  # 100 random bits
NOTEBOOK_PORT, TENSORBOARD_PORT = 8888, 6006


def link_to_notebook(notebook: Notebook) -> str:
    """The address of a notebook, the same for all of its starts."""
    return _link(notebook.user, kind=AppKind.NOTEBOOK, notebook=notebook, port=NOTEBOOK_PORT)


def link_to_port(task: Task, port: int) -> str:
    """The address of a port of this task, and of the tasks that take its place in later attempts."""
    return _link(task.job.user, kind=AppKind.PORT, job=task.job, role=task.role, rank=task.rank, port=port)


def link_to_tensorboard(job: Job) -> str:
    """The address of the TensorBoard that runs beside the job's first task."""
    first = job.newest_tasks[0]
    return _link(job.user, kind=AppKind.TENSORBOARD, job=job, role=first.role, rank=first.rank, port=TENSORBOARD_PORT)


def is_app_host(host: str) -> str | None:
    """The label where `host` (name and port, as browsers send it) is the host of an app, or could be; else None."""
    if not settings.TESSERA_APPS_URL:
        return None
    name = host.lower().rpartition(":")[0] if re.search(r":\d+$", host) else host.lower()
    label, _, rest = name.partition(".")
    domain = (urlsplit(settings.TESSERA_APPS_URL).hostname or "").removeprefix("*.")
    return label if rest == domain and LABEL.fullmatch(label) else None


def app_origin(label: str) -> str:
    """scheme://host[:port] of an app, as browsers write it in Origin."""
    return origin_of(settings.TESSERA_APPS_URL.replace("*", label))


def _link(owner: User, **which: object) -> str:
    """The app's address; made when it is asked for the first time. Raises Unavailable where apps have no host."""
    if not settings.TESSERA_APPS_URL:
        raise Unavailable("no_app_host")
    app, _ = App.objects.get_or_create(**which, defaults={"label": _label(), "owner": owner})
    return app_origin(app.label) + "/"


def _label() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(20))
