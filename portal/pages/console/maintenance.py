"""Maintenance: what is planned, goes on and is over; what one closes, before it is saved."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import Team
from accounts.permissions import require
from cluster.maintenance import (
    check_maintenance,
    end_maintenance,
    find_maintenance,
    list_machines_of_pools,
    list_past,
    save_maintenance,
)
from cluster.models import Gpu, Maintenance, Node, Pool
from portal.access.admin_lists import JobThere, list_jobs_on
from portal.forms import save
from portal.pages.console.page import for_staff, person_of, show
from portal.pages.told import describe_banner

MOST_PAST = 20
MOST_NAMES = 4
FIELDS = ("begins_at", "ends_at", "pool", "stops", "why")
CLOCK = forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"})


class MaintenanceForm(forms.Form):
    """seen: what it closes as the person was last shown it; saved is only what was seen."""

    begins_at = forms.DateTimeField(label=gettext_lazy("From"), widget=CLOCK)
    ends_at = forms.DateTimeField(label=gettext_lazy("Until"), widget=CLOCK)
    pool = forms.ModelChoiceField(
        Pool.objects.all(),
        label=gettext_lazy("All machines of the pool"),
        required=False,
        empty_label=gettext_lazy("no whole pool"),
        help_text=gettext_lazy("Also those with a card of it, and those that join it later."),
    )
    nodes = forms.ModelMultipleChoiceField(
        Node.objects.present().select_related("pool").order_by("pool__name", "name"),
        to_field_name="name",
        label=gettext_lazy("Machines"),
        required=False,
    )
    stops = forms.BooleanField(
        label=gettext_lazy("Stop jobs that can be queued again"),
        required=False,
        help_text=gettext_lazy(
            "When it begins, preemptible jobs are stopped and queued again. Other jobs run to their end."
        ),
    )
    why = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=200,
        required=False,
        help_text=gettext_lazy("Everyone can read this."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    def fill(self, row: Maintenance) -> Maintenance:
        """Put what was given into the row."""
        for name in FIELDS:
            setattr(row, name, self.cleaned_data[name])
        return row

    @property
    def asked(self) -> str:
        """Return what decides which machines and jobs are closed when, to compare with what was seen."""
        data = self.cleaned_data
        times = [data[name].isoformat() for name in ("begins_at", "ends_at")]
        nodes = sorted(node.pk for node in data["nodes"])
        return f"{times} {data['pool'] and data['pool'].pk} {nodes} {data['stops']}"

    @property
    def machines(self) -> list[tuple[str, list[tuple[Node, bool]]]]:
        """Return the machines to choose from by their home pool, each with whether it is chosen."""
        chosen = {str(getattr(one, "name", one)) for one in self["nodes"].value() or []}
        found: dict[str, list[tuple[Node, bool]]] = {}
        for node in self.fields["nodes"].queryset:  # type: ignore[attr-defined]
            found.setdefault(node.pool.name, []).append((node, node.name in chosen))
        return list(found.items())


@dataclass(frozen=True)
class JobLine:
    """A job that holds something on the machines. then: what becomes of it, in words; in_the_way: it is still there."""

    there: JobThere
    then: str
    in_the_way: bool


@dataclass(frozen=True)
class Closing:
    """What a maintenance closes, and what people read of it. teams: whose members read it."""

    machines: int
    cards: int
    jobs: list[JobLine]
    banner: str
    teams: list[str]

    @property
    def words(self) -> str:
        machines = ngettext("%(count)s machine", "%(count)s machines", self.machines) % {"count": self.machines}
        cards = ngettext("%(count)s GPU", "%(count)s GPUs", self.cards) % {"count": self.cards}
        return _("It closes %(machines)s with %(cards)s.") % {"machines": machines, "cards": cards}

    @property
    def job_words(self) -> str:
        left = sum(line.in_the_way for line in self.jobs)
        if not self.jobs:
            return _("Nothing runs there now.")
        if not left:
            return _("All that runs there ends before, by its own estimate.")
        words = ngettext(
            "%(left)s of %(all)s that runs there may still run when it begins.",
            "%(left)s of %(all)s that run there may still run when it begins.",
            left,
        )
        return words % {"left": left, "all": len(self.jobs)}


@dataclass(frozen=True)
class Line:
    """A maintenance in the list."""

    row: Maintenance
    where: str
    machines: int
    cards: int


@require_safe
@for_staff
def show_maintenance(request: HttpRequest) -> HttpResponse:
    """List what goes on, what is planned and what is over."""
    now = timezone.now()
    lines = list_lines(Maintenance.objects.not_over(now).select_related("pool").order_by("begins_at", "pk"))
    current = [line for line in lines if line.row.begins_at <= now]
    planned = [line for line in lines if line.row.begins_at > now]
    context = {
        "groups": [(_("Now"), current), (_("Planned"), planned)],
        "any": bool(lines),
        "now": now,
        "past": [(row, name_machines(row)) for row in list_past(now, MOST_PAST)],
        "zone": timezone.get_current_timezone_name(),
        "answer": _answer(len(current), len(planned)),
    }
    return show(request, "console/maintenance.html", context, current="console_maintenance")


@require_http_methods(["GET", "POST"])
@for_staff
def plan(request: HttpRequest) -> HttpResponse:
    """Plan a maintenance: first show what it closes, then save it. ?node= and ?pool= choose machines."""
    require(person_of(request), "node.change")
    chosen = {
        "nodes": Node.objects.present().filter(name__in=request.GET.getlist("node")),
        "pool": Pool.objects.filter(name=request.GET.get("pool", "")).first(),
    }
    return edit(request, Maintenance(), chosen)


@require_http_methods(["GET", "POST"])
@for_staff
def change(request: HttpRequest, maintenance_id: int) -> HttpResponse:
    """Show a maintenance with what it closes now, or change it."""
    row = find_maintenance(maintenance_id)
    if request.method == "POST":
        require(person_of(request), "node.change")
    return edit(request, row, {name: getattr(row, name) for name in FIELDS} | {"nodes": row.nodes.all()})


@require_POST
@for_staff
def end(request: HttpRequest, maintenance_id: int) -> HttpResponse:
    """Cancel it, or end it now."""
    require(person_of(request), "node.change")
    row, now = find_maintenance(maintenance_id), timezone.now()
    end_maintenance(actor=person_of(request).as_actor, maintenance=row)
    if row.begins_at < now:
        messages.success(request, _("The maintenance is over. Its machines take work again."))
    else:
        messages.success(request, _("The maintenance is called off."))
    return redirect("console_maintenance")


def edit(request: HttpRequest, row: Maintenance, initial: dict) -> HttpResponse:
    """Show the form with what it closes, and save it once just this was seen."""
    actor, made = person_of(request).as_actor, row.pk is None
    form = MaintenanceForm(request.POST or None, initial=initial)
    nodes: list[Node] = [] if made else list(row.nodes.all())
    is_sound = not made and row.ends_at > timezone.now()
    if form.is_bound:
        is_sound = bool(save(form, lambda: check_maintenance(form.fill(row), form.cleaned_data["nodes"])))
        nodes = list(form.cleaned_data.get("nodes", []))
    if form.is_bound and is_sound and request.POST.get("seen") == form.asked:
        if save(form, lambda: save_maintenance(actor=actor, maintenance=row, nodes=nodes)):
            messages.success(request, _("The maintenance is planned.") if made else _("Saved."))
            return redirect("console_maintenance")
        is_sound = False
    context = {
        "form": form,
        "row": row,
        "made": made,
        "closing": find_closing(row, nodes) if is_sound else None,
        "seen": form.asked if form.is_bound and is_sound else "",
        "now": timezone.now(),
        "zone": timezone.get_current_timezone_name(),
    }
    status = 400 if form.errors else 200
    return show(request, "console/maintenance_one.html", context, current="console_maintenance", status=status)


def find_closing(row: Maintenance, nodes: Iterable[Node]) -> Closing:
    """Return what the maintenance closes, saved or not, with these machines by name."""
    ids = {node.pk for node in nodes} | list_machines_of_pools([row.pool_id]).get(row.pool_id or 0, set())
    closed = list(Node.objects.filter(pk__in=ids).order_by("name"))
    cards = Gpu.objects.present().filter(node__in=ids)
    pools = Node.objects.filter(pk__in=ids).values("pool").union(cards.order_by().values("pool"))
    teams = Team.objects.filter(quotas__pool__in=pools)
    return Closing(
        machines=len(ids),
        cards=cards.count(),
        jobs=[_job_line(row, there) for there in list_jobs_on(closed)],
        banner=describe_banner(row, [node.name for node in closed], timezone.now()),
        teams=list(teams.distinct().order_by("name").values_list("name", flat=True)),
    )


def list_lines(rows: Iterable[Maintenance]) -> list[Line]:
    """Return each maintenance with how many machines and cards it closes."""
    rows = list(rows)
    of_pool = list_machines_of_pools(row.pool_id for row in rows)
    closed = [{node.pk for node in row.nodes.all()} | of_pool.get(row.pool_id or 0, set()) for row in rows]
    everywhere = set[int]().union(*closed)
    cards = Counter(Gpu.objects.present().filter(node__in=everywhere).values_list("node", flat=True))
    return [
        Line(row, name_machines(row), len(ids), sum(cards[pk] for pk in ids))
        for row, ids in zip(rows, closed, strict=True)
    ]


def name_machines(row: Maintenance) -> str:
    """Name its pool and machines; of many the first."""
    names = [_("all of pool %(pool)s") % {"pool": row.pool.name}] if row.pool else []
    named = sorted(node.name for node in row.nodes.all())
    names += named[:MOST_NAMES]
    if more := len(named[MOST_NAMES:]):
        names.append(_("%(n)s more") % {"n": more})
    return ", ".join(names)


def _job_line(row: Maintenance, there: JobThere) -> JobLine:
    if there.ends_at is not None and there.ends_at <= row.begins_at:
        return JobLine(there, _("ends before"), False)
    if row.stops and there.stops:
        return JobLine(there, _("is stopped and queued again"), True)
    return JobLine(there, _("runs to its end"), True)


def _answer(current: int, planned: int) -> str:
    if not current and not planned:
        return _("No maintenance goes on, and none is planned.")
    words = []
    if current:
        words.append(ngettext("%(count)s goes on now", "%(count)s go on now", current) % {"count": current})
    if planned:
        words.append(ngettext("%(count)s is planned", "%(count)s are planned", planned) % {"count": planned})
    return _("Maintenance: %(words)s.") % {"words": ", ".join(words)}
