"""View models of an array of jobs, in a row of a list and on its page with its elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.core.paginator import Page, Paginator
from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import User
from common.locks import database_now
from events.models import Event
from jobs.arrays.estimate import estimate_end
from jobs.arrays.models import IS_PRUNED, JobArray
from jobs.dependencies.open_elements import list_dependents
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.spec import JobSpec, from_json
from jobs.models import Job
from jobs.states import JOB_ACTIVE, JobState
from portal.pages.arrays.sweep_view import SweepView, show_score
from portal.pages.jobs.view_model import JobRights, JobView, view_jobs
from portal.pages.numbers.view_model import ShownValue, show_value
from portal.wording.errors import describe_stored_refusal
from portal.wording.events import describe_event
from portal.wording.time_of_day import clock
from reported_numbers.curves import Curve, load_curves
from reported_numbers.extremes import Extreme, load_extremes
from sweeps.trials import order_by_score

PAGE = 50
MOST_NUMBERS = 4
"""Names of reported numbers that have a column."""
MOST_EVENTS = 20
STATES: dict[str, tuple[str | Promise, tuple[str, ...]]] = {
    "waiting": (gettext_lazy("Waiting"), (JobState.QUEUED,)),
    "running": (gettext_lazy("Running"), tuple(sorted(JOB_ACTIVE))),
    "succeeded": (gettext_lazy("Done"), (JobState.SUCCEEDED,)),
    "failed": (gettext_lazy("Failed"), (JobState.FAILED,)),
    "cancelled": (gettext_lazy("Cancelled"), (JobState.CANCELLED,)),
}
TONES = {"succeeded": "work", "failed": "fault", "cancelled": "quiet", "running": "soft"}


class ArrayView:
    """An array (with_names) as one user sees it. ask: what each element asks for, where it is told."""

    is_array = True

    def __init__(self, row: JobArray, rights: JobRights, ask: str = ""):
        self.row = row
        self.ask = ask
        self.id = row.public_id
        self.rights = rights

    @property
    def parts(self) -> list[tuple[str, float]]:
        """What has become of all elements, as parts of a bar."""
        return [(tone, 100 * getattr(self.row, name) / self.row.total) for name, tone in TONES.items()]

    @property
    def progress(self) -> str:
        """How many elements have ended: "37/100"."""
        return f"{self.row.counts.ended}/{self.row.total}"

    @property
    def counts(self) -> str:
        """Say how many elements are in which state, but for those that are done."""
        told = {
            "failed": _("%(n)s failed"),
            "running": _("%(n)s running"),
            "waiting": _("%(n)s waiting"),
            "cancelled": _("%(n)s cancelled"),
        }
        named = [words % {"n": n} for name, words in told.items() if (n := getattr(self.row, name))]
        return " · ".join(named)

    @property
    def is_halted(self) -> bool:
        return self.row.halted_at is not None

    @property
    def why(self) -> str:
        """Say what refuses the next element now, or ""."""
        return describe_stored_refusal(self.row.why) if self.row.why else ""

    @cached_property
    def spec(self) -> JobSpec:
        return from_json(self.row.spec)

    @property
    def may_stop(self) -> bool:
        going = not self.row.has_ended and self.row.state != JobState.STOPPING
        return going and self.rights.may("job.stop", self.row)

    @property
    def may_retry(self) -> bool:
        """Whether elements have failed, or it was halted."""
        wanted = bool(self.row.failed) or (self.is_halted and self.row.made < self.row.total)
        return wanted and self.rights.may("job.retry", self.row)

    @property
    def may_run_rest(self) -> bool:
        """Whether a stop has left elements that were cancelled or never made."""
        stopped = self.row.stop_requested_at is not None and self.row.has_ended
        left = self.row.cancelled or self.row.made < self.row.total
        return (stopped or bool(self.row.cancelled)) and bool(left) and self.rights.may("job.retry", self.row)

    @property
    def rest(self) -> int:
        return self.row.total - self.row.succeeded


@dataclass(frozen=True)
class ElementRow:
    """values: of its variables, as "lr=1e-4 seed=3". numbers: what it reported last of each name that has a column.
    score: of a sweep, the best of its metric.
    """

    view: JobView
    values: str
    numbers: Sequence[str]
    score: str

    @property
    def index(self) -> int | None:
        return self.view.job.array_index


@dataclass(frozen=True)
class ShownExtremes:
    """smallest, largest: the element that reported it, and the number with its step."""

    name: str
    smallest: tuple[str, ShownValue]
    largest: tuple[str, ShownValue]


@dataclass(frozen=True)
class StateFilter:
    words: str | Promise
    count: int
    code: str
    current: bool


@dataclass(frozen=True)
class EventLine:
    at: datetime
    actor: str
    words: str


class ArrayPage:
    """An array with a page of its elements: ?state=failed&page=2. A state that there is not means all."""

    def __init__(self, view: ArrayView, user: User, state: str, page: str):
        self.view, self.user, self._page = view, user, page
        self.state = state if state in STATES else ""

    @cached_property
    def page(self) -> Page:
        """Return elements in their order, those of a sweep the best first."""
        jobs = Job.objects.filter(array=self.view.row.pk).with_names()
        if self.state:
            jobs = jobs.filter(_is_in(self.state))
        search = self.view.spec.search
        ordered = order_by_score(jobs, search) if search else jobs.order_by("array_index")
        return Paginator(ordered, PAGE).get_page(self._page)

    @cached_property
    def sweep(self) -> SweepView | None:
        search = self.view.spec.search
        return SweepView(self.view.row, search) if search else None

    @cached_property
    def rows(self) -> list[ElementRow]:
        wish = self.view.spec.elements
        views = view_jobs(self.page.object_list, self.user)
        names = wish.names if wish else ()
        values = [{name: view.job.spec["env"].get(name, "") for name in names} for view in views]
        last = {(curve.job, curve.name): show_value(curve.last).words for curve in reversed(self._curves)}
        return [
            ElementRow(
                view,
                " ".join(map("=".join, one.items())),
                [last.get((view.id, extremes.name), "") for extremes in self.numbers],
                show_score(getattr(view.job, "score", None)),
            )
            for view, one in zip(views, values, strict=True)
        ]

    @cached_property
    def numbers(self) -> list[ShownExtremes]:
        """Return what elements reported, by the first names; of a sweep beside its metric."""
        search = self.view.spec.search
        return [
            ShownExtremes(one.name, self._show(one.smallest), self._show(one.largest))
            for one in load_extremes(self.view.row.pk, MOST_NUMBERS)
            if search is None or one.name != search.metric
        ]

    def _show(self, extreme: Extreme) -> tuple[str, ShownValue]:
        return f"{self.view.id}.{extreme.index}", show_value(extreme.value)

    @cached_property
    def _curves(self) -> list[Curve]:
        """Of the elements that are shown; of several tasks of one, the first comes first."""
        names = [one.name for one in self.numbers]
        return load_curves(self.page.object_list, names) if names else []

    @property
    def filters(self) -> list[StateFilter]:
        row = self.view.row
        every = StateFilter(_("All"), row.made, "", not self.state)
        return [every] + [
            StateFilter(words, getattr(row, code), code, code == self.state)
            for code, (words, _states) in STATES.items()
        ]

    @property
    def ends(self) -> str:
        """Say when the last element ends if all go on as now, or ""."""
        at = estimate_end(self.view.row, database_now())
        return _("The last one ends at about %(at)s.") % {"at": clock(at)} if at else ""

    @cached_property
    def dependents(self) -> list[str]:
        """Return the ids of jobs that wait for its end."""
        return [] if self.view.row.has_ended else list_dependents(self.user, -self.view.row.pk)

    @property
    def file(self) -> str:
        return dump_yaml(self.view.spec)

    @cached_property
    def events(self) -> list[EventLine]:
        rows = Event.objects.filter(kind=JobArray.KIND, object_id=self.view.row.pk).order_by("-seq")[:MOST_EVENTS]
        return [EventLine(row.at, row.actor, describe_event(row)) for row in rows]


def _is_in(code: str) -> Q:
    """Match the elements that a filter shows."""
    matches = Q(state__in=STATES[code][1])
    return matches | IS_PRUNED if code == "succeeded" else matches & ~IS_PRUNED


def view_array_of(first: JobView) -> ArrayView:
    """Return the array for which its first element stands in a list."""
    job = first.job
    assert job.array is not None
    job.array.user, job.array.team = job.user, job.team
    return ArrayView(job.array, first.rights, first.ask)
