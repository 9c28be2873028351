"""View model of the list of jobs: what its address asks for, its rows, and the links that ask for something else."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.core.paginator import Paginator
from django.db.models import ExpressionWrapper, F, fields
from django.db.models.functions import Coalesce, Now
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.models import User
from cluster.models import Pool
from jobs.finding.filters import filter_jobs
from jobs.finding.list_query import STATES, read_list_query
from jobs.models import Job, JobKind, JobQuerySet
from jobs.states import JOB_ACTIVE
from portal.models import SavedView
from portal.pages.arrays.view_model import ArrayView, view_array_of
from portal.pages.cluster.scheduler_pulse import scheduler_late
from portal.pages.jobs.form import BLANK, write_first_file
from portal.pages.jobs.view_model import JobView, view_jobs
from scheduler.preview.possible_asks import PossibleAsks

PAGE = 50
STATE_WORDS = {
    "waiting": gettext_lazy("Waiting"),
    "active": gettext_lazy("Running"),
    "done": gettext_lazy("Done"),
    "failed": gettext_lazy("Failed"),
    "cancelled": gettext_lazy("Cancelled"),
}
KIND_WORDS = {
    "": gettext_lazy("Jobs and replicas"),
    JobKind.BATCH.value: gettext_lazy("Jobs"),
    JobKind.SERVICE.value: gettext_lazy("Replicas of services"),
    JobKind.INTERACTIVE.value: gettext_lazy("Notebook starts"),
}
DAY_WORDS = {
    "": gettext_lazy("Any time"),
    "today": gettext_lazy("Today"),
    "7d": gettext_lazy("Last 7 days"),
    "30d": gettext_lazy("Last 30 days"),
}
FILTER_WORDS = {
    "whose": gettext_lazy("Whose jobs"),
    "kind": gettext_lazy("Kind"),
    "state": gettext_lazy("State"),
    "pool": gettext_lazy("Pool"),
    "days": gettext_lazy("Submitted"),
    "from": gettext_lazy("Submitted from"),
    "until": gettext_lazy("Submitted until"),
    "sort": gettext_lazy("Order"),
}
RAN = ExpressionWrapper(Coalesce("ended_at", Now()) - F("started_at"), output_field=fields.DurationField())
COLUMNS: dict[str, tuple[Any, F | ExpressionWrapper]] = {
    "submitted": (gettext_lazy("Submitted"), F("pk")),
    "name": (gettext_lazy("Job"), F("name")),
    "state": (gettext_lazy("State"), F("state")),
    "pool": (gettext_lazy("Pool"), F("pool__name")),
    "owner": (gettext_lazy("Owner"), F("user__username")),
    "ran": (gettext_lazy("ran"), RAN),
    "ended": (gettext_lazy("ended"), F("ended_at")),
}


@dataclass(frozen=True)
class SortLink:
    """A column's heading. now: "ascending", "descending", or "" if the list is in another order."""

    words: object
    href: str
    now: str


class JobList:
    """A page of jobs: ?whose=team&state=failed&pool=dev&label=exp:a&days=7d&sort=-ran&page=2.

    A value that is not possible is left out and told in `faults`.
    """

    def __init__(self, user: User, get: QueryDict):
        self.user = user
        self._page = get.get("page", "")
        self.asks, left_out = read_list_query(get)
        if self.asks.pool and self.asks.pool not in self.pools:
            left_out.append(("pool", self.asks.pool))
            self.asks = replace(self.asks, pool="")
        self.faults = [
            _("%(name)s: “%(got)s” is not possible, so it is left out.") % {"name": FILTER_WORDS[name], "got": got[:40]}
            for name, got in left_out
        ]

    # ---- rows ----

    @cached_property
    def page(self):
        """The page asked for; the first or last instead of one that is not there."""
        name, down = self.asks.sort.removeprefix("-"), self.asks.sort.startswith("-")
        by = COLUMNS[name][1]
        order = by.desc(nulls_last=True) if down else by.asc(nulls_last=True)
        jobs = filter_jobs(self._jobs_of_chosen_owners(), replace(self.asks.filter, with_arrays=True))
        jobs = jobs.with_names().select_related("array").defer("spec", "array__spec")
        return Paginator(jobs.order_by(order, "-pk"), PAGE).get_page(self._page)

    @cached_property
    def views(self) -> list[JobView | ArrayView]:
        """Jobs, and the arrays for which their first elements stand."""
        return [view_array_of(view) if view.job.array_index == 0 else view for view in self._jobs]

    @cached_property
    def _jobs(self) -> list[JobView]:
        return view_jobs(self.page.object_list, self.user)

    @property
    def is_sampled(self) -> bool:
        """Whether curves are shown, which change without events."""
        return any(view.activity for view in self._jobs if view.job.array_index != 0)

    @property
    def count(self) -> str:
        """Say how many jobs match, and which of them are shown."""
        total = self.page.paginator.count
        words = ngettext("%(count)s job", "%(count)s jobs", total) % {"count": total}
        if self.page.paginator.num_pages == 1:
            return words
        shown = {"first": self.page.start_index(), "last": self.page.end_index(), "all": words}
        return _("%(first)s–%(last)s of %(all)s") % shown

    @property
    def older(self) -> str:
        """URL of the next page, or ""."""
        return self.asks.address(page=self.page.next_page_number()) if self.page.has_next() else ""

    @property
    def newer(self) -> str:
        """URL of the page before, or ""."""
        return self.asks.address(page=self.page.previous_page_number()) if self.page.has_previous() else ""

    # ---- filters ----

    @property
    def state_filters(self) -> list[dict]:
        """Links that add a state to those shown, or take it away."""
        every = {"words": _("All"), "href": self.asks.address(state=""), "current": not self.asks.state}
        return [every] + [
            {
                "words": words,
                "href": self.asks.address(state=[one for one in STATES if (one in self.asks.state) != (one == code)]),
                "current": code in self.asks.state,
            }
            for code, words in STATE_WORDS.items()
        ]

    @property
    def owner_filters(self) -> list[dict]:
        """The filter's links by whose jobs: mine, my teams', everyone's."""
        others = _("Everyone's") if self.user.sees_all else _("My teams'")
        return [
            {
                "words": words,
                "href": self.asks.address(whose=code, owner=""),
                "current": code == self.asks.whose and not self.asks.owner,
            }
            for code, words in (("mine", _("Mine")), ("team", others))
        ]

    @property
    def chips(self) -> list[dict]:
        """What narrows the list, each with the address without it."""
        asks = self.asks
        told: list[tuple[str, object, object]] = [
            ("kind", KIND_WORDS[asks.kind] if asks.kind else "", ""),
            *[("state", STATE_WORDS[code], [one for one in asks.state if one != code]) for code in asks.state],
            ("pool", asks.pool and _("Pool: %(name)s") % {"name": asks.pool}, ""),
            ("label", asks.label and _("Label: %(label)s") % {"label": asks.label}, ""),
            ("owner", asks.owner and _("Owner: %(name)s") % {"name": asks.owner}, ""),
            ("days", DAY_WORDS[asks.days] if asks.days else "", ""),
            ("from", asks.first and _("From %(day)s") % {"day": asks.first.isoformat()}, ""),
            ("until", asks.last and _("Until %(day)s") % {"day": asks.last.isoformat()}, ""),
            ("q", asks.q and f"“{asks.q}”", ""),
        ]
        return [{"words": words, "href": asks.address(**{name: rest})} for name, words, rest in told if words]

    @property
    def sorts(self) -> dict[str, SortLink]:
        """The headings' links: to the order by that column, or the other way round if the list is in it."""
        links = {}
        for name, (words, _by) in COLUMNS.items():
            down = self.asks.sort == f"-{name}"
            now = "descending" if down else "ascending" if self.asks.sort == name else ""
            first_down = name in ("submitted", "ran", "ended")
            turned = name if down or (not now and not first_down) else f"-{name}"
            links[name] = SortLink(words, self.asks.address(sort=turned), now)
        return links

    @cached_property
    def pools(self) -> list[str]:
        return list(Pool.objects.order_by("name").values_list("name", flat=True))

    @property
    def kinds(self) -> list[tuple]:
        return list(KIND_WORDS.items())

    @property
    def day_choices(self) -> list[tuple]:
        return list(DAY_WORDS.items())

    @property
    def folded(self) -> int:
        """How many filters are set that the fold holds."""
        asks = self.asks
        return sum(map(bool, (asks.kind, asks.pool, asks.label, asks.owner, asks.days, asks.first, asks.last)))

    @property
    def is_filtered(self) -> bool:
        return bool(self.chips)

    # ---- saved views ----

    @cached_property
    def saved(self) -> list[SavedView]:
        return list(SavedView.objects.filter(user=self.user))

    @cached_property
    def query(self) -> str:
        """What a view of this list would keep."""
        return self.asks.address()

    @property
    def may_be_saved(self) -> bool:
        """Whether it is more than the usual list, and not saved yet."""
        return self.query != "?" and all(view.query != self.query for view in self.saved)

    # ---- words ----

    @cached_property
    def example(self) -> str:
        return write_first_file(BLANK, PossibleAsks(self.user).usual)

    @cached_property
    def is_scheduler_late(self) -> bool:
        return scheduler_late()

    @property
    def answer(self) -> str:
        """Sum up the list in a sentence."""
        jobs = self._jobs_of_chosen_owners().of_kind(self.asks.kind)
        numbers = {
            "running": jobs.filter(state__in=JOB_ACTIVE).count(),
            "waiting": jobs.waiting().count(),
        }
        if not any(numbers.values()):
            return (
                _("Nothing is running or waiting.")
                if self.asks.whose == "team"
                else _("None of your jobs is running or waiting.")
            )
        if not numbers["waiting"]:
            return _("%(running)s running, none waiting.") % numbers
        first = (
            jobs.waiting().exclude(wait_position=None).order_by("wait_position", "pk").select_related("pool").first()
        )
        if first is None:
            return _("%(running)s running, %(waiting)s waiting.") % numbers
        place = {"position": first.wait_position, "pool": first.told_pool_name}
        return _("%(running)s running, %(waiting)s waiting; the first is #%(position)s in %(pool)s.") % {
            **numbers,
            **place,
        }

    def _jobs_of_chosen_owners(self) -> JobQuerySet:
        jobs = Job.objects.visible_to(self.user)
        return jobs if self.asks.whose == "team" else jobs.filter(user=self.user)
