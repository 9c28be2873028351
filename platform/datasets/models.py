"""Datasets, models and environments: named lines of versions, which never change."""

from secrets import token_hex

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from accounts.models import Team, User
from datasets.naming import DatasetName

PREFIX = "ds-"


class DatasetKind(models.TextChoices):
    DATASET = "dataset"
    MODEL = "model"
    ENVIRONMENT = "environment"


class Share(models.TextChoices):
    """Who may read a dataset: its owner, its team, the teams that are named besides, or everybody."""

    PRIVATE = "private"
    TEAM = "team"
    TEAMS = "teams"
    EVERYBODY = "everybody"


class VersionState(models.TextChoices):
    TAKING = "taking"
    READY = "ready"
    FAILED = "failed"
    DELETED = "deleted"


def make_key() -> str:
    return token_hex(16)


class DatasetQuerySet(models.QuerySet["Dataset"]):
    def readable_by(self, user: User) -> "DatasetQuerySet":
        """Filter to what the user may read; an administrator has no more than others, as of people's files."""
        if not user.is_active:
            return self.none()
        teams = user.teams.order_by().values("pk")
        of_team = ~Q(share=Share.PRIVATE) & Q(team__in=teams)
        named = Q(
            share=Share.TEAMS, pk__in=Dataset.shared_with.through.objects.filter(team__in=teams).values("dataset")
        )
        own = Q(user=user, team__in=teams)
        return self.filter(own | of_team | named | Q(share=Share.EVERYBODY))

    def with_names(self) -> "DatasetQuerySet":
        return self.select_related("team", "user")


class Dataset(models.Model):
    """A dataset, model or environment of a team.

    key: where its versions lie, which nobody guesses. newest: the highest number yet.

    A row stays for ever: `team/name@7` never means something else, however old the job is that names it.
    """

    KIND = "dataset"

    kind = models.CharField(max_length=12, choices=DatasetKind.choices, default=DatasetKind.DATASET)
    name = models.CharField(max_length=64)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    description = models.CharField(max_length=500, blank=True)
    share = models.CharField(max_length=9, choices=Share.choices, default=Share.TEAM)
    shared_with = models.ManyToManyField(Team, related_name="+")
    key = models.CharField(max_length=32, unique=True, default=make_key)
    newest = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    objects = DatasetQuerySet.as_manager()

    class Meta:
        ordering = ["name", "pk"]
        constraints = [models.UniqueConstraint(fields=["team", "kind", "name"], name="dataset_of_team")]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"{PREFIX}{self.pk}"


class DatasetVersionQuerySet(models.QuerySet["DatasetVersion"]):
    def on_disk(self) -> "DatasetVersionQuerySet":
        """Filter to what has files, or is about to."""
        return self.filter(purged_at=None).exclude(state=VersionState.FAILED)


class DatasetVersion(models.Model):
    """A version, of a folder of a person (`place`, `path`) as it was when it was taken.

    new_bytes: what it needed on disk besides earlier versions. digest: of its manifest. left_out: [path, why], the
    first of left_out_count. error: code and values of what it failed for. lease_holder, lease_until: who makes it now;
    tries: how many began. purged_at: when the files of a deleted one were removed. base: the image in which an
    environment was made, and in which it is used; "" for what tasks without one have.
    """

    KIND = "dataset_version"
    MOVES = {
        VersionState.TAKING: {VersionState.READY, VersionState.FAILED},
        VersionState.READY: {VersionState.DELETED},
        VersionState.DELETED: {VersionState.READY},
    }

    dataset = models.ForeignKey(Dataset, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=VersionState.choices, default=VersionState.TAKING)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    place = models.CharField(max_length=80)
    path = models.TextField(blank=True)
    note = models.CharField(max_length=500, blank=True)
    base = models.TextField(blank=True, default="")
    files = models.PositiveBigIntegerField(default=0)
    bytes = models.PositiveBigIntegerField(default=0)
    new_bytes = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    left_out = models.JSONField(default=list)
    left_out_count = models.PositiveBigIntegerField(default=0)
    error = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())
    ready_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    purged_at = models.DateTimeField(null=True)
    lease_holder = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)

    objects = DatasetVersionQuerySet.as_manager()

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["dataset", "number"], name="version_of_dataset")]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        """As people name it within a dataset."""
        return f"{self.dataset.name}@v{self.number}"[:80]

    @property
    def team_id(self) -> int:
        return self.dataset.team_id

    @property
    def job_file_name(self) -> str:
        """As job files of any team name it: environments by a key of their own, all others in `data`."""
        name = DatasetName(self.dataset.kind, self.dataset.team.name, self.dataset.name, self.number)
        return name.in_kind if self.dataset.kind == DatasetKind.ENVIRONMENT else str(name)

    @property
    def source(self) -> str:
        """The folder that it was taken of, as job files name it: "team:corpus"."""
        return f"{self.place.partition(':')[0]}:{self.path}"


class DatasetStage(models.Model):
    """A name for the version that is at a stage now, such as prod. It moves; accepted jobs keep theirs."""

    dataset = models.ForeignKey(Dataset, on_delete=models.PROTECT, related_name="stages")
    name = models.CharField(max_length=32)
    version = models.ForeignKey(DatasetVersion, on_delete=models.PROTECT, related_name="stages")

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["dataset", "name"], name="stage_of_dataset")]

    def __str__(self) -> str:
        return f"{self.dataset}@{self.name}"


class EnvironmentPackage(models.Model):
    """A Python package that a version of an environment brings. name: normalised. number: its version."""

    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="packages")
    name = models.CharField(max_length=200)
    number = models.CharField(max_length=100)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["version", "name"], name="package_of_environment")]
        indexes = [models.Index(fields=["name", "number"], name="packages_by_name")]

    def __str__(self) -> str:
        return f"{self.name}=={self.number}"


class DatasetOutput(models.Model):
    """What a job that succeeded is to leave as a version. job: its number, as jobs are above this room.

    name: as its file has it, such as "model:bert". version: None until it is begun. error: why it never will be, as
    common.errors.describe_as_json keeps it. removed: whether the folder that it was taken of is gone.
    """

    job = models.BigIntegerField()
    attempt = models.PositiveIntegerField()
    name = models.CharField(max_length=80)
    version = models.OneToOneField(DatasetVersion, null=True, on_delete=models.PROTECT, related_name="output")
    error = models.JSONField(null=True)
    removed = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt", "name"], name="dataset_output_of_attempt")]
        indexes = [
            models.Index(fields=["id"], name="outputs_to_begin", condition=models.Q(version=None, error__isnull=True)),
            models.Index(
                fields=["id"], name="outputs_to_remove", condition=models.Q(version__isnull=False, removed=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of job-{self.job}"


class DatasetUse(models.Model):
    """That a job names a version. job: its number, as jobs are above this room."""

    version = models.ForeignKey(DatasetVersion, on_delete=models.PROTECT, related_name="uses")
    job = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "job"], name="dataset_use_of_job")]
        indexes = [models.Index(fields=["job"], name="dataset_uses_of_job")]

    def __str__(self) -> str:
        return f"job-{self.job} uses {self.version_id}"
