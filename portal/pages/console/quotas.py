"""Quotas as a grid of teams by pools that is edited in place and saved whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import Team
from accounts.permissions import require
from cluster.capacity import pool_total
from cluster.models import Pool
from common.errors import InvalidInput, NotFound
from common.resources import cpu_text, memory_text, parse_cpu, parse_memory, show_cpu, show_gpu, show_memory
from events.models import Event
from portal.forms import save
from portal.pages.console.audit import list_history
from portal.pages.console.page import for_staff, person_of, send_csv, show
from portal.wording.changes import describe_return
from portal.wording.errors import describe_field_error
from quotas.amounts import cards_text, parse_cards
from quotas.models import RESOURCES, Amounts, Holding, Quota, add_amounts, list_subtree, load_parents
from quotas.services import delete_quota, end_until, save_quota, save_quotas

MOST_LINES = 12
KINDS = ("guarantee", "limit")


@dataclass(frozen=True)
class Resource:
    """A resource of quotas: how its amounts are read, written into a field, and shown."""

    name: str
    words: object
    read: Callable[[object, str], int]
    write: Callable[[int], str]
    show: Callable[[int], str]


SHOWN = {
    "gpu": Resource(RESOURCES[0], gettext_lazy("GPUs"), parse_cards, cards_text, show_gpu),
    "cpu": Resource(RESOURCES[1], gettext_lazy("CPU"), parse_cpu, cpu_text, show_cpu),
    "memory": Resource(RESOURCES[2], gettext_lazy("Memory"), parse_memory, memory_text, show_memory),
}


CSV_AMOUNTS = (("gpu", "gpu_milli", 1000), ("cpu", "cpu_milli", 1000), ("memory_gib", "memory_mib", 1024))
"""(name of columns, resource, what of it is one there)."""
COLUMNS = (
    "team",
    "parent",
    "pool",
    *(f"{name}_{kind}" for name, *_unit in CSV_AMOUNTS for kind in ("guarantee", "limit", "used")),
    "weight",
    "cell",
)


@dataclass
class Cell:
    """A field of the grid. was: what it held when the page was made; "" is none. returns: to what, and when."""

    name: str
    label: str
    value: str
    was: str
    error: str = ""
    returns: str = ""


@dataclass(frozen=True)
class BarPart:
    kind: str
    begin: float
    width: float


@dataclass
class Place:
    """A team in a pool. used: by the team and those below it. bar: parts with begin and width in percent."""

    guarantee: Cell
    limit: Cell
    used: str
    note: str
    bar: list[BarPart]


@dataclass
class TeamRow:
    team: Team
    depth: int
    places: list[Place] = field(default_factory=list)


@dataclass(frozen=True)
class PoolColumn:
    """promised: guaranteed to teams at the top; is_full: all of it."""

    pool: Pool
    total: str
    promised: str
    left: str
    is_full: bool


class UntilForm(forms.Form):
    until = forms.DateTimeField(required=False)

    @property
    def said(self) -> str:
        """Return what is wrong with it."""
        return " ".join(self.errors.get("until", []))


@dataclass(frozen=True)
class Temporary:
    """A quota that holds until a moment. moment: as a field has it."""

    quota: Quota
    words: str
    moment: str


@require_http_methods(["GET", "POST"])
@for_staff
def edit_quotas(request: HttpRequest) -> HttpResponse:
    """Show the grid of one resource, or save all that was changed in it, for a time or to last, or nothing."""
    resource = SHOWN.get(request.GET.get("resource", ""), SHOWN["gpu"])
    if request.method != "POST":
        return show_grid(request, resource)
    require(person_of(request), "quota.change")
    given = {name: value.strip() for name, value in request.POST.items() if name.startswith(("guarantee:", "limit:"))}
    errors, quotas = read_changes(resource, given, request.POST.dict())
    form = UntilForm(request.POST)
    if not form.is_valid():
        errors["until"] = form.said
    if not errors and quotas:
        try:
            save_quotas(actor=person_of(request), quotas=quotas, until=[form.cleaned_data["until"]] * len(quotas))
        except InvalidInput as refused:
            errors = place_errors(refused, quotas)
    if errors:
        return show_grid(request, resource, given | {"until": request.POST.get("until", "")}, errors)
    words = ngettext("%(count)s quota is saved.", "%(count)s quotas are saved.", len(quotas))
    messages.success(request, words % {"count": len(quotas)} if quotas else _("Nothing was changed."))
    return redirect(_address(resource))


@require_safe
@for_staff
def download_quotas(request: HttpRequest) -> HttpResponse:
    """Send a line for each quota as CSV. An empty limit is none; what is used includes the teams below."""
    held, parents = Holding.objects.live().totals_by("team", "pool"), load_parents()
    quotas = Quota.objects.select_related("team__parent", "pool").order_by("team__name", "pool__name")
    return send_csv("quotas", COLUMNS, (_csv_row(quota, held, parents) for quota in quotas))


@require_POST
@for_staff
def change_until(request: HttpRequest, quota_id: int) -> HttpResponse:
    """Let what a quota has for a time hold until another moment, last, or return at once, as `do` says."""
    actor = person_of(request)
    require(actor, "quota.change")
    quota = Quota.objects.filter(pk=quota_id, until__isnull=False).select_related("team", "pool").first()
    if quota is None:
        raise NotFound(kind="quota", id=str(quota_id))
    form, do = UntilForm(request.POST), request.POST.get("do")
    if do == "return":
        end_until(actor=actor, quota=quota)
        messages.success(request, _("%(quota)s is as it was before.") % {"quota": quota})
    elif do == "keep":
        save_quota(actor=actor, quota=quota, until="kept")
        messages.success(request, _("%(quota)s stays as it is now.") % {"quota": quota})
    elif save(form, lambda: save_quota(actor=actor, quota=quota, until=form.cleaned_data["until"])):
        messages.success(request, describe_return(quota))
    else:
        messages.error(request, form.said)
    return redirect("console_quotas")


@require_POST
@for_staff
def undo_change(request: HttpRequest, event_id: int) -> HttpResponse:
    """Put a quota back to what it was before a change."""
    require(person_of(request), "quota.change")
    event = Event.objects.filter(pk=event_id, kind=Quota.KIND).first()
    quota = Quota.objects.filter(pk=event.object_id).select_related("team", "pool").first() if event else None
    if event is None or quota is None:
        raise NotFound(kind="quota", id=str(event_id))
    before = event.params.get("from", {})
    try:
        if event.verb == "quota.made":
            delete_quota(actor=person_of(request), quota=quota)
        else:
            for name in before:
                setattr(quota, name, before[name])
            save_quotas(actor=person_of(request), quotas=[quota])
        messages.success(request, _("%(quota)s is as it was before.") % {"quota": quota})
    except InvalidInput as refused:
        messages.error(request, " ".join(describe_field_error(one) for one in refused.errors))
    return redirect("console_quotas")


def read_changes(
    resource: Resource, given: dict[str, str], sent: Mapping[str, str]
) -> tuple[dict[str, str], list[Quota]]:
    """Return (errors by field, the quotas with what was changed in the form, not saved).

    A field that somebody else changed meanwhile is an error, unless both wrote the same. sent: with `was:` of each.
    """
    teams = {team.pk: team for team in Team.objects.all()}
    pools = {pool.pk: pool for pool in Pool.objects.all()}
    known = {(quota.team_id, quota.pool_id): quota for quota in Quota.objects.select_related("team", "pool")}
    errors: dict[str, str] = {}
    changed: dict[tuple[int, int], Quota] = {}
    for name, text in given.items():
        was = sent.get(f"was:{name}", "")
        if text == was:
            continue
        kind, team_id, pool_id = _read_name(name)
        if team_id not in teams or pool_id not in pools:
            continue
        place = team_id, pool_id
        quota = changed.get(place) or known.get(place) or Quota(team=teams[team_id], pool=pools[pool_id])
        now = _text(resource, kind, getattr(quota, f"{resource.name}_{kind}")) if place in known else ""
        if now not in (was, text):
            errors[name] = _("Somebody else saved %(now)s meanwhile. Save again to replace it.") % {"now": now or "–"}
            continue
        try:
            setattr(quota, f"{resource.name}_{kind}", _read(resource, kind, text))
            changed[place] = quota
        except InvalidInput as wrong:
            errors[name] = " ".join(describe_field_error(one) for one in wrong.errors)
    return errors, list(changed.values())


def place_errors(refused: InvalidInput, quotas: list[Quota]) -> dict[str, str]:
    """Return the refusals of `save_quotas` by the field of the grid that each is about."""
    found: dict[str, str] = {}
    for one in refused.errors:
        _empty, number, column = one.pointer.split("/", 2)
        if column == "until":
            found["until"] = describe_field_error(one)
            continue
        quota = quotas[int(number)]
        kind = "limit" if column.endswith("_limit") else "guarantee"
        found[f"{kind}:{quota.team_id}:{quota.pool_id}"] = describe_field_error(one)
    return found


def show_grid(
    request: HttpRequest,
    resource: Resource,
    given: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
) -> HttpResponse:
    grid = Grid(resource, given or {}, errors or {})
    context = {
        "columns": grid.columns,
        "rows": grid.rows,
        "answer": grid.answer,
        "errors": len(errors or {}),
        "resources": [(key, one.words, one is resource) for key, one in SHOWN.items()],
        "until": (given or {}).get("until", ""),
        "until_error": (errors or {}).get("until", ""),
        "zone": timezone.get_current_timezone_name(),
        "temporary": list_temporary(),
        "history": list_history(MOST_LINES, kind=Quota.KIND),
        "here": _address(resource),
    }
    return show(request, "console/quotas.html", context, current="console_quotas", status=400 if errors else 200)


def list_temporary() -> list[Temporary]:
    """Return the quotas that hold until a moment, the first to return first."""
    quotas = Quota.objects.filter(until__isnull=False).select_related("team", "pool").order_by("until", "pk")
    return [
        Temporary(quota, describe_return(quota), date_format(timezone.localtime(quota.until), "Y-m-d\\TH:i"))
        for quota in quotas
    ]


class Grid:
    """The rows and columns of one resource. given, errors: by field, of a form that could not be saved."""

    def __init__(self, resource: Resource, given: dict[str, str], errors: dict[str, str]):
        self._resource, self._given, self._errors = resource, given, errors
        self._at = RESOURCES.index(resource.name)
        self._pools = list(Pool.objects.order_by("name"))
        self._quotas = {(quota.team_id, quota.pool_id): quota for quota in Quota.objects.all()}
        self._held = Holding.objects.live().totals_by("team", "pool")
        self._parents = load_parents()
        self.columns = [self._column(pool) for pool in self._pools]
        teams = {team.pk: team for team in Team.objects.order_by("name")}
        self.rows = [
            TeamRow(teams[pk], depth, self._places(teams[pk])) for pk, depth in _as_tree(list(teams), self._parents)
        ]

    @property
    def answer(self) -> str:
        full = [column.pool.name for column in self.columns if column.is_full]
        if not self.columns:
            return _("There is no pool yet.")
        if full:
            words = _("All of %(pools)s is guaranteed: other teams start only preemptible work there.")
            return words % {"pools": ", ".join(full)}
        return _("What is not guaranteed to a team may be borrowed by all.")

    def _column(self, pool: Pool) -> PoolColumn:
        total = pool_total(pool)[self._at]
        promised = sum(
            quota.guarantees()[self._at]
            for (team_id, pool_id), quota in self._quotas.items()
            if pool_id == pool.pk and self._parents.get(team_id) is None
        )
        show = self._resource.show
        return PoolColumn(pool, show(total), show(promised), show(max(total - promised, 0)), promised >= total)

    def _places(self, team: Team) -> list[Place]:
        below = list_subtree(team.pk, self._parents)
        return [self._place(team, pool, below) for pool in self._pools]

    def _place(self, team: Team, pool: Pool, below: list[int]) -> Place:
        quota = self._quotas.get((team.pk, pool.pk))
        used = sum(self._held.get((one, pool.pk), (0, 0, 0))[self._at] for one in below)
        guarantee, limit = ((getattr(quota, f"{self._resource.name}_{kind}") if quota else None) for kind in KINDS)
        cells = [self._cell(kind, team, pool, quota) for kind in KINDS]
        show = self._resource.show
        note = ""
        if guarantee is not None and used > guarantee:
            note = _("%(amount)s borrowed") % {"amount": show(used - guarantee)}
        return Place(cells[0], cells[1], show(used) if used else "", note, _bar(used, guarantee or 0, limit))

    def _cell(self, kind: str, team: Team, pool: Pool, quota: Quota | None) -> Cell:
        name = f"{kind}:{team.pk}:{pool.pk}"
        was = _text(self._resource, kind, getattr(quota, f"{self._resource.name}_{kind}")) if quota else ""
        words = _("Guarantee of %(team)s in %(pool)s") if kind == "guarantee" else _("Limit of %(team)s in %(pool)s")
        label = words % {"team": team.name, "pool": pool.name}
        returns = self._describe_return(quota, f"{self._resource.name}_{kind}") if quota else ""
        return Cell(name, label, self._given.get(name, was), was, self._errors.get(name, ""), returns)

    def _describe_return(self, quota: Quota, name: str) -> str:
        if quota.until is None or (quota.then is not None and name not in quota.then):
            return ""
        day = date_format(timezone.localtime(quota.until), "MONTH_DAY_FORMAT")
        if quota.then is None:
            return _("until %(day)s, then none") % {"day": day}
        amount = quota.then[name]
        then = _("none") if amount is None else self._resource.show(amount)
        return _("until %(day)s, then %(amount)s") % {"day": day, "amount": then}


def _csv_row(quota: Quota, held: Mapping[tuple[int, int], Amounts], parents: Mapping[int, int | None]) -> list[object]:
    below = list_subtree(quota.team_id, parents)
    used = add_amounts(held.get((team, quota.pool_id), (0, 0, 0)) for team in below)
    amounts: list[object] = []
    for (_name, resource, unit), held_now in zip(CSV_AMOUNTS, used, strict=True):
        values = (getattr(quota, f"{resource}_guarantee"), getattr(quota, f"{resource}_limit"), held_now)
        amounts += ["" if value is None else round(value / unit, 3) for value in values]
    parent = quota.team.parent.name if quota.team.parent else ""
    return [quota.team.name, parent, quota.pool.name, *amounts, quota.weight, quota.cell]


def _bar(used: int, guarantee: int, limit: int | None) -> list[BarPart]:
    """Return the parts of a bar that ends at the limit: used within the guarantee, borrowed, left of the guarantee."""
    whole = max(limit or 0, used, guarantee, 1)
    parts = (("work", min(used, guarantee)), ("borrow", max(used - guarantee, 0)), ("soft", max(guarantee - used, 0)))
    found, begin = [], 0.0
    for kind, amount in parts:
        width = round(100 * amount / whole, 1)
        found.append(BarPart(kind, begin, width))
        begin += width
    return [part for part in found if part.width]


def _as_tree(teams: list[int], parents: dict[int, int | None]) -> list[tuple[int, int]]:
    """Return (team, depth): each before the teams below it, in the order of `teams`."""
    found: list[tuple[int, int]] = []

    def add(above: int | None, depth: int) -> None:
        for team in teams:
            if parents.get(team) == above:
                found.append((team, depth))
                add(team, depth + 1)

    add(None, 0)
    return found


def _read_name(name: str) -> tuple[str, int, int]:
    """Read `guarantee:TEAM:POOL`; what is no such name is no team."""
    kind, _colon, rest = name.partition(":")
    team, _colon, pool = rest.partition(":")
    return kind, int(team) if team.isdecimal() else 0, int(pool) if pool.isdecimal() else 0


def _read(resource: Resource, kind: str, text: str) -> int | None:
    if text in ("", "–"):
        return 0 if kind == "guarantee" else None
    return 0 if text == "0" else resource.read(text, "")


def _text(resource: Resource, kind: str, amount: int | None) -> str:
    """As a field has it. Nothing guaranteed is 0; no limit is empty."""
    if amount is None:
        return ""
    return resource.write(amount) if amount else "0"


def _address(resource: Resource) -> str:
    key = next(key for key, one in SHOWN.items() if one is resource)
    return reverse("console_quotas") + ("" if key == "gpu" else f"?resource={key}")
