"""Resolve image names of job files, and manage the catalogue.

Jobs store digests, so that a retry runs the same bytes. The catalogue's are looked up ahead, others at submit; they
stay unpinned if the registry does not answer.
"""

import logging
import re
import time

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models.functions import Now

from accounts.models import Team, User
from accounts.permissions import require
from common.errors import FieldError, InvalidInput, NameTaken, NotFound
from common.locks import lock_rows
from common.text import shorten_text
from events.record_and_publish import record, record_change
from images.logins import find_registry_login
from images.models import Image
from runtimes.images.digest_lookup import Reach, Unresolved, find_digest
from runtimes.images.names import make_image_key, read_image

log = logging.getLogger("tessera.images")

ALIAS_LIKE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
CATALOGUE = "catalogue"
"""The value of TESSERA_IMAGES that allows only images of the catalogue."""
REST_S = 30.0
"""How long submits do not ask a registry that did not answer."""
AWAY = frozenset({"timeout", "unreachable", "unresolved"})

_rests_until: dict[str, float] = {}


def find_image(user: User, pk: int) -> Image:
    image = filter_visible_images(user).filter(pk=pk).first()
    if image is None:
        raise NotFound(kind="image", id=pk)
    return image


def filter_visible_images(user: User) -> models.QuerySet[Image]:
    return Image.objects.visible_to(user).select_related("team").distinct()


@transaction.atomic
def save_image(*, actor: User, image: Image) -> Image:
    """Save a validated image, as an admin, or a lead of its team."""
    require(actor, "image.change", image.team)
    before = next(iter(lock_rows(Image.objects.filter(pk=image.pk))), None)
    if before:
        require(actor, "image.change", before.team)
        if before.reference != image.reference:
            image.digest, image.problem, image.problem_words, image.checked_at = "", "", "", None
    try:
        with transaction.atomic():
            image.save()
    except IntegrityError:
        raise NameTaken(name=image.alias) from None
    record_change(image, before, Image.FIELDS, "changed" if before else "made", actor=actor.as_actor)
    if settings.TESSERA_PIN_IMAGES:
        transaction.on_commit(lambda: update_digest(image))
    return image


@transaction.atomic
def delete_image(*, actor: User, image: Image) -> None:
    require(actor, "image.change", image.team)
    lock_rows(Image.objects.filter(pk=image.pk))
    record(image, "deleted", actor=actor.as_actor, params={"reference": image.reference})
    image.delete()


def resolve_alias(team: Team, text: str, pointer: str) -> str:
    """Resolve an alias; other text stays. Raises InvalidInput where only the catalogue is allowed."""
    if row := _find_row(team, text):
        return row.pinned
    if settings.TESSERA_IMAGES == CATALOGUE and text != settings.TESSERA_NOTEBOOK_IMAGE:
        known = list(Image.objects.of_team(team.pk).values_list("alias", flat=True))
        said = {"got": shorten_text(text, 80), "known": ", ".join(known)}
        raise InvalidInput([FieldError(pointer, "not_in_catalogue", said)])
    return text


def pin_image(team: Team, text: str) -> str:
    """Add the image's digest, if its registry answers within seconds."""
    image = read_image(text)
    if not settings.TESSERA_PIN_IMAGES or image.digest or _rests_until.get(image.registry, 0.0) > time.monotonic():
        return text
    try:
        return image.at(find_digest(image, find_registry_login(image.registry, team.pk), get_registry_reach()))
    except Unresolved as unresolved:
        log.info("%s is not pinned: %s %s", text, unresolved.why, unresolved.words)
        if unresolved.why in AWAY:
            _rests_until[image.registry] = time.monotonic() + REST_S
        return text


def update_digest(image: Image) -> str:
    """Store the registry's digest, or keep the last one and return the problem."""
    name = read_image(image.reference)
    if name.digest:
        found = {"digest": name.digest, "problem": "", "problem_words": ""}
    else:
        try:
            digest = find_digest(name, find_registry_login(name.registry, image.team_id), get_registry_reach())
            found = {"digest": digest, "problem": "", "problem_words": ""}
        except Unresolved as unresolved:
            found = {"problem": unresolved.why, "problem_words": unresolved.words}
    Image.objects.filter(pk=image.pk, reference=image.reference).update(checked_at=Now(), **found)
    return found["problem"]


def update_all_digests() -> None:
    """Look up all images, skipping a registry that did not answer."""
    if not settings.TESSERA_PIN_IMAGES:
        return
    away: set[str] = set()
    for image in Image.objects.all():
        registry = read_image(image.reference).registry
        if registry not in away and update_digest(image) in AWAY:
            away.add(registry)


def get_registry_reach() -> Reach:
    return Reach(settings.TESSERA_REGISTRY_PRIVATE, settings.TESSERA_REGISTRY_CA, settings.TESSERA_REGISTRY_PLAIN)


def _find_row(team: Team, text: str) -> Image | None:
    """Find an image by alias, else by reference, with or without its digest."""
    rows = Image.objects.of_team(team.pk)
    if ALIAS_LIKE.fullmatch(text) and (row := rows.filter(alias=text).first()):
        return row
    key = make_image_key(text)
    return next((row for row in rows if key in (make_image_key(row.reference), make_image_key(row.pinned))), None)
