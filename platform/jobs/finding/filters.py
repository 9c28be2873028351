"""Find jobs: what the list page and the API ask for, in one query."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from jobs.arrays.models import has_array_state, read_array_id
from jobs.models import LISTED, JobQuerySet, has_label, read_job_id


@dataclass(frozen=True)
class JobFilter:
    """What jobs are to match; what is empty does not matter.

    owner, team, pool: names. label: "exp:a" or "exp". kind: "" for all but notebook starts. since, until: when it was
    submitted; until itself is left out. text: part of the name, an id, an owner, a team, or a label. array: elements of
    this one, index: that one of them; elements are left out else, unless `text` is exactly their name. with_arrays: the
    first element of each array stands for the array, and has its state.
    """

    states: tuple[str, ...] = ()
    owner: str = ""
    team: str = ""
    pool: str = ""
    label: str = ""
    kind: str = ""
    since: datetime | None = None
    until: datetime | None = None
    text: str = ""
    array: int | None = None
    index: int | None = None
    with_arrays: bool = False


def filter_jobs(jobs: JobQuerySet, asked: JobFilter) -> JobQuerySet:
    number = read_job_id(asked.text.lower())
    jobs = jobs.filter(pk=number) if number else jobs.of_kind(asked.kind)
    if asked.array is not None:
        jobs = jobs.filter(array=asked.array, **({} if asked.index is None else {"array_index": asked.index}))
    elif not number:
        jobs = jobs.filter(_is_shown(asked))
    if asked.text and not number:
        jobs = jobs.filter(_has_text(asked.text, asked.with_arrays))
    if asked.states:
        jobs = jobs.filter(_has_state(asked))
    if asked.label:
        jobs = jobs.filter(has_label(asked.label))
    if asked.owner:
        jobs = jobs.filter(user__username__iexact=asked.owner)
    if asked.team:
        jobs = jobs.filter(team__name__iexact=asked.team)
    if asked.pool:
        jobs = jobs.in_pool(asked.pool.lower())
    if asked.since:
        jobs = jobs.filter(submitted_at__gte=asked.since)
    return jobs.filter(submitted_at__lt=asked.until) if asked.until else jobs


def _is_shown(asked: JobFilter) -> Q:
    shown = LISTED if asked.with_arrays else Q(array__isnull=True)
    return shown | Q(name=asked.text) if asked.text else shown


def _has_state(asked: JobFilter) -> Q:
    if not asked.with_arrays or asked.array is not None:
        return Q(state__in=asked.states)
    alone = Q(array_index__isnull=True) | Q(array_index__gt=0)
    return alone & Q(state__in=asked.states) | Q(array_index=0) & has_array_state(asked.states, "array__")


def _has_text(text: str, with_arrays: bool) -> Q:
    if with_arrays and (array := read_array_id(text.lower())):
        return Q(array=array)
    found = Q(name__icontains=text) | Q(user__username__iexact=text) | Q(team__name__iexact=text) | has_label(text)
    if text.isascii() and text.isdecimal() and len(text) < 19:
        found |= Q(pk=int(text))
    return found
