"""Which nodes hold an image, of the fifty that each reports."""

from collections.abc import Iterable

from cluster.models import Cached, Node, NodeState
from images.models import Image
from runtimes.contract.node import IMAGE
from runtimes.images.names import make_image_key


def load_image_locations(images: Iterable[Image]) -> dict[int, list[str]]:
    """Return {image: names of usable nodes with its pinned version}."""
    keys = {image.pk: make_image_key(image.pinned) for image in images}
    nodes = filter_usable_nodes().values("pk")
    rows = Cached.objects.filter(kind=IMAGE, key__in=keys.values(), node__in=nodes).order_by("node__name")
    held: dict[str, list[str]] = {}
    for key, name in rows.values_list("key", "node__name"):
        held.setdefault(key, []).append(name)
    return {pk: held.get(key, []) for pk, key in keys.items()}


def filter_usable_nodes():
    return Node.objects.present().filter(state=NodeState.READY)


def list_images_on_node(node: Node) -> list[tuple[str, int]]:
    """Return (name, bytes) of a node's images, largest first; digests only of untagged ones."""
    rows = Cached.objects.filter(node=node, kind=IMAGE).values_list("key", "bytes")
    named = [(key.removeprefix(f"{IMAGE}:"), size) for key, size in rows]
    tagged = {(name.rpartition(":")[0], size) for name, size in named if "@" not in name}
    shown = [(name, size) for name, size in named if "@" not in name or (name.partition("@")[0], size) not in tagged]
    return sorted(shown, key=lambda each: (-each[1], each[0]))
