"""View models of a job's page."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from django.conf import settings
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.resources import parse_gpu, show_gpu, show_place
from job_templates.parameters import as_text
from jobs.arrays.models import JobArray
from jobs.code.git_code import GitCode, list_repositories
from jobs.copying.differences import Difference, compare_files
from jobs.dependencies.conditions import number_conditions
from jobs.dependencies.open_elements import list_dependents, list_open_elements
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.spec import from_json, role_of
from jobs.models import Job, JobKind, Task
from jobs.reason_messages import describe_end, describe_resize_refusal
from jobs.states import JobState, TaskState
from jobs.used_secrets.naming import list_wishes
from monitoring.samples.newest import TaskUse, load_task_uses
from notebooks.job_spec import JUPYTER_PORT
from portal.access.app_links import link_to_port, link_to_tensorboard
from portal.pages.alerts.view_model import AlertView, find_planned_stop
from portal.pages.cluster.scheduler_pulse import scheduler_late
from portal.pages.datasets.view_model import OutputRow, view_outputs
from portal.pages.jobs.efficiency_card import EfficiencyCard, load_efficiency_card
from portal.pages.jobs.history import Happening, history_of
from portal.pages.jobs.log_notes import LogNote, build_log_note
from portal.pages.jobs.metrics import JobMetrics
from portal.pages.jobs.view_model import JobRights, JobView
from portal.pages.numbers.view_model import JobNumbers
from portal.pages.own_limits import FullLimit, find_full_running_limit
from portal.pages.sharing.view_model import find_link
from portal.wording.image_pulls import task_hint
from portal.wording.plans import describe_stops
from portal.wording.resources import describe_gpu, describe_task_count, show_elapsed, show_gpu_part
from portal.wording.usage import describe_share_use, describe_task_use
from runtimes.log_store import LogStore
from schedules.models import Schedule

TABS = {
    "overview": gettext_lazy("Overview"),
    "metrics": gettext_lazy("Metrics"),
    "numbers": gettext_lazy("Numbers"),
    "log": gettext_lazy("Log"),
    "events": gettext_lazy("Events"),
    "spec": gettext_lazy("Spec"),
}
ENDS_JOB_WORDS = {
    "any": gettext_lazy("The job ends when the first of them succeeds."),
    "all": gettext_lazy("The job ends when all of them have succeeded."),
}
AFTER_WORDS = {
    "success": gettext_lazy("%(state)s; it must succeed"),
    "failure": gettext_lazy("%(state)s; it must fail"),
    "any": gettext_lazy("%(state)s; it must end"),
}
MOST_COPIES = 20
ENFORCEMENT_WORDS = {
    "simulated": gettext_lazy("simulated: nothing to enforce"),
    "watchdog": gettext_lazy("not enforced, only watched"),
    "hami": gettext_lazy("memory limit enforced (HAMi-core)"),
    "slice": gettext_lazy("memory limited by the program's own library, and watched"),
    "nvfraction": gettext_lazy("memory limit enforced (driver)"),
    "mig": gettext_lazy("isolated by hardware (MIG)"),
}
FULL_AT = 0.95
IN_TURNS = frozenset({"slice", "watchdog"})
"""The modes in which nothing but MPS limits compute."""


@dataclass(frozen=True)
class Phase:
    """A step from submit to end, `now` in progress, `fault` if failed."""

    words: str
    done: bool = False
    now: bool = False
    fault: bool = False
    since: datetime | None = None
    took: str = ""


@dataclass(frozen=True)
class CardRow:
    """A task's share of a card: "¼ of V100-32GB · 8,127 MiB · 25 %"."""

    place: str
    uuid: str
    words: str
    enforcement: str
    simulated: bool
    use: str = ""
    notes: tuple[str, ...] = ()
    activity: str = ""


@dataclass(frozen=True)
class Link:
    words: str
    address: str


class TaskRow:
    """A row of the tasks table; `alone`: the job's only task; `part`: "¼" or ""; `now`: what it uses, if known.

    `terminal`: the name for one in it, or "".
    """

    def __init__(self, task: Task, alone: bool, part: str, rights: JobRights, now: TaskUse | None = None):
        self.task = task
        self.part = part
        self.now = now
        self.label = task.role if alone else task.name
        runs = task.state == TaskState.RUNNING
        whole_name = task.job.public_id if alone else f"{task.job.public_id}.{self.label}"
        self.terminal = whole_name if runs and rights.may_enter(task.job) else ""
        self.may_open_ports = runs and rights.may("port.open", task.job)

    @cached_property
    def links(self) -> list[Link]:
        """Links to the task's ports, TensorBoard and JupyterLab, as far as the user may open them."""
        spec = from_json(self.task.job.spec)
        if not self.may_open_ports or not settings.TESSERA_APPS_URL:
            return []
        ports = [port for port in role_of(spec, self.task.role).ports if port != JUPYTER_PORT or not self._is_notebook]
        links = [Link(_("Port %(port)s") % {"port": port}, link_to_port(self.task, port)) for port in ports]
        board = spec.tensorboard and self.task.rank == 0
        if jupyter := find_link(self.task.job) if self._is_notebook and self.terminal else "":
            links.append(Link("JupyterLab", jupyter))
        return [*([Link(_("TensorBoard"), link_to_tensorboard(self.task.job))] if board else []), *links]

    @property
    def _is_notebook(self) -> bool:
        return self.task.job.kind == JobKind.INTERACTIVE

    @property
    def cards(self) -> list[CardRow]:
        uses = {use["uuid"]: use for use in self.task.gpu_use}
        wish = self.task.resize or {}
        part = "" if wish else self.part
        rows = [
            build_card_row(card, part, uses.get(card["uuid"], {}), describe_resize(wish)) for card in self.task.cards
        ]
        if self.task.state != TaskState.RUNNING:
            return rows
        now = self.now.shares if self.now is not None else {}
        return [
            replace(row, activity=describe_share_use(now.get(row.uuid), None if row.use else card["memory_mib"]))
            for row, card in zip(rows, self.task.cards, strict=True)
        ]

    @property
    def use(self) -> str:
        """Say what it uses now beside its cards, or "" unless it runs."""
        if self.task.state != TaskState.RUNNING:
            return ""
        return describe_task_use(self.now, self.task.cpu_milli, self.task.memory_mib)

    @property
    def ports(self) -> str:
        return ", ".join(f"{name} {port}" for name, port in self.task.ports.items())

    @property
    def exit(self) -> str:
        """Its exit code or signal, or ""."""
        if self.task.exit_signal:
            return _("signal %(number)s") % {"number": self.task.exit_signal}
        return "" if self.task.exit_code is None else str(self.task.exit_code)

    @property
    def end(self) -> str:
        """Say why it ended, or "" if it completed."""
        return describe_end(self.task.reason) if self.task.is_final and self.task.reason != "completed" else ""

    @property
    def hint(self) -> str:
        return task_hint(self.task)

    @property
    def ran(self) -> str:
        return show_elapsed(self.task.started_at, self.task.ended_at)


SECRET_WORDS = {
    "own:variable": gettext_lazy("of its owner, as a variable and a file"),
    "own:file": gettext_lazy("of its owner, as a file"),
    "team:variable": gettext_lazy("of the team, as a variable and a file"),
    "team:file": gettext_lazy("of the team, as a file"),
}


@dataclass(frozen=True)
class NamedSecret:
    """A secret that it names. words: whose it is, and how its tasks get it. role: whose tasks get it; "" for all."""

    name: str
    words: str | Promise
    role: str = ""


@dataclass(frozen=True)
class Dependency:
    """A job or array after which it starts. words: its state, and to what end it must come."""

    id: str
    words: str
    is_array: bool = False


def _say_after(condition: str, named: Job | JobArray) -> str:
    return str(AFTER_WORDS[condition] % {"state": JobState(named.state).label})


def _say_after_array(condition: str, array: JobArray) -> str:
    """Say the same of an array, with how far it is and which elements are open."""
    said = [_say_after(condition, array), f"{array.counts.ended}/{array.total}"]
    if elements := list_open_elements([-array.pk]):
        said.append(_("still open: %(elements)s") % {"elements": ", ".join(elements)})
    return " · ".join(said)


class RoleRow:
    def __init__(self, role: dict, run: str):
        self.name, self.run, self.request = role["role"], run, role["request"]
        self.tasks, self.gpu = describe_task_count(role), describe_gpu(parse_gpu(role["request"]["gpu"]))
        self.end = str(ENDS_JOB_WORDS.get(role.get("ends_job", ""), ""))


class JobDetail:
    """A job's page; `chosen`: uuid of the task whose log is shown, or ""."""

    def __init__(self, view: JobView, tab: str, chosen: str):
        self.view = view
        self.job: Job = view.job
        self.tab = tab if tab in TABS else "overview"
        self.chosen = chosen

    @property
    def tabs(self) -> list[dict]:
        return [{"code": code, "words": words, "current": code == self.tab} for code, words in TABS.items()]

    @property
    def repositories(self) -> list[tuple[str, GitCode]]:
        """Return (role or "", the code in Git that it runs)."""
        return list_repositories(self.job.spec)

    @property
    def is_gang(self) -> bool:
        return len(self.view.tasks) > 1

    @cached_property
    def is_scheduler_late(self) -> bool:
        return self.view.is_waiting and scheduler_late()

    @cached_property
    def full(self) -> FullLimit | None:
        """Return what holds the reader's limit for which it waits."""
        return find_full_running_limit(self.view)

    @property
    def stops(self) -> str:
        """Say whether it may be stopped for other teams, and who says so; "" of a notebook, which never is."""
        return "" if self.job.kind == JobKind.INTERACTIVE else describe_stops(self.job)

    @property
    def secrets(self) -> list[NamedSecret]:
        wanted = list_wishes(self.job.spec).items()
        return [NamedSecret(name, SECRET_WORDS[wish], role) for role, of in wanted for name, wish in of.items()]

    @cached_property
    def outputs(self) -> list[OutputRow]:
        return view_outputs(self.view.rights.user, self.job) if self.job.spec.get("outputs") else []

    @cached_property
    def schedule(self) -> Schedule | None:
        """Return the schedule that submitted it."""
        return Schedule.objects.filter(runs__job=self.job).first()

    @cached_property
    def after(self) -> list[Dependency]:
        """Return the jobs after which it starts, those that the reader may see with their states."""
        wanted = number_conditions(self.job.spec.get("after") or {})
        if not wanted:
            return []
        user = self.view.rights.user
        jobs = Job.objects.visible_to(user).filter(pk__in=wanted).order_by("pk")
        arrays = JobArray.objects.visible_to(user).filter(pk__in=[-number for number in wanted if number < 0])
        return [
            *(Dependency(job.public_id, _say_after(wanted[job.pk], job)) for job in jobs),
            *(Dependency(row.public_id, _say_after_array(wanted[-row.pk], row), True) for row in arrays.order_by("pk")),
        ]

    @cached_property
    def dependents(self) -> list[str]:
        """Return the ids of jobs that wait for its end."""
        if self.view.has_ended:
            return []
        return list_dependents(self.view.rights.user, self.job.pk)

    @cached_property
    def parent(self) -> Job | None:
        """Return the job that it is a copy of, if the reader may see it."""
        if self.job.parent_id is None:
            return None
        return Job.objects.visible_to(self.view.rights.user).filter(pk=self.job.parent_id).first()

    @property
    def copies(self) -> list[str]:
        """Return the ids of the newest copies of it."""
        found = Job.objects.visible_to(self.view.rights.user).filter(parent=self.job.pk)
        return [job.public_id for job in found.only("pk")[:MOST_COPIES]]

    @property
    def template_values(self) -> str:
        """Return the values of its template's parameters in one line."""
        values = (self.job.template or {}).get("values", {})
        return ", ".join(f"{name}={as_text(value)}" for name, value in values.items())

    @property
    def differences(self) -> list[Difference]:
        """Return what its file says otherwise than that of its parent."""
        return compare_files(self.parent.spec, self.job.spec) if self.parent else []

    @cached_property
    def planned_stop(self) -> AlertView | None:
        """Return the alert that stops it soon, if it concerns the reader."""
        return None if self.view.has_ended else find_planned_stop(self.job.pk, self.view.rights.user)

    # ---- overview ----

    @property
    def phases(self) -> list[Phase]:
        """The steps queued, starting, running and ended."""
        job, placed, started = self.job, self.view.assigned_at, self.view.started_at
        open_ = not job.is_final
        starting = Phase(
            _("Starting"),
            done=started is not None,
            now=open_ and placed is not None and started is None,
            since=placed,
            took=show_elapsed(placed, started),
        )
        running = Phase(
            _("Running"),
            done=started is not None and not open_,
            now=open_ and started is not None,
            since=started,
            took=show_elapsed(started, job.ended_at),
        )
        ended = Phase(
            str(job.get_state_display()) if not open_ else _("End"),
            done=not open_,
            fault=job.state == JobState.FAILED,
        )
        return [self._queued(placed), starting, running, ended]

    def _queued(self, placed: datetime | None) -> Phase:
        waits = self.view.is_waiting
        words = _("Held") if waits and self.job.held_at else _("Queued")
        return Phase(words, done=not waits, now=waits, since=self.job.queued_at, took=self.view.waited)

    @cached_property
    def task_rows(self) -> list[TaskRow]:
        """A row for each task of the newest attempt."""
        return [self._build_task_row(task) for task in self.view.tasks]

    @property
    def is_sampled(self) -> bool:
        """Whether usage samples are shown, which change without events."""
        return self.tab == "overview" and any(task.gpu_use or task.pk in self.uses for task in self._running)

    @cached_property
    def efficiency(self) -> EfficiencyCard | None:
        """Return how well it uses what it holds, or used what it held; None as long as it holds nothing."""
        return None if self.view.is_waiting else load_efficiency_card(self.view)

    @property
    def has_running_tasks(self) -> bool:
        return bool(self._running)

    @cached_property
    def uses(self) -> dict[int, TaskUse]:
        """What the running tasks use now, as far as it is known."""
        return load_task_uses(task.pk for task in self._running)

    @property
    def _running(self) -> list[Task]:
        return [task for task in self.view.tasks if task.state == TaskState.RUNNING]

    @property
    def terminal(self) -> str:
        """Return the first terminal name that the user may open, or ""."""
        return next((row.terminal for row in self.task_rows if row.terminal), "")

    @property
    def may_share(self) -> bool:
        return not self.view.has_ended and self.view.rights.may("job.enter", self.job)

    @property
    def may_end_shares(self) -> bool:
        return not self.view.has_ended and self.view.rights.may("job.stop", self.job)

    @property
    def links(self) -> list[Link]:
        """TensorBoard and ports of the first task that has any, as far as the user may open them."""
        return next((row.links for row in self.task_rows if row.links), [])

    @cached_property
    def earlier_task_rows(self) -> list[TaskRow]:
        """Rows of earlier attempts' tasks, newest first."""
        tasks = self.job.tasks.filter(attempt__lt=self.job.attempt).select_related("node")
        return [self._build_task_row(task) for task in tasks.order_by("-attempt", "role", "rank")[:50]]

    def _build_task_row(self, task: Task) -> TaskRow:
        task.job = self.job
        asked = next(role["request"] for role in self.job.gang if role["role"] == task.role)
        part = show_gpu_part(parse_gpu(asked["gpu"]))
        return TaskRow(task, not self.is_gang, part, self.view.rights, self.uses.get(task.pk))

    # ---- metrics ----

    @property
    def follows_gang(self) -> bool:
        """Whether tasks that are slower than others are shown, which changes without events."""
        return self.tab == "metrics" and self.is_gang and self.has_running_tasks

    @cached_property
    def metrics(self) -> JobMetrics:
        return JobMetrics(self.job, self.view.tasks, self.view.first_started_at)

    # ---- numbers ----

    @property
    def follows_numbers(self) -> bool:
        """Whether numbers are shown of tasks that may report more, which changes without events."""
        return self.tab == "numbers" and self.has_running_tasks

    @cached_property
    def numbers(self) -> JobNumbers:
        return JobNumbers(self.job, self.view.rights.user)

    # ---- log ----

    @cached_property
    def log(self) -> "TaskLog | None":
        """Return the chosen task's log, else the first's."""
        tasks = [*self.view.tasks, *(row.task for row in self.earlier_task_rows)]
        named = [task for task in tasks if str(task.uuid) == self.chosen]
        return TaskLog((named or tasks)[0], self.job) if tasks else None

    @property
    def log_choices(self) -> list[dict]:
        """The tasks whose log may be chosen; none if there is only one."""
        rows = [*self.task_rows, *self.earlier_task_rows]
        if len(rows) < 2 or self.log is None:
            return []
        several = bool(self.earlier_task_rows)
        return [
            {
                "uuid": str(row.task.uuid),
                "words": _("%(task)s, attempt %(attempt)s") % {"task": row.label, "attempt": row.task.attempt}
                if several
                else row.label,
                "current": row.task.pk == self.log.task.pk,
            }
            for row in rows
        ]

    # ---- events, spec ----

    @cached_property
    def events(self) -> list[Happening]:
        return history_of(self.job)

    @cached_property
    def yaml(self) -> str:
        return dump_yaml(from_json(self.job.spec))

    @cached_property
    def roles(self) -> list[RoleRow]:
        runs = {role.name: role for role in from_json(self.job.spec).roles}
        return [RoleRow(role, runs[role["role"]].run) for role in self.job.gang if role["role"] in runs]

    @property
    def request(self) -> dict:
        """Return the task request with the pool's defaults."""
        return self.job.request


class TaskLog:
    def __init__(self, task: Task, job: Job):
        self.task = task
        self.job = job

    @property
    def uuid(self) -> str:
        return str(self.task.uuid)

    @cached_property
    def may_grow(self) -> bool:
        """Whether more output may come."""
        return not self.task.is_final or Task.objects.filter(pk=self.task.pk).log_awaited().exists()

    @cached_property
    def log_note(self) -> "LogNote | None":
        """What is late or missing of the log."""
        return None if self.has_no_log else build_log_note(self.task, is_open=self.may_grow)

    @property
    def has_no_log(self) -> bool:
        """Whether there is no log to follow: pending, or never placed."""
        return self.task.state == TaskState.PENDING or (self.task.is_final and self.task.assigned_at is None)

    @cached_property
    def size_bytes(self) -> int:
        return log_store().size(self.uuid)

    @property
    def awaits_output(self) -> bool:
        return self.task.state == TaskState.RUNNING and self.size_bytes == 0

    @property
    def empty_text(self) -> str:
        """Say why the log is still empty."""
        if self.task.is_final:
            return _("It ended without any output.")
        if self.task.state in (TaskState.ASSIGNED, TaskState.STARTING):
            return _("Starting; the output appears here.")
        return _("No output yet; it appears here as it is written.")

    @property
    def download(self) -> str:
        """Return the log's URL, also before its first line, as a followed log is not redrawn; "" if none comes."""
        nothing = self.task.is_final and self.size_bytes == 0
        return "" if nothing else reverse("job_log", args=[self.job.public_id, self.task.uuid])

    @property
    def page(self) -> str:
        """Return the URL of the page with this log, to which "#L12" adds a line."""
        return f"{reverse('job', args=[self.job.public_id])}?tab=log&task={self.uuid}"

    @property
    def filename(self) -> str:
        return f"{self.job.public_id}-{self.task.role}-{self.task.rank}-attempt-{self.task.attempt}.log"


def log_store() -> LogStore:
    return LogStore(settings.TESSERA_LOGS)


def describe_resize(wish: dict) -> str:
    """Say how a resize of the slice stands, or ""."""
    if wish.get("open"):
        return _("The slice is being resized to %(gpu)s.") % {"gpu": wish["gpu"]}
    if refused := describe_resize_refusal(wish.get("refused")):
        return _("The slice was not resized to %(gpu)s. %(why)s") % {"gpu": wish["gpu"], "why": refused}
    return ""


def build_card_row(card: dict, part: str, use: dict, note: str = "") -> CardRow:
    """Describe a card of Task.cards and its use (Task.gpu_use or {})."""
    percent, whole = card["compute_percent"], card.get("whole", False)
    params = {
        "share": part or show_gpu(card.get("milli", 10 * percent)),
        "model": card["model"],
        "memory": number_format(card["memory_mib"], force_grouping=True),
        "percent": percent,
    }
    words = (
        _("whole %(model)s · %(memory)s MiB")
        if whole
        else _("%(share)s of %(model)s · %(memory)s MiB · %(percent)s %%")
    )
    mode = card.get("enforcement", "")
    alone = whole and not card["uuid"].startswith("MIG-")  # MIG instances share a card
    how = _("whole card, not shared") if alone else str(ENFORCEMENT_WORDS.get(mode, mode))
    simulated = bool(card.get("simulated"))
    ours = mode in IN_TURNS and not whole and not simulated
    notes = (
        note,
        warn_unwatched(use),
        warn_nearly_full(use),
        describe_refused_requests(use),
        describe_compute_limit(use, percent) if ours else "",
    )
    said = tuple(words for words in notes if words)
    return CardRow(show_place(card["index"]), card["uuid"], words % params, how, simulated, describe_gpu_use(use), said)


def describe_gpu_use(use: dict) -> str:
    """Show measured GPU memory against limit and peak."""
    if not use:
        return ""
    names = {"used": "used_mib", "limit": "limit_mib", "peak": "peak_mib"}
    params = {name: number_format(use[key], force_grouping=True) for name, key in names.items()}
    return _("%(used)s of %(limit)s MiB in use, peak %(peak)s") % params


def warn_nearly_full(use: dict) -> str:
    """Warn if memory is nearly full, as the runtime's log does."""
    if not use or use["used_mib"] < FULL_AT * use["limit_mib"]:
        return ""
    return _("The slice is nearly full: requests beyond it are refused.")


def warn_unwatched(use: dict) -> str:
    if use.get("watched", True):
        return ""
    return _("Memory is not being watched right now: the watch ended and is restarting. These figures are old.")


def describe_compute_limit(use: dict, percent: int) -> str:
    """Say how the card's compute is shared."""
    if use.get("compute") == "mps":
        words = _("Compute: each program uses at most %(percent)s %% of the card's multiprocessors at once (MPS).")
        return words % {"percent": percent}
    return _("Compute is shared in turns, without a limit.")


def describe_refused_requests(use: dict) -> str:
    count = use.get("refused", 0)
    words = ngettext(
        "The slice refused %(count)s request for more memory.",
        "The slice refused %(count)s requests for more memory.",
        count,
    )
    return words % {"count": number_format(count, force_grouping=True)} if count else ""
