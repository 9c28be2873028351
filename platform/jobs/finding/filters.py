"""Find jobs: what the list page and the API ask for, in one query."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from jobs.models import JobQuerySet, has_label, read_job_id


@dataclass(frozen=True)
class JobFilter:
    """What jobs are to match; what is empty does not matter.

    owner, team, pool: names. label: "exp:a" or "exp". kind: "" for all but notebook starts. since, until: when it was
    submitted; until itself is left out. text: part of the name, an id, an owner, a team, or a label.
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


def filter_jobs(jobs: JobQuerySet, asked: JobFilter) -> JobQuerySet:
    number = read_job_id(asked.text.lower())
    jobs = jobs.filter(pk=number) if number else jobs.of_kind(asked.kind)
    if asked.text and not number:
        jobs = jobs.filter(_has_text(asked.text))
    if asked.states:
        jobs = jobs.filter(state__in=asked.states)
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


def _has_text(text: str) -> Q:
    found = Q(name__icontains=text) | Q(user__username__iexact=text) | Q(team__name__iexact=text) | has_label(text)
    if text.isascii() and text.isdecimal() and len(text) < 19:
        found |= Q(pk=int(text))
    return found
