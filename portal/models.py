"""Programs of people that answer in a browser (App), and how a browser gets to them (AppCode, AppSession).

Every app has a host name of its own (portal.app_links). Secrets are kept as digests (accounts.models.digest_of).
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from jobs.models import Job
from notebooks.models import Notebook


class AppKind(models.TextChoices):
    NOTEBOOK = "notebook", _("notebook")
    PORT = "port", _("port")
    TENSORBOARD = "tensorboard", _("TensorBoard")


class App(models.Model):
    """What answers at one host name for ever: a notebook through all of its starts, or a port of one task of a job
    through all of its attempts.

    label: the first part of the host name, random, never given to another app. Either notebook or job is set; role,
    rank: which task of the job.
    port: as it was declared; where it really listens is asked of the running task.
    """

    label = models.CharField(max_length=20, unique=True)
    kind = models.CharField(max_length=12, choices=AppKind.choices)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="+")
    notebook = models.OneToOneField(Notebook, null=True, on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=32, blank=True)
    rank = models.PositiveIntegerField(default=0)
    port = models.PositiveIntegerField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name, verbose_name_plural = _("app"), _("apps")
        constraints = [
            models.UniqueConstraint(
                fields=["job", "kind", "role", "rank", "port"], condition=Q(job__isnull=False), name="one_app_of_job"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.label}"


class AppCode(models.Model):
    """A right to open one app, on its way from the portal to the app's host through the browser. It works once.

    state: digest of what the app's host gave this very browser. path: where the person wanted to go.
    """

    digest = models.CharField(max_length=64, unique=True)
    app = models.ForeignKey(App, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    session_key = models.CharField(max_length=40)
    state = models.CharField(max_length=64)
    path = models.TextField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"code for {self.app}"


class AppSession(models.Model):
    """A browser that may use one app. It ends with the session of the portal that it came from."""

    digest = models.CharField(max_length=64, unique=True)
    app = models.ForeignKey(App, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    session_key = models.CharField(max_length=40)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"session of {self.user} on {self.app}"
