"""Prepull catalogue images onto nodes, a few at a time.

A prepull is a tiny container without holdings that exits at once. An image without a shell arrives too, though its
container fails.
"""

import logging
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

from django.db import transaction
from django.db.models.functions import Now

from cluster.models import Cached, Node, NodeState
from common.steady_clock import steady_now
from images.logins import load_logins
from images.models import Fetch, Image
from quotas.models import Amounts
from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.node import IMAGE
from runtimes.contract.runtime import Runtime
from runtimes.contract.task import TaskSpec
from runtimes.images.names import make_image_key
from scheduler.commit.starting import sum_nodes
from scheduler.lease import check_epoch

log = logging.getLogger("tessera.fetching")

AT_ONCE = 8
"""Prepulls over all nodes, at most one per node, to spare registry and network for jobs."""
AGAIN = timedelta(minutes=10)
"""Pause before a failed prepull is retried."""
BELIEVED = timedelta(hours=24)
"""How long a prepulled image counts as present although the node does not list it among its largest."""
PATIENCE = timedelta(hours=1)
CPU_MILLI, MEMORY_MIB = 10, 16
NO_USER = 65_534
"""Uid of a prepull, and gid (namespace) of public images."""


def prepull_images(runtime: Runtime, epoch: int) -> None:
    """Run one round: follow running prepulls and start missing ones."""
    if not runtime.capabilities.containers:
        return
    try:
        begun = list(Fetch.objects.filter(ended_at=None).select_related("image__team", "node"))
        views = {view.uuid: view for view in runtime.list_containers()} if begun else {}
    except Unavailable as away:
        log.warning("nothing is fetched ahead for the moment: %s", away)
        return
    for fetch in begun:
        _follow(fetch, views.get(fetch.uuid.hex), runtime, epoch)
    for image, node in _missing():
        _start(_begin(image, node, epoch), runtime, epoch)


def _missing() -> Iterator[tuple[Image, Node]]:
    """Yield prepulls to start now, within AT_ONCE."""
    busy = set(Fetch.objects.filter(ended_at=None).values_list("node_id", flat=True))
    room = AT_ONCE - len(busy)
    images = list(Image.objects.filter(prepull=True).exclude(digest="").select_related("team"))
    nodes = [node for node in _nodes_with_room() if node.pk not in busy] if images else []
    for image in images:
        has = _nodes_that_have(image)
        for node in [node for node in nodes if node.pk not in has][: max(room, 0)]:
            nodes.remove(node)
            room -= 1
            yield image, node


def _nodes_with_room() -> list[Node]:
    nodes = list(Node.objects.present().filter(state=NodeState.READY).select_related("pool").order_by("name"))
    taken = sum_nodes(node.pk for node in nodes)
    return [node for node in nodes if _fits_prepull_pod(node, taken.get(node.pk, (0, 0, 0)))]


def _fits_prepull_pod(node: Node, taken: Amounts) -> bool:
    _, cpu, memory = taken
    return cpu + CPU_MILLI <= node.cpu_sellable_milli and memory + MEMORY_MIB <= node.memory_mib


def _nodes_that_have(image: Image) -> set[int]:
    """Return nodes that have the image or recently tried to pull it."""
    now = steady_now()
    told = Cached.objects.filter(kind=IMAGE, key=make_image_key(image.pinned)).values_list("node_id", flat=True)
    tried = Fetch.objects.filter(image=image, pinned=image.pinned)
    done = tried.filter(words="", ended_at__gt=now - BELIEVED).values_list("node_id", flat=True)
    failed = tried.exclude(words="").filter(ended_at__gt=now - AGAIN).values_list("node_id", flat=True)
    return {*told, *done, *failed}


def _begin(image: Image, node: Node, epoch: int) -> Fetch:
    with transaction.atomic():
        check_epoch("fetch", epoch)
        Fetch.objects.filter(image=image, node=node).delete()
        fetch = Fetch.objects.create(image=image, node=node, uuid=uuid4(), pinned=image.pinned)
    fetch.refresh_from_db()  # began_at is the database's
    return fetch


def _start(fetch: Fetch, runtime: Runtime, epoch: int) -> None:
    try:
        runtime.start(build_fetch(fetch, epoch))
    except Rejected as refusal:
        _end(fetch, str(refusal))
    except Unavailable as away:
        log.info("%s waits: %s", fetch, away)


def build_fetch(fetch: Fetch, epoch: int) -> TaskSpec:
    team = fetch.image.team if fetch.image else None
    return TaskSpec(
        uuid=fetch.uuid.hex,
        label=f"fetch {fetch.pinned}"[:60],
        epoch=epoch,
        node=fetch.node.name,
        run=":",
        cpu_milli=CPU_MILLI,
        memory_mib=MEMORY_MIB,
        uid=NO_USER,
        gid=team.gid if team else NO_USER,
        image=fetch.pinned,
        logins=load_logins(team.pk if team else None),
        grace_s=1,
    )


def _follow(fetch: Fetch, view: ContainerView | None, runtime: Runtime, epoch: int) -> None:
    late = steady_now() - fetch.began_at > PATIENCE
    if view is None:
        _end(fetch, "Nothing is heard of it.") if late else _start(fetch, runtime, epoch)
        return
    try:
        if view.phase == "exited":
            runtime.forget(view.uuid)
            _end(fetch, read_failure(view))
        elif view.cause or late:
            runtime.stop(view.uuid, 0, epoch=epoch)
    except Unavailable as away:
        log.info("%s waits: %s", fetch, away)


def read_failure(view: ContainerView) -> str:
    """Return why no image came, "" if it did."""
    came = view.started_at is not None or view.cause == "start_failed"
    return "" if came else view.detail or view.cause or "It ended before the image came."


def _end(fetch: Fetch, words: str) -> None:
    Fetch.objects.filter(pk=fetch.pk).update(ended_at=Now(), words=words[:300])
