"""A service as its pages show it to one user."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.resources import duration_text
from common.steady_clock import steady_now
from events.models import Event
from jobs.models import Job, Task
from portal.access.app_links import link_to_service
from portal.access.services.callers import may_call
from portal.pages.charts import ChartSet, Mark, chart_service
from portal.pages.jobs.detail import log_store
from portal.pages.jobs.view_model import JobRights
from portal.services.cold_starts import ColdStartCard, view_cold_starts
from portal.services.figures import WINDOW_S, ServiceFigures, load_figures
from portal.services.view_model import ServiceView
from portal.services.why_words import describe_why
from portal.wording.events import describe_event
from runtimes.log_reading import LogReader
from services.cold_starts import load_cold_starts
from services.in_flight import Loads
from services.models import Revision, Service, ServiceKey
from services.states import ServiceState
from services.usage import CallerUsage, list_usage, sum_usage

MOST_EVENTS, USAGE_DAYS = 10, 30
LAST_LINES = 12
STATES: dict[str, tuple[str, str]] = {
    ServiceState.ASLEEP: ("done", "moon"),
    ServiceState.WAKING: ("wait", "loader-2"),
    ServiceState.UP: ("work", "activity"),
    ServiceState.UPDATING: ("next", "refresh"),
    ServiceState.FAILING: ("fault", "alert-circle"),
    ServiceState.STOPPED: ("stale", "player-stop"),
}
ACCESS: dict[str, str | Promise] = {
    "owner": gettext_lazy("its keys, and its owner by API token or browser"),
    "team": gettext_lazy("its keys, and the team by API token or browser"),
    "key": gettext_lazy("its keys alone"),
    "everybody": gettext_lazy("its keys, and everybody here by API token or browser"),
}
"""Who may call it, by `access` of its file."""


@dataclass(frozen=True)
class EventLine:
    at: datetime
    actor: str
    words: str


class ServicePage(ServiceView):
    def __init__(self, service: Service, rights: JobRights, loads: Loads | None = None):
        super().__init__(service, loads)
        self._user = rights.user
        self.id = service.public_id
        self.is_own = self.may_change = rights.may("service.change", service)
        self.may_wake = rights.may("service.wake", service)
        self.may_stop = rights.may("service.stop", service)

    @property
    def chip(self) -> tuple[str, str, str | Promise]:
        return (*STATES[self.state], self.state.label)

    @property
    def headline(self) -> str:
        """Say in a sentence how it stands."""
        most = self.service.serving.replicas[1]
        if self.state == ServiceState.UP:
            answer = ngettext("%(n)s of %(most)s replicas answers.", "%(n)s of %(most)s replicas answer.", self.ready)
            return answer % {"n": self.ready, "most": most}
        if self.state == ServiceState.UPDATING:
            said = {"number": self.service.newest.number, "words": self.wait_words}
            if self.canary is not None and self.canary.since is not None:
                tried = {"number": self.canary.revision, "share": self.canary.wish.share}
                return _("Revision %(number)s is tried on %(share)s%% of the requests.") % tried
            return _("Revision %(number)s comes up; until it is ready, the current one answers. %(words)s") % said
        return {
            ServiceState.ASLEEP: _("Holds no GPU; the next request wakes it."),
            ServiceState.WAKING: self.wait_words,
            ServiceState.FAILING: _("Its replicas end by themselves, so none is started any more."),
            ServiceState.STOPPED: _("Requests are refused until somebody wakes it."),
        }[self.state]

    @property
    def is_restless(self) -> bool:
        """Whether the page looks again soon."""
        return self.state in (ServiceState.WAKING, ServiceState.UPDATING) or any(one.draining for one in self.replicas)

    @property
    def can_sleep(self) -> bool:
        return bool(self.replicas) and self.service.stopped_at is None

    @property
    def needs_waking(self) -> bool:
        return self.state in (ServiceState.ASLEEP, ServiceState.FAILING, ServiceState.STOPPED)

    @property
    def access_words(self) -> str | Promise:
        return ACCESS[self.service.serving.access]

    @property
    def idle_words(self) -> str:
        return duration_text(self.service.serving.idle_s)

    @property
    def hold_words(self) -> str:
        return duration_text(self.service.serving.hold.for_s)

    @cached_property
    def page_href(self) -> str:
        """Where the user opens it in the browser, "" if they may not."""
        if not settings.TESSERA_APPS_URL or not may_call(self._user, self.service):
            return ""
        return link_to_service(self.service)

    @property
    def example(self) -> str:
        """A command that calls it."""
        return f'curl -H "Authorization: Bearer $KEY" {self.address}/'

    @cached_property
    def told_revision(self) -> Revision:
        """The revision of which it is said what happened last: one that failed, else the newest."""
        last = self.revisions[0]
        return last if last.failed_at else self.service.newest

    @cached_property
    def why(self) -> str:
        """Say what became of that revision or its last replica; "" where nothing did."""
        return describe_why(self.told_revision.why)

    @property
    def why_job(self) -> str:
        """The job whose log tells more, or ""."""
        return (self.told_revision.why or {}).get("job", "")

    @cached_property
    def last_lines(self) -> str:
        """The end of that log."""
        pk = int(self.why_job.rpartition("-")[2] or 0)
        task = Task.objects.filter(job__in=Job.objects.filter(pk=pk)).order_by("-attempt").first()
        if task is None:
            return ""
        reader = LogReader(log_store(), task.uuid.hex)
        lines = reader.read_before(reader.size).data.decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-LAST_LINES:])

    @cached_property
    def revisions(self) -> list[Revision]:
        return list(self.service.revisions.all()[:20])

    @cached_property
    def figures(self) -> ServiceFigures | None:
        return load_figures(self.service, steady_now())

    @property
    def charts(self) -> ChartSet:
        marks = [Mark(one.created_at, f"r{one.number}") for one in reversed(self.revisions)]
        return chart_service(self.id, marks)

    @property
    def curve_words(self) -> str:
        """Say what the curve shows."""
        return _("Requests per second in the last %(minutes)s minutes") % {"minutes": WINDOW_S // 60}

    @cached_property
    def cold_starts(self) -> ColdStartCard | None:
        return view_cold_starts(load_cold_starts(self.service))

    @cached_property
    def keys(self) -> list[ServiceKey]:
        return list(self.service.keys.select_related("made_by"))

    @cached_property
    def usage(self) -> list[CallerUsage]:
        """Requests of the last USAGE_DAYS by caller."""
        return sum_usage(list_usage(self.service, USAGE_DAYS), steady_now().date())

    @cached_property
    def events(self) -> list[EventLine]:
        rows = Event.objects.filter(kind=Service.KIND, object_id=self.service.pk).order_by("-seq")[:MOST_EVENTS]
        return [EventLine(row.at, row.actor, describe_event(row)) for row in rows]
