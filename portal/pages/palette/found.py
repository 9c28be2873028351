"""What the search finds as lines of the palette, and what a person may do with it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import User
from cluster.models import Node
from jobs.arrays.models import JobArray
from jobs.models import Job
from notebooks.models import Notebook
from portal.pages.jobs.view_model import JobRights, JobView
from portal.pages.notebooks.view_model import NotebookView
from portal.pages.palette.options import Group, Option
from portal.search.search import find

HEADINGS = {
    Job.KIND: gettext_lazy("Jobs"),
    JobArray.KIND: gettext_lazy("Arrays"),
    Notebook.KIND: gettext_lazy("Notebooks"),
    User.KIND: gettext_lazy("People"),
    Node.KIND: gettext_lazy("Machines"),
}


@dataclass(frozen=True)
class Verb:
    """What may be done with an object. It leads to the page that does it or asks, and does nothing itself.

    typed: what people write before a name to see it alone, in English and in their language.
    """

    kind: str
    typed: tuple[str, str | Promise]
    words: str | Promise
    icon: str
    may: Callable[[Any], bool]
    address: Callable[[str], str]
    note: str | Promise = ""


VERBS = (
    Verb(
        Notebook.KIND,
        ("open", gettext_lazy("open")),
        gettext_lazy("Open %(name)s"),
        "external-link",
        lambda view: view.may_open,
        lambda id: reverse("notebook_open", args=[id]),
    ),
    Verb(
        Job.KIND,
        ("log", gettext_lazy("log")),
        gettext_lazy("Open the log of %(name)s"),
        "terminal-2",
        lambda view: view.started_at is not None,
        lambda id: reverse("job", args=[id]) + "?tab=log",
    ),
    Verb(
        Job.KIND,
        ("clone", gettext_lazy("clone")),
        gettext_lazy("Clone %(name)s as a new job"),
        "copy",
        lambda view: True,
        lambda id: reverse("job_new") + "?" + urlencode({"from": id}),
    ),
    Verb(
        Job.KIND,
        ("stop", gettext_lazy("stop")),
        gettext_lazy("Stop %(name)s…"),
        "player-stop",
        lambda view: view.may_stop,
        lambda id: reverse("job", args=[id]) + f"#stop-{id}",
        gettext_lazy("asks before it stops"),
    ),
    Verb(
        Notebook.KIND,
        ("stop", gettext_lazy("stop")),
        gettext_lazy("Stop %(name)s…"),
        "player-stop",
        lambda view: view.may_stop,
        lambda id: reverse("notebook", args=[id]) + f"#stop-{id}",
        gettext_lazy("asks before it stops"),
    ),
)


def find_objects(user: User, text: str) -> list[Group]:
    """Return what is found by kind, then what may be done with the first job and notebook.

    "stop llama" finds what can be stopped, if there is any.
    """
    if done := _find_by_verb(user, text):
        return [done]
    found = find(user, text)
    groups = [
        Group(HEADINGS[kind], [SHOWN[kind](one, user) for one in objects]) for kind, objects in found.items() if objects
    ]
    first = [view for kind in (Job.KIND, Notebook.KIND) for view in _view(user, kind, found.get(kind, [])[:1])]
    verbs = [_offer(verb, view) for view in first for verb in VERBS if _may(verb, view)]
    return [*groups, Group(_("Do"), verbs)] if verbs else groups


def _find_by_verb(user: User, text: str) -> Group | None:
    typed, _space, rest = text.partition(" ")
    verbs = [verb for verb in VERBS if typed.lower() in (verb.typed[0], str(verb.typed[1]).lower())]
    if not verbs or not rest.strip():
        return None
    found = find(user, rest, {verb.kind for verb in verbs})
    views = [view for kind, objects in found.items() for view in _view(user, kind, objects)]
    options = [_offer(verb, view) for view in views for verb in verbs if _may(verb, view)]
    return Group(_("Do"), options) if options else None


def _view(user: User, kind: str, objects: Iterable) -> list[JobView | NotebookView]:
    if kind == Notebook.KIND:
        return [NotebookView(notebook, user) for notebook in objects]
    rights = JobRights(user)
    return [JobView(job, rights) for job in objects]


def _may(verb: Verb, view: JobView | NotebookView) -> bool:
    return verb.kind == (Job.KIND if isinstance(view, JobView) else Notebook.KIND) and verb.may(view)


def _offer(verb: Verb, view: JobView | NotebookView) -> Option:
    name = view.name if view.name == view.id else f"{view.name} ({view.id})"
    return Option(str(verb.words) % {"name": name}, verb.icon, verb.address(view.id), note=verb.note)


def _show_job(job: Job, _reader: User) -> Option:
    note = f"{job.public_id} · {job.get_state_display()} · {job.user.username}"
    return Option(job.name or job.public_id, "list-details", reverse("job", args=[job.public_id]), note=note)


def _show_array(array: JobArray, _reader: User) -> Option:
    note = f"{array.public_id} · {array.get_state_display()} · {array.user.username}"
    return Option(array.name, "list-details", reverse("array", args=[array.public_id]), note=note)


def _show_notebook(notebook: Notebook, reader: User) -> Option:
    view = NotebookView(notebook, reader)
    note = f"{view.id} · {view.state_label} · {notebook.user.username}"
    return Option(view.name, "notebook", reverse("notebook", args=[view.id]), note=note)


def _show_person(person: User, reader: User) -> Option:
    """They lead to their page of the console, or whom that is not for to their jobs."""
    if reader.is_staff:
        return Option(person.username, "user", reverse("console_person", args=[person.username]), note=person.full_name)
    jobs = reverse("jobs") + "?" + urlencode({"whose": "team", "q": person.username})
    note = " · ".join(filter(None, (person.full_name, _("their jobs"))))
    return Option(person.username, "user", jobs, note=note)


def _show_node(node: Node, _reader: User) -> Option:
    note = f"{node.pool.name} · {node.get_state_display()}"
    return Option(node.name, "server-2", reverse("node", args=[node.name]), note=note)


SHOWN: dict[str, Callable[[Any, User], Option]] = {
    Job.KIND: _show_job,
    JobArray.KIND: _show_array,
    Notebook.KIND: _show_notebook,
    User.KIND: _show_person,
    Node.KIND: _show_node,
}
