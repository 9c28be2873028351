"""The link of a chain of jobs that decides when one of them starts: in words, and the job whose change would help."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.models import User
from jobs.arrays.models import show_element_id
from jobs.models import Job
from jobs.reason_messages import describe_wait
from jobs.states import JobState
from portal.access.redacted_rows import expected_end
from portal.wording.time_of_day import clock
from scheduler.preview.stored_forecasts import StoredForecast, load_forecasts

PAST, NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class DecidingLink:
    """The job that decides. through: the ids between it and the job that waits, the nearest first."""

    job: Job
    through: tuple[str, ...]

    @property
    def id(self) -> str:
        """Its id; of an element that of its array with the index."""
        return _name(self.job)

    @property
    def words(self) -> str:
        said = {"job": self.id, "why": _describe(self.job)}
        if not self.through:
            return _("%(job)s decides when it starts: %(why)s") % said
        return _("%(job)s decides when it starts, by way of %(through)s: %(why)s") % {
            **said,
            "through": ", ".join(reversed(self.through)),
        }


def find_deciding_link(user: User, job: Job) -> DecidingLink | None:
    """Return what a waiting job waits for in the end, of the jobs that the user may see; None if it waits for no other.

    At each link it is the one that is likely to end last, or of which nobody knows when it does.
    """
    if job.state != JobState.QUEUED or not job.waits_for:
        return None
    seen = Job.objects.visible_to(user)
    queued = seen.filter(state=JobState.QUEUED).exclude(waits_for=[])
    edges = dict(queued.values_list("pk", "waits_for"))
    numbers = _list_reached(job.waits_for, edges)
    arrays = [-number for number in numbers if number < 0]
    elements = Q(array__in=arrays) & Q(pk__in=Job.objects.open())
    found = {one.pk: one for one in seen.with_names().filter(Q(pk__in=numbers) | elements)}
    return _walk(job, found, load_forecasts([one for one in found.values() if one.state == JobState.QUEUED]))


def _list_reached(first: Iterable[int], edges: Mapping[int, list[int]]) -> set[int]:
    """Return the numbers of all jobs and arrays that are waited for, directly or not."""
    reached: set[int] = set()
    left = list(first)
    while left:
        number = left.pop()
        if number not in reached:
            reached.add(number)
            left += edges.get(number, [])
    return reached


def _walk(job: Job, found: Mapping[int, Job], forecasts: Mapping[int, StoredForecast]) -> DecidingLink | None:
    way: list[Job] = []
    while open_ones := [one for number in job.waits_for for one in _pick(number, found)]:
        # Of those whose end nobody knows, one that waits for others ends last.
        job = max(open_ones, key=lambda one: (_guess_end(one, forecasts), bool(one.waits_for), -one.pk))
        way.append(job)
    return DecidingLink(way[-1], tuple(_name(one) for one in way[:-1])) if way else None


def _pick(number: int, found: Mapping[int, Job]) -> list[Job]:
    """Return the job of a number, or the open elements of an array."""
    if number < 0:
        return [job for job in found.values() if job.array_id == -number]
    return [found[number]] if number in found else []


def _guess_end(job: Job, forecasts: Mapping[int, StoredForecast]) -> datetime:
    if job.is_final:  # in a moment it is waited for no more, unless its outputs are being kept
        return PAST
    if job.state != JobState.QUEUED:
        return expected_end(job) or NEVER
    told, length_s = forecasts.get(job.pk), job.time_s or job.max_time_s
    return told.p50 + timedelta(seconds=length_s) if told and told.p50 and length_s else NEVER


def _name(job: Job) -> str:
    return job.public_id if job.array_id is None else show_element_id(job.array_id, job.array_index)


def _describe(job: Job) -> str:
    """Say what a link does now."""
    if job.state == JobState.QUEUED:
        if job.held_at is not None:
            return describe_wait({"code": "held", "params": {"who": job.held_by}})
        return next((describe_wait(reason) for reason in job.wait_reasons), _("it waits itself"))
    if job.is_final:
        return _("it has ended, and its outputs are being kept")
    ends = expected_end(job)
    return _("it runs until about %(at)s") % {"at": clock(ends)} if ends else _("it runs, nobody knows until when")
