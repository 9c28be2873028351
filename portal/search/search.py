"""Jobs, arrays, notebooks, people and machines by a few typed letters, each for those whom its list shows it to."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.expressions import OrderBy

from accounts.models import Membership, User
from cluster.models import Node
from jobs.arrays.models import JobArray
from jobs.models import Job, has_label
from notebooks.models import Notebook

KINDS = (Job.KIND, JobArray.KIND, Notebook.KIND, User.KIND, Node.KIND)
MOST = 8
"""Results of each kind."""
MARKS = {"@": User.KIND, "#": Node.KIND}
NUMBER = re.compile(r"(?:(job|arr|nb)-)?([1-9][0-9]{0,17})", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Found:
    """id: job-12, arr-9, nb-3, or the name of a person or machine. about: the owner of work, a full name, or the
    pool of a machine.
    """

    kind: str
    id: str
    name: str
    about: str


def search(user: User, text: str, kinds: Collection[str] = KINDS) -> list[Found]:
    """Find at most MOST of each kind, jobs first. "@" before the text means people only, "#" machines only."""
    return [TOLD[kind](one) for kind, objects in find(user, text, kinds).items() for one in objects]


def find(user: User, text: str, kinds: Collection[str] = KINDS) -> dict[str, list]:
    """Find the objects themselves, as {kind: at most MOST}."""
    text = text.strip()
    if only := MARKS.get(text[:1]):
        text, kinds = text[1:].lstrip(), {only} & set(kinds)
    if not text or not user.is_active:
        return {}
    return {kind: list(look(user, text)[:MOST]) for kind, look in FINDERS.items() if kind in kinds}


def _find_jobs(user: User, text: str) -> QuerySet[Job]:
    """Find jobs; elements of arrays only by their whole name or id."""
    jobs = Job.objects.visible_to(user).with_names().defer("spec")
    found = jobs.filter(_by_name_or_id(text, "job") | _by_owner(text) | has_label(text))
    shown = Q(array=None) | Q(name__iexact=text) | Q(pk=_number_in(text, "job"))
    return found.filter(shown).order_by(*_named_first(text, "job"), "-pk")


def _find_arrays(user: User, text: str) -> QuerySet[JobArray]:
    arrays = JobArray.objects.visible_to(user).with_names().defer("spec")
    found = arrays.filter(_by_name_or_id(text, "arr") | _by_owner(text))
    return found.order_by(*_named_first(text, "arr"), "-pk")


def _find_notebooks(user: User, text: str) -> QuerySet[Notebook]:
    notebooks = Notebook.objects.visible_to(user).with_names().defer("spec")
    found = notebooks.filter(_by_name_or_id(text, "nb") | _by_owner(text))
    return found.order_by(*_named_first(text, "nb"), "-pk")


def _find_people(user: User, text: str) -> QuerySet[User]:
    people = User.objects.filter(Q(username__icontains=text) | Q(full_name__icontains=text))
    if not user.sees_all:
        own_teams = Membership.objects.filter(user=user).values("team")
        people = people.filter(pk__in=Membership.objects.filter(team__in=own_teams).values("user"))
    return people.order_by("username")


def _find_machines(user: User, text: str) -> QuerySet[Node]:
    return Node.objects.present().filter(name__icontains=text).select_related("pool").order_by("name")


FINDERS: dict[str, Callable[[User, str], QuerySet]] = {
    Job.KIND: _find_jobs,
    JobArray.KIND: _find_arrays,
    Notebook.KIND: _find_notebooks,
    User.KIND: _find_people,
    Node.KIND: _find_machines,
}
TOLD: dict[str, Callable[..., Found]] = {
    Job.KIND: lambda job: Found(Job.KIND, job.public_id, job.name, job.user.username),
    JobArray.KIND: lambda one: Found(JobArray.KIND, one.public_id, one.name, one.user.username),
    Notebook.KIND: lambda one: Found(Notebook.KIND, one.public_id, one.name, one.user.username),
    User.KIND: lambda person: Found(User.KIND, person.username, person.username, person.full_name),
    Node.KIND: lambda node: Found(Node.KIND, node.public_id, node.name, node.pool.name),
}


def _by_name_or_id(text: str, prefix: str) -> Q:
    """Match a part of the name, and the id, with or without its prefix."""
    by_name, number = Q(name__icontains=text), _number_in(text, prefix)
    return by_name | Q(pk=number) if number else by_name


def _named_first(text: str, prefix: str) -> list[OrderBy]:
    """Order what has this very id before newer ones with the number in their name."""
    number = _number_in(text, prefix)
    return [ExpressionWrapper(Q(pk=number), BooleanField()).desc()] if number else []


def _number_in(text: str, prefix: str) -> int | None:
    named = NUMBER.fullmatch(text)
    return int(named[2]) if named and (named[1] or prefix).lower() == prefix else None


def _by_owner(text: str) -> Q:
    return Q(user__username__istartswith=text)
