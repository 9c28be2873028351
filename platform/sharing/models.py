"""Who and what besides its owner's browser may come into a running job or notebook."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import ApiToken, Credential, CredentialQuerySet, User
from common.steady_clock import steady_now
from jobs.models import Job
from notebooks.models import Notebook


class Share(models.Model):
    """A job, or a start of a notebook, that its owner opened to a colleague until it ends; deleted when it is ended.

    visited_at: the last visit by browser that the history tells.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="shares")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="shares")
    created_at = models.DateTimeField(db_default=Now())
    visited_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name, verbose_name_plural = _("share"), _("shares")
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["job", "user"], name="one_share_per_colleague")]

    def __str__(self) -> str:
        return f"{self.job} for {self.user}"


class NotebookTokenQuerySet(CredentialQuerySet):
    def live(self) -> Self:
        """Filter to those that open something: not ended by time, nor with their person, notebook or maker."""
        made_by_person = Q(made_by__isnull=True)
        maker_lives = Q(made_by__revoked_at__isnull=True) & (
            Q(made_by__expires_at__isnull=True) | Q(made_by__expires_at__gt=steady_now())
        )
        return super().live().filter(made_by_person | maker_lives, notebook__deleted_at__isnull=True)


class NotebookToken(Credential):
    """A token by which its owner's programs, such as an editor, reach one notebook's Jupyter server and nothing else.

    Shown once, stored as a digest, deleted when it is ended. made_by: the API token that asked for it and whose end
    ends it.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    notebook = models.ForeignKey(Notebook, on_delete=models.CASCADE, related_name="tokens")
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    made_by = models.ForeignKey(ApiToken, null=True, on_delete=models.CASCADE, related_name="+")

    objects = NotebookTokenQuerySet.as_manager()

    class Meta(Credential.Meta):
        verbose_name, verbose_name_plural = _("notebook token"), _("notebook tokens")

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"
