"""The rungs of the ladder, and what may stand at its end."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Then(models.TextChoices):
    """What the last rung does."""

    TELL = "tell", _("nothing: it only tells")
    SHRINK = "shrink", _("the slice is made as small as what is used")
    RELEASE_GPU = "release-gpu", _("the GPU is released; a notebook goes on without one")
    STOP = "stop", _("the job is stopped")


STRICTER = {then: place for place, then in enumerate(Then)}


class Rung(models.IntegerChoices):
    """How far somebody was told."""

    NONE = 0, _("not told")
    NOTED = 1, _("noticed")
    REMINDED = 2, _("reminded")
    WARNED = 3, _("warned")
    ACTED = 4, _("released")
