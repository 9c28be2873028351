"""Catalogue images as shown by pages and API."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from images.image_locations import filter_usable_nodes, load_image_locations
from images.models import Fetch, Image

PROBLEMS = {
    "bad_name": gettext_lazy("This is not a valid image name."),
    "not_found": gettext_lazy("The registry has no such image: check name and tag."),
    "denied": gettext_lazy("The registry denies access: add a login there, or check the existing one."),
    "refused": gettext_lazy("The registry's answer was not understood."),
    "forbidden_address": gettext_lazy("The registry is in a private network: see TESSERA_REGISTRY_PRIVATE."),
    "unresolved": gettext_lazy("There is no registry with this name."),
    "timeout": gettext_lazy("The registry did not respond in time."),
    "tls": gettext_lazy("The registry's certificate is not trusted: see TESSERA_REGISTRY_CA."),
    "unreachable": gettext_lazy("The registry did not respond."),
}


@dataclass(frozen=True)
class ImageView:
    """nodes: usable ones that hold the pinned digest, of `of_nodes`.

    fetching: nodes that prefetch it now. failed: (node, the engine's message).
    """

    image: Image
    nodes: list[str]
    of_nodes: int
    fetching: list[str]
    failed: list[tuple[str, str]]

    @property
    def problem_text(self) -> str:
        return describe_image_problem(self.image)

    @property
    def where(self) -> str:
        """Return "on 3 of 8 machines"."""
        return _("on %(n)s of %(of)s machines") % {"n": len(self.nodes), "of": self.of_nodes}


def view_images(images: Iterable[Image]) -> list[ImageView]:
    images = list(images)
    holders, of_nodes = load_image_locations(images), filter_usable_nodes().count()
    fetches = Fetch.objects.filter(image__in=images).select_related("node").order_by("node__name")
    tried: dict[int, list[Fetch]] = defaultdict(list)
    for fetch in fetches:
        tried[fetch.image_id].append(fetch)  # type: ignore[index]  # they are of these images
    return [_view(image, holders[image.pk], of_nodes, tried[image.pk]) for image in images]


def _view(image: Image, nodes: list[str], of_nodes: int, tried: list[Fetch]) -> ImageView:
    fetching = [fetch.node.name for fetch in tried if fetch.ended_at is None]
    failed = [(fetch.node.name, fetch.words) for fetch in tried if fetch.words and fetch.pinned == image.pinned]
    return ImageView(image, nodes, of_nodes, fetching, failed)


def describe_image_problem(image: Image) -> str:
    """Return the problem with the registry's own message, or ""."""
    if not image.problem:
        return ""
    words = str(PROBLEMS[image.problem])
    if not image.problem_words:
        return words
    return _("%(what)s Message: %(words)s") % {"what": words, "words": image.problem_words}
