"""Pools: what each has and its policy, in words and as one form, with its history and a way back."""

from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Count, Sum
from django.forms.boundfield import BoundField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.permissions import require
from cluster.maintenance import list_machines_of_pools
from cluster.models import Gpu, HighPriority, Node, Pool, Window
from cluster.services import PLACING, POLICY, find_pool, save_pool
from common.errors import NotFound
from common.resources import show_duration
from events.models import Event
from jobs.models import Job
from monitoring.models import IdleRule
from portal.console.machines import PoolForm
from portal.forms import save
from portal.pages.console.audit import list_history
from portal.pages.console.forms import begin_labels_large
from portal.pages.console.page import for_staff, person_of, show
from quotas.models import Holding

MOST_LINES = 12
MOST_MACHINES = 24
GROUPS: tuple[tuple[str | Promise, str | Promise, tuple[str, ...]], ...] = (
    (
        gettext_lazy("Queue"),
        gettext_lazy("Who goes first, and who may stop whom."),
        (
            "ageing_s",
            "reservations",
            "batch_is_preemptible",
            "preempt",
            "high_priority",
            "high_gpu_hours",
            "short_first",
            "longest_s",
            "stop_longer",
            "most_stops",
        ),
    ),
    (
        gettext_lazy("Slices"),
        gettext_lazy("Whether several jobs share a card, and how."),
        ("shared", "max_slices_per_gpu", "accepts_watched_only", "allows_mps", "cpu_overcommit_percent"),
    ),
    (
        gettext_lazy("Limits"),
        gettext_lazy("How long a job may run, and how long it may take to stop."),
        ("default_max_time_s", "max_grace_s"),
    ),
    (
        gettext_lazy("Order of machines"),
        gettext_lazy(
            "Among the machines that fit, the one with the largest sum of weights is chosen. 0 turns a rule off."
        ),
        PLACING,
    ),
)


class NewPoolForm(forms.ModelForm):
    class Meta:
        model = Pool
        fields = ("name", "description")

    def clean_name(self) -> str:
        name = self.cleaned_data["name"]
        if Pool.objects.filter(name__iexact=name).exists():
            raise ValidationError(_("There is a pool “%(name)s” already. Choose another name."), params={"name": name})
        return name


class PolicyForm(PoolForm):
    """The description and policy of a pool, whose name never changes."""

    class Meta(PoolForm.Meta):
        fields = ("description", *POLICY)  # type: ignore[assignment]
        help_texts = {
            "shared": gettext_lazy("Off: each job gets whole cards."),
            "max_slices_per_gpu": gettext_lazy(
                "Only where cards can be split: how many jobs may be on a card at once."
            ),
            "accepts_watched_only": gettext_lazy(
                "Off: slices are given only where something enforces their memory limit, not where a watchdog "
                "ends what exceeds it."
            ),
            "arrangement": gettext_lazy(
                "Fill one after another keeps whole machines free for large jobs; emptiest first keeps jobs apart."
            ),
        }

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        begin_labels_large(self)


@dataclass(frozen=True)
class PolicyField:
    """A field of the form. usual: its default in words; differs: the pool has another value."""

    bound: BoundField
    usual: str
    differs: bool
    now: str


@dataclass(frozen=True)
class PoolLine:
    """A pool with what it has. used, free: thousandths of its cards."""

    pool: Pool
    machines: int
    cards: int
    used: int
    policy: list[str]

    @property
    def free(self) -> int:
        return max(1000 * self.cards - self.used, 0)


@require_safe
@for_staff
def show_pools(request: HttpRequest) -> HttpResponse:
    """List the pools with what they have, and their policy in words."""
    lines = list_lines()
    cards = sum(line.cards for line in lines)
    words = ngettext("%(count)s pool", "%(count)s pools", len(lines)) % {"count": len(lines)}
    gpus = ngettext("%(count)s GPU", "%(count)s GPUs", cards) % {"count": cards}
    answer = _("%(pools)s with %(gpus)s.") % {"pools": words, "gpus": gpus} if lines else ""
    return show(request, "console/pools.html", {"lines": lines, "answer": answer}, current="console_pools")


@require_http_methods(["GET", "POST"])
@for_staff
def new_pool(request: HttpRequest) -> HttpResponse:
    """Create a pool with the usual policy, and lead to its page."""
    actor = person_of(request)
    require(actor, "pool.change")
    form = NewPoolForm(request.POST or None)
    if save(form, lambda: save_pool(actor=actor.as_actor, pool=form.instance)):
        messages.success(request, _("The pool is created. Its machines and cards are chosen on the machines’ pages."))
        return redirect("console_pool", name=form.instance.name)
    status = 400 if form.is_bound else 200
    return show(request, "console/new_pool.html", {"form": form}, current="console_pools", status=status)


@require_http_methods(["GET", "POST"])
@for_staff
def show_pool(request: HttpRequest, name: str) -> HttpResponse:
    """Show a pool, or change its policy, unless somebody else did so since the page was made."""
    pool, actor = find_pool(name), person_of(request)
    if request.method != "POST":
        return show_one(request, pool, PolicyForm(instance=pool))
    require(actor, "pool.change")
    form = PolicyForm(request.POST, instance=pool)
    if form.is_valid() and request.POST.get("seen") != _last_change(pool):
        form.add_error(None, _("Somebody else changed this pool meanwhile: see History. Save again to replace it."))
    if save(form, lambda: save_pool(actor=actor.as_actor, pool=form.instance)):
        messages.success(request, _("Saved. It holds from the next scheduling cycle on; what runs goes on."))
        return redirect("console_pool", name=name)
    return show_one(request, find_pool(name), form)


@require_POST
@for_staff
def undo_change(request: HttpRequest, name: str, event_id: int) -> HttpResponse:
    """Put what a change of the policy replaced back to what it was."""
    actor, pool = person_of(request), find_pool(name)
    require(actor, "pool.change")
    event = Event.objects.filter(pk=event_id, kind=Pool.KIND, object_id=pool.pk, verb="pool.changed").first()
    if event is None:
        raise NotFound(kind="event", id=str(event_id))
    for field, before in event.params["from"].items():
        setattr(pool, field, before)
    try:
        pool.full_clean()
        save_pool(actor=actor.as_actor, pool=pool)
        messages.success(request, _("What was changed is as it was before."))
    except ValidationError as refused:
        messages.error(request, " ".join(refused.messages))
    return redirect("console_pool", name=name)


def show_one(request: HttpRequest, pool: Pool, form: PolicyForm) -> HttpResponse:
    machines = Node.objects.present().filter(pk__in=list_machines_of_pools([pool.pk])[pool.pk]).order_by("name")
    waiting = Job.objects.waiting().in_pool(pool.name)
    context = {
        "pool": pool,
        "line": next(line for line in list_lines() if line.pool.pk == pool.pk),
        "form": form,
        "groups": [(name, words, [_field(pool, form, one) for one in names]) for name, words, names in GROUPS],
        "seen": _last_change(pool),
        "machines": machines[:MOST_MACHINES],
        "more_machines": max(machines.count() - MOST_MACHINES, 0),
        "waiting": waiting.count(),
        "kept_out": waiting.filter(wait_reasons__0__code="borrow_denied").count(),
        "teams": list(pool.quotas.order_by("team__name").values_list("team__name", flat=True)),
        "lends": Window.objects.filter(lender=pool).select_related("borrower"),
        "borrows": Window.objects.filter(borrower=pool).select_related("lender"),
        "idle_rules": IdleRule.objects.filter(pool=pool) or IdleRule.objects.filter(pool=None),
        "history": list_history(MOST_LINES, kind=Pool.KIND, object_id=pool.pk),
    }
    status = 400 if form.errors else 200
    return show(request, "console/pool.html", context, current="console_pools", status=status)


def list_lines() -> list[PoolLine]:
    """Return each pool with what it has, by name. Machines: those of the pool, and those with a card of it."""
    used = dict(Holding.objects.live().values_list("pool").annotate(milli=Sum("gpu_milli")))
    cards = dict(Gpu.objects.present().order_by().values_list("pool").annotate(count=Count("pk")))
    pools = list(Pool.objects.all())
    machines = list_machines_of_pools(pool.pk for pool in pools)
    return [
        PoolLine(pool, len(machines[pool.pk]), cards.get(pool.pk, 0), used.get(pool.pk) or 0, describe_policy(pool))
        for pool in pools
    ]


def describe_policy(pool: Pool) -> list[str]:
    """Say what a person who submits to the pool meets, in a few words each."""
    slices = ngettext("cards in up to %(n)s slice", "cards in up to %(n)s slices", pool.max_slices_per_gpu)
    limit = _("%(time)s for jobs that name no limit") % {"time": show_duration(pool.default_max_time_s or 0)}
    return [
        slices % {"n": pool.max_slices_per_gpu} if pool.shared else _("whole cards"),
        limit if pool.default_max_time_s else _("no time limit"),
        _("short jobs first") if pool.short_first else _("short and long jobs alike"),
        _("idle cards are borrowed") if pool.batch_is_preemptible else _("jobs borrow only where they say so"),
        _("higher priority preempts") if pool.preempt else _("no preemption by priority"),
        _describe_price(pool),
    ]


def _describe_price(pool: Pool) -> str:
    if pool.high_priority == HighPriority.BUDGET:
        return _("high priority: %(hours)s GPU hours a week for each team") % {"hours": pool.high_gpu_hours}
    return _("high priority: by a lead") if pool.high_priority == HighPriority.CONSENT else _("high priority: free")


def _field(pool: Pool, form: PolicyForm, name: str) -> PolicyField:
    usual = Pool._meta.get_field(name).get_default()
    now = getattr(pool, name)
    return PolicyField(form[name], _show(pool, name, usual), now != usual, _show(pool, name, now))


def _show(pool: Pool, name: str, value: object) -> str:
    """Show a value of the policy as the form has it."""
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if value is None:
        return _("none")
    if choices := Pool._meta.get_field(name).choices:
        return str(dict(choices)[value])  # type: ignore[arg-type, index]
    return show_duration(int(value)) if name.endswith("_s") else str(value)  # type: ignore[call-overload]


def _last_change(pool: Pool) -> str:
    """Return the number of the newest change of the pool; "" before the first."""
    last = Event.objects.filter(kind=Pool.KIND, object_id=pool.pk).order_by("-id").values_list("pk", flat=True).first()
    return str(last or "")
