"""Apps, which are people's programs that answer in a browser, with access to them; and saved views of lists.

Each app has a host name (portal.access.app_links). Secrets are stored as digests.
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from jobs.finding.list_query import ListQuery, read_list_query
from jobs.models import Job
from notebooks.models import Notebook
from services.models import Service


class AppKind(models.TextChoices):
    NOTEBOOK = "notebook", _("notebook")
    PORT = "port", _("port")
    TENSORBOARD = "tensorboard", _("TensorBoard")
    SERVICE = "service", _("service")


class App(models.Model):
    """The owner of one permanent host name: a notebook, a service, or a port of a job's task across attempts.

    label: first part of the host name, random, never reused: what a page leaves in a browser, such as a service worker,
    stays on its host. One of notebook, job and service is set. port: as declared, and the task knows the actual one; 0
    for a service, whose revisions declare it.
    """

    label = models.CharField(max_length=20, unique=True)
    kind = models.CharField(max_length=12, choices=AppKind.choices)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="+")
    notebook = models.OneToOneField(Notebook, null=True, on_delete=models.CASCADE, related_name="+")
    service = models.OneToOneField(Service, null=True, on_delete=models.CASCADE, related_name="+")
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

    @property
    def runs_in(self) -> Job | Notebook | Service:
        thing = self.notebook or self.service or self.job
        assert thing is not None
        return thing


class AppCode(models.Model):
    """A one-time right to open an app, carried by the browser. state: digest of the app host's value for it."""

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
    """A browser's session on one app; ends with its portal session."""

    digest = models.CharField(max_length=64, unique=True)
    app = models.ForeignKey(App, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    session_key = models.CharField(max_length=40)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"session of {self.user} on {self.app}"


class SavedView(models.Model):
    """A view of the list of jobs that a person gave a name. query: of its address, as ListQuery writes it."""

    NAME_MAX = 40

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=NAME_MAX)
    query = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name, verbose_name_plural = _("saved view"), _("saved views")
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="one_view_of_a_name")]

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"

    @property
    def asks(self) -> ListQuery:
        asked, _left_out = read_list_query(QueryDict(self.query.removeprefix("?")))
        return asked
