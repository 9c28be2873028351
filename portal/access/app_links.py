"""Host names of people's apps: one each, so that browsers separate them.

TESSERA_APPS_URL is a wildcard host, best under another registrable domain, or http://<label>.localhost:PORT. A portal
known by IP address only has no apps: cookies ignore ports, and paths share its origin.
"""

import re
import secrets
from functools import lru_cache
from urllib.parse import urlsplit

from django.conf import settings

from accounts.models import User
from common.errors import Unavailable
from jobs.models import Job, Task
from notebooks.models import Notebook
from portal.access.origin import origin_of
from portal.models import App, AppKind
from services.models import Service

ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
LABEL = re.compile(rf"[{ALPHABET}]{{20}}")  # 100 random bits
NOTEBOOK_PORT, TENSORBOARD_PORT = 8888, 6006


def link_to_notebook(notebook: Notebook) -> str:
    """Return a notebook's URL, the same for all starts."""
    return _link(notebook.user, kind=AppKind.NOTEBOOK, notebook=notebook, port=NOTEBOOK_PORT)


def link_to_port(task: Task, port: int) -> str:
    """Return the URL of a task's port, the same for all attempts."""
    return _link(task.job.user, kind=AppKind.PORT, job=task.job, role=task.role, rank=task.rank, port=port)


def link_to_tensorboard(job: Job) -> str:
    """Return the URL of the TensorBoard of the job's first task."""
    first = job.newest_tasks[0]
    return _link(job.user, kind=AppKind.TENSORBOARD, job=job, role=first.role, rank=first.rank, port=TENSORBOARD_PORT)


def link_to_service(service: Service) -> str:
    """Return the URL by which browsers open a service, the same for all revisions."""
    return _link(service.user, kind=AppKind.SERVICE, service=service, port=0)


def is_app_host(host: str) -> str | None:
    """Return the app label if `host` (a Host header) can be an app's."""
    return _find_label(host, settings.TESSERA_APPS_URL) if settings.TESSERA_APPS_URL else None


@lru_cache(maxsize=1024)
def _find_label(host: str, apps_url: str) -> str | None:
    """Each request asks, and most name one of few hosts."""
    name = host.lower().rpartition(":")[0] if re.search(r":\d+$", host) else host.lower()
    label, _, rest = name.partition(".")
    domain = (urlsplit(apps_url).hostname or "").removeprefix("*.")
    return label if rest == domain and LABEL.fullmatch(label) else None


def app_origin(label: str) -> str:
    return origin_of(settings.TESSERA_APPS_URL.replace("*", label))


def _link(owner: User, **which: object) -> str:
    """Return the app's URL, creating its row at first. Raises Unavailable without a host."""
    if not settings.TESSERA_APPS_URL:
        raise Unavailable("no_app_host")
    app, _ = App.objects.get_or_create(**which, defaults={"label": _label(), "owner": owner})
    return app_origin(app.label) + "/"


def _label() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(20))
