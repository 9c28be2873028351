"""Pages of the cluster, GPU map, nodes and named images."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from accounts.models import User
from accounts.permissions import may, require
from cluster.models import OUT_OF_SERVICE, Gpu, Pool
from cluster.nodes import find_card, find_node, set_switch
from common.errors import InvalidInput, NotFound
from events.models import Event
from images.catalogue import filter_visible_images
from images.image_locations import list_images_on_node
from jobs.states import TaskState
from portal.access.past_rows import list_past_slices
from portal.access.redacted_rows import filter_nodes, list_node_views, view_nodes
from portal.image_view import ImageView, view_images
from portal.pages.charts import chart_card, chart_machine, chart_pools
from portal.pages.cluster.health import load_node_health
from portal.pages.cluster.machines import Machine, build_machines
from portal.pages.cluster.totals import Totals, load_totals
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.templatetags.amounts import gpu_sum
from portal.wording.errors import describe_field_error
from portal.wording.events import describe_event

MOST_EVENTS, MOST_WHY, ON_A_PAGE = 30, 200, 50
HELD_SINCE = timedelta(hours=24)
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


@signed_in
@require_safe
def show_cluster(request: HttpRequest) -> HttpResponse:
    """Show the machines, fifty on a page. ?q= is a part of a name, ?pool= filters."""
    words, pool = (request.GET.get(name, "")[:64] for name in ("q", "pool"))
    page = Paginator(filter_nodes(words=words, pool=pool), ON_A_PAGE).get_page(request.GET.get("page"))
    totals = load_totals()
    of_pool = Gpu.objects.present().filter(pool=OuterRef("pk"))
    with_cards = Pool.objects.filter(Exists(of_pool)).values_list("name", flat=True)
    context = {
        "page": page,
        "machines": build_machines(view_nodes(cast(User, request.user), page)),
        "totals": totals,
        "answer": cluster_answer(totals),
        "charts": chart_pools(sorted(with_cards)) if totals.gpus else None,
        "q": words,
        "pool": pool,
        "pools": list(Pool.objects.values_list("name", flat=True)) if totals.nodes > ON_A_PAGE else [],
    }
    return render_page(request, "cluster/list.html", context, fragment="cluster/_list_live.html")


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
    gpu = find_card(uuid)
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
    service(actor=cast(User, request.user).as_actor, node=find_node(name), **_read_why(request))
    return redirect("node", name=name)


@require_POST
@signed_in
def change_switch(request: HttpRequest, name: str) -> HttpResponse:
    """Say to which network switch a node is connected."""
    require(request.user, "node.change")
    try:
        set_switch(actor=cast(User, request.user).as_actor, node=find_node(name), switch=request.POST.get("switch", ""))
    except InvalidInput as error:
        messages.error(request, " ".join(describe_field_error(one) for one in error.errors))
    return redirect("node", name=name)


@require_POST
@signed_in
def change_service_of_card(request: HttpRequest, uuid: str, service: Callable[..., None]) -> HttpResponse:
    """Cordon or uncordon one card of a node."""
    require(request.user, "node.change")
    try:
        service(actor=cast(User, request.user).as_actor, gpu=find_card(uuid), **_read_why(request))
    except InvalidInput as error:
        messages.error(request, " ".join(describe_field_error(one) for one in error.errors))
    return redirect("gpu", uuid=uuid)


def _read_why(request: HttpRequest) -> dict[str, str]:
    return {"why": request.POST["why"].strip()[:MOST_WHY]} if "why" in request.POST else {}


@require_safe
@signed_in
def list_images(request: HttpRequest) -> HttpResponse:
    views = view_images(filter_visible_images(request.user))
    context = {"views": views, "answer": images_answer(views)}
    return render_page(request, "cluster/images.html", context, fragment="cluster/_images.html")


def cluster_answer(totals: Totals) -> str:
    if not totals.nodes:
        return ""
    machines = ngettext("%(count)s machine", "%(count)s machines", totals.nodes) % {"count": totals.nodes}
    if not totals.gpus:
        return _("%(machines)s without a GPU.") % {"machines": machines}
    numbers = {"machines": machines, "gpus": totals.gpus, "free": gpu_sum(totals.gpu_free)}
    words = ngettext(
        "%(machines)s, %(gpus)s GPU: %(free)s free.", "%(machines)s, %(gpus)s GPUs: %(free)s free.", totals.gpus
    )
    return words % numbers


def images_answer(views: list[ImageView]) -> str:
    if not views:
        return _("The catalogue has no images yet.")
    return ngettext("The catalogue has %(n)s image.", "The catalogue has %(n)s images.", len(views)) % {"n": len(views)}


def node_answer(machine: Machine) -> str:
    if machine.closed:
        return machine.closed
    if not machine.cards:
        return _("A machine without a GPU; its home pool is %(pool)s.") % {"pool": machine.node.pool.name}
    numbers = {"free": gpu_sum(machine.free_milli), "all": len(machine.cards)}
    return ngettext("%(free)s of %(all)s GPU free.", "%(free)s of %(all)s GPUs free.", len(machine.cards)) % numbers


def node_events(machine: Machine) -> list[NodeEvent]:
    rows = Event.objects.filter(kind=machine.node.KIND, object_id=machine.node.pk).order_by("-id")[:MOST_EVENTS]
    return [NodeEvent(row.at, row.actor, describe_event(row)) for row in rows]


def links_explained(machine: Machine) -> list[tuple[str, str]]:
    used = {word.rstrip("0123456789") for _name, row in machine.links for word in row}
    return [(word, str(words)) for word, words in LINK_WORDS.items() if word in used]
