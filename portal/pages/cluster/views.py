"""Pages of the cluster, GPU map, nodes, named images and the installation's checks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from accounts.models import Team, User
from accounts.permissions import may, require
from cluster.models import OUT_OF_SERVICE, Gpu, NodeState, Pool
from cluster.nodes import find_node
from common.errors import NotFound
from events.models import Event
from images.catalogue import filter_visible_images
from images.image_locations import list_images_on_node
from jobs.states import TaskState
from portal.access.past_slices import list_past_slices
from portal.access.redacted_rows import list_node_views
from portal.image_view import ImageView, view_images
from portal.pages.charts import chart_card, chart_machine, chart_pools
from portal.pages.cluster.health import load_node_health
from portal.pages.cluster.machines import SIZES, Card, Machine, Summary, build_machines, show_gpu_size, sum_machines
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.templatetags.amounts import gpu_sum
from portal.templatetags.bars import team_classes
from runtimes.contract.runtime import Finding
from scheduler.preview.preview import list_pool_faults

MOST_EVENTS, MOST_WHY = 30, 200
HELD_SINCE = timedelta(hours=24)
MOST_REFRESHED = 250
"""Machines of a map that is drawn anew with each sample."""
TONES = ("bad", "note", "ok")
"""Of the installation's findings, worst first."""
EVENT_WORDS = {
    "node.added": gettext_lazy("The machine was added, with %(gpus)s GPUs"),
    "gpu.added": gettext_lazy("Card %(gpu)s was added to pool %(pool)s"),
    "gpu.gone": gettext_lazy("Card %(gpu)s was removed"),
    "gpu.broken": gettext_lazy("Card %(gpu)s is out of service: %(why)s"),
    "gpu.sound": gettext_lazy("Card %(gpu)s is in service again"),
    "node.maintenance_planned": gettext_lazy("Maintenance was planned: %(from)s to %(until)s. %(why)s"),
    "node.maintenance_ended": gettext_lazy("The maintenance from %(from)s to %(until)s was cancelled or has ended"),
    NodeState.READY: gettext_lazy("The machine is ready"),
    NodeState.CORDONED: gettext_lazy("Cordoned: running work continues, nothing new starts"),
    NodeState.DRAINING: gettext_lazy("Draining: nothing new starts, and jobs that can be queued again are stopped"),
    NodeState.SUSPECT: gettext_lazy("The machine is suspect: nothing new starts"),
    NodeState.NOT_READY: gettext_lazy("The machine is not ready"),
}
LINK_WORDS = {
    "NV": gettext_lazy("NVLink; the number says how many links"),
    "PIX": gettext_lazy("one PCIe bridge"),
    "PXB": gettext_lazy("several PCIe bridges"),
    "PHB": gettext_lazy("the PCIe host bridge of a CPU"),
    "NODE": gettext_lazy("host bridges of one NUMA node"),
    "SYS": gettext_lazy("the link between NUMA nodes"),
}


@dataclass(frozen=True)
class NodeEvent:
    at: datetime
    actor: str
    words: str


@dataclass(frozen=True)
class Size:
    """A size to look for; `count`: cards with room for one now."""

    value: str
    words: str
    count: int
    chosen: bool


@signed_in
@require_safe
def show_cluster(request: HttpRequest) -> HttpResponse:
    machines = build_machines(list_node_views(cast(User, request.user)))
    summary = sum_machines(machines)
    pools = Pool.objects.filter(gpus__in=Gpu.objects.present()).distinct().values_list("name", flat=True)
    charts = chart_pools(sorted(pools)) if summary.gpus else None
    context = {"machines": machines, "summary": summary, "answer": cluster_answer(summary), "charts": charts}
    return render_page(request, "cluster/list.html", context, fragment="cluster/_list_live.html")


@signed_in
@require_safe
def show_gpu_map(request: HttpRequest) -> HttpResponse:
    """Show the GPU map; ?pool= filters, ?size= highlights cards with room."""
    pool, size = request.GET.get("pool", ""), request.GET.get("size", "")
    pools = list(Pool.objects.values_list("name", flat=True))
    if pool and pool not in pools:
        raise NotFound(kind="pool")
    machines = [m for m in build_machines(list_node_views(cast(User, request.user), pool=pool or None)) if m.cards]
    for machine in machines:
        machine.cards = [card for card in machine.cards if not pool or card.view.pool == pool]
    cards = [card for machine in machines for card in machine.cards]
    context = {
        "machines": machines,
        "cards": cards,
        "sizes": build_sizes(cards, size),
        "size_chosen": size in SIZES,
        "legend": teams_on(cards),
        "answer": map_answer(cards),
        "is_sampled": len(machines) <= MOST_REFRESHED and any(machine.is_sampled for machine in machines),
        "pool": pool,
        "pools": pools,
    }
    return render_page(request, "cluster/map.html", context, fragment="cluster/_map_live.html")


@signed_in
@require_safe
def show_node(request: HttpRequest, name: str) -> HttpResponse:
    found = build_machines(list_node_views(cast(User, request.user), name=name))
    if not found:
        raise NotFound(kind="node")
    machine = found[0]
    context = {
        "machine": machine,
        "answer": node_answer(machine),
        "tasks": [(task, str(TaskState(task.state).label)) for task in machine.view.tasks],
        "lost": []
        if machine.is_stale
        else [task for task in machine.view.tasks if task.state == TaskState.LOST and task.full],
        "may_change": may(cast(User, request.user), "node.change"),
        "is_out_of_service": machine.node.state in OUT_OF_SERVICE,
        "may_settle": may(cast(User, request.user), "job.settle"),
        "events": node_events(machine),
        "link_words": links_explained(machine),
        "images": list_images_on_node(machine.node),
        "health": load_node_health(machine.node),
        "charts": chart_machine(name),
    }
    return render_page(request, "cluster/node.html", context, fragment="cluster/_node_live.html")


@signed_in
@require_safe
def show_gpu(request: HttpRequest, uuid: str) -> HttpResponse:
    """Show a card: its curves for everybody, who held it as far as the user may see that."""
    gpu = Gpu.objects.present().select_related("node").filter(uuid=uuid).first()
    if gpu is None:
        raise NotFound(kind="gpu", id=uuid)
    user = cast(User, request.user)
    machine = build_machines(list_node_views(user, name=gpu.node.name))[0]
    context = {
        "machine": machine,
        "card": next(card for card in machine.cards if card.view.uuid == uuid),
        "charts": chart_card(uuid),
        "slices": list_past_slices(user, gpu, timezone.now() - HELD_SINCE),
    }
    return render_page(request, "cluster/gpu.html", context, fragment="cluster/_gpu.html")


@require_POST
@signed_in
def change_service(request: HttpRequest, name: str, service: Callable[..., None]) -> HttpResponse:
    """Cordon, drain or uncordon a node."""
    require(request.user, "node.change")
    why = {"why": request.POST["why"].strip()[:MOST_WHY]} if "why" in request.POST else {}
    service(actor=cast(User, request.user).as_actor, node=find_node(name), **why)
    return redirect("node", name=name)


@require_safe
@signed_in
def list_images(request: HttpRequest) -> HttpResponse:
    views = view_images(filter_visible_images(request.user))
    context = {"views": views, "answer": images_answer(views)}
    return render_page(request, "cluster/images.html", context, fragment="cluster/_images.html")


@require_safe
@signed_in
def show_checks(request: HttpRequest) -> HttpResponse:
    """Show what `tessera doctor` finds, worst first."""
    require(request.user, "node.change")
    found = sorted(list_pool_faults(), key=lambda finding: TONES.index(finding.tone))
    context = {"findings": found, "answer": checks_answer(found)}
    return render_page(request, "cluster/checks.html", context, fragment="cluster/_checks.html")


def cluster_answer(summary: Summary) -> str:
    if not summary.nodes:
        return ""
    machines = ngettext("%(count)s machine", "%(count)s machines", summary.nodes) % {"count": summary.nodes}
    if not summary.gpus:
        return _("%(machines)s without a GPU.") % {"machines": machines}
    numbers = {"machines": machines, "gpus": summary.gpus, "free": gpu_sum(summary.gpu_free)}
    words = ngettext(
        "%(machines)s, %(gpus)s GPU: %(free)s free.", "%(machines)s, %(gpus)s GPUs: %(free)s free.", summary.gpus
    )
    return words % numbers


def images_answer(views: list[ImageView]) -> str:
    if not views:
        return _("The catalogue has no images yet.")
    return ngettext("The catalogue has %(n)s image.", "The catalogue has %(n)s images.", len(views)) % {"n": len(views)}


def checks_answer(found: list[Finding]) -> str:
    bad, notes = (sum(finding.tone == tone for finding in found) for tone in ("bad", "note"))
    if bad:
        return ngettext("%(n)s problem found.", "%(n)s problems found.", bad) % {"n": bad}
    if notes:
        words = ngettext("Everything works; %(n)s note.", "Everything works; %(n)s notes.", notes)
        return words % {"n": notes}
    return _("Everything is in order.")


def map_answer(cards: list[Card]) -> str:
    if not cards:
        return ""
    whole = sum(card.is_schedulable and not card.view.slices for card in cards)
    numbers = {"free": gpu_sum(sum(card.free_milli for card in cards)), "all": len(cards), "whole": whole}
    return _("%(free)s of %(all)s cards free; %(whole)s of them whole.") % numbers


def node_answer(machine: Machine) -> str:
    if machine.closed:
        return machine.closed
    if not machine.cards:
        return _("A machine without a GPU; its home pool is %(pool)s.") % {"pool": machine.node.pool.name}
    numbers = {"free": gpu_sum(machine.free_milli), "all": len(machine.cards)}
    return ngettext("%(free)s of %(all)s GPU free.", "%(free)s of %(all)s GPUs free.", len(machine.cards)) % numbers


def build_sizes(cards: list[Card], chosen: str) -> list[Size]:
    return [
        Size(size, show_gpu_size(size), sum(size in card.fitting_sizes for card in cards), size == chosen)
        for size in SIZES
    ]


def teams_on(cards: list[Card]) -> list[tuple[str, str]]:
    names = {part.team for card in cards for part in card.view.slices if part.team and not part.own}
    numbers = Team.objects.filter(name__in=names).values_list("name", "pk")
    return [(name, team_classes(number)) for name, number in numbers]


def node_events(machine: Machine) -> list[NodeEvent]:
    rows = Event.objects.filter(kind=machine.node.KIND, object_id=machine.node.pk).order_by("-id")[:MOST_EVENTS]
    return [NodeEvent(row.at, row.actor, _describe_event(row)) for row in rows]


def links_explained(machine: Machine) -> list[tuple[str, str]]:
    used = {word.rstrip("0123456789") for _name, row in machine.links for word in row}
    return [(word, str(words)) for word, words in LINK_WORDS.items() if word in used]


def _describe_event(row: Event) -> str:
    known = EVENT_WORDS.get(row.to_state or row.verb)
    if known is None:
        return row.verb
    params = {name: str(value) for name, value in row.params.items()}
    for name in ("from", "until"):
        if moment := parse_datetime(params.get(name, "")):
            params[name] = date_format(timezone.localtime(moment), "Y-m-d H:i")
    why = f". {row.params['why']}" if row.to_state and row.params.get("why") else ""
    return str(known) % {"gpus": "?", "gpu": "?", "pool": "?", **params} + why
