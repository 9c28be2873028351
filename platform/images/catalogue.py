"""Who may keep the catalogue, and how a name in a job file becomes the image that runs.

A job stores its image by digest, so a retry runs the same bytes whatever the tag means by then. The catalogue's digests
are asked for ahead (images.tasks), so a submit never waits for its registries; what else people name is asked for when
it is submitted, and stays as it is written where nobody answers.
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
from common.text import shorten
from images.logins import login_at
from images.models import Image
from runtimes.images import image_key, read_image
from runtimes.registry import Reach, Unresolved, find_digest

log = logging.getLogger("tessera.images")

ALIAS_LIKE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
CATALOGUE = "catalogue"
"""The value of TESSERA_IMAGES by which nothing else may be named."""
REST_S = 30.0
"""So long a registry that did not answer is left alone by submits: nobody waits for it again and again."""
AWAY = frozenset({"timeout", "unreachable", "unresolved"})

_rests_until: dict[str, float] = {}


def find_image(user: User, pk: int) -> Image:
    """Raises NotFound for one that this person does not see, as for one that there is not."""
    image = images_seen_by(user).filter(pk=pk).first()
    if image is None:
        raise NotFound(kind="image", id=pk)
    return image


def images_seen_by(user: User) -> models.QuerySet[Image]:
    return Image.objects.visible_to(user).select_related("team").distinct()


@transaction.atomic
def save_image(*, actor: User, image: Image) -> Image:
    """Store a validated line of the catalogue. Those for all are the admins', a team's are its leads' too."""
    require(actor, "image.change", image.team)
    if image.pk and (before := Image.objects.filter(pk=image.pk).first()):
        require(actor, "image.change", before.team)
        if before.reference != image.reference:
            image.digest, image.problem, image.problem_words, image.checked_at = "", "", "", None
    try:
        with transaction.atomic():
            image.save()
    except IntegrityError:
        raise NameTaken(name=image.alias) from None
    if settings.TESSERA_PIN_IMAGES:
        transaction.on_commit(lambda: look_up(image))
    return image


@transaction.atomic
def delete_image(*, actor: User, image: Image) -> None:
    """Jobs that were submitted with it keep what they run."""
    require(actor, "image.change", image.team)
    image.delete()


def name_image(team: Team, text: str) -> str:
    """What an alias stands for, or the text itself. Asks no registry. Raises InvalidInput where the policy allows the
    catalogue only, and the installation's own for notebooks.
    """
    if row := _find_row(team, text):
        return row.pinned
    if settings.TESSERA_IMAGES == CATALOGUE and text != settings.TESSERA_NOTEBOOK_IMAGE:
        known = list(Image.objects.of_team(team.pk).values_list("alias", flat=True))
        said = {"got": shorten(text, 80), "known": ", ".join(known)}
        raise InvalidInput([FieldError("/image", "not_in_catalogue", said)])
    return text


def pin_image(team: Team, text: str) -> str:
    """With the digest that it has now, where its registry tells. Takes some seconds at most."""
    image = read_image(text)
    if not settings.TESSERA_PIN_IMAGES or image.digest or _rests_until.get(image.registry, 0.0) > time.monotonic():
        return text
    try:
        return image.at(find_digest(image, login_at(image.registry, team.pk), reach()))
    except Unresolved as unresolved:
        log.info("%s is not pinned: %s %s", text, unresolved.why, unresolved.words)
        if unresolved.why in AWAY:
            _rests_until[image.registry] = time.monotonic() + REST_S
        return text


def look_up(image: Image) -> str:
    """Ask its registry what it stands for now, and write it down. Where nobody answers the last digest stays, and the
    problem is returned.
    """
    name = read_image(image.reference)
    if name.digest:
        found = {"digest": name.digest, "problem": "", "problem_words": ""}
    else:
        try:
            digest = find_digest(name, login_at(name.registry, image.team_id), reach())
            found = {"digest": digest, "problem": "", "problem_words": ""}
        except Unresolved as unresolved:
            found = {"problem": unresolved.why, "problem_words": unresolved.words}
    Image.objects.filter(pk=image.pk, reference=image.reference).update(checked_at=Now(), **found)
    return found["problem"]


def look_up_all() -> None:
    """A registry that does not answer for one is not asked for the others in this round."""
    if not settings.TESSERA_PIN_IMAGES:
        return
    away: set[str] = set()
    for image in Image.objects.all():
        registry = read_image(image.reference).registry
        if registry not in away and look_up(image) in AWAY:
            away.add(registry)


def reach() -> Reach:
    return Reach(settings.TESSERA_REGISTRY_PRIVATE, settings.TESSERA_REGISTRY_CA, settings.TESSERA_REGISTRY_PLAIN)


def _find_row(team: Team, text: str) -> Image | None:
    """By its alias, else by what it is: the reference as anybody writes it, with the digest that it has or without."""
    rows = Image.objects.of_team(team.pk)
    if ALIAS_LIKE.fullmatch(text) and (row := rows.filter(alias=text).first()):
        return row
    key = image_key(text)
    return next((row for row in rows if key in (image_key(row.reference), image_key(row.pinned))), None)
