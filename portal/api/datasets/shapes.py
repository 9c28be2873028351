"""Datasets and their versions as JSON, and requests about them."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from datasets.models import Dataset, DatasetKind, DatasetVersion, Share, VersionState
from datasets.naming import MOST_NAME
from portal.api.http.fields import Links, full_url, one_of
from portal.wording.errors import describe_stored_refusal

PLACE = "home, or team: and the name of a team of yours"
MOST_TEXT = 500
LONGEST_PATH = 4000


@extend_schema_field(one_of(DatasetKind.values))
class KindField(serializers.ChoiceField):
    pass


@extend_schema_field(one_of(Share.values))
class ShareField(serializers.ChoiceField):
    pass


@extend_schema_field(one_of(VersionState.values))
class StateField(serializers.ChoiceField):
    pass


class DatasetShape(serializers.Serializer):
    """A named line of versions. kind: dataset, model or environment. share: who reads it: its owner alone, its team,
    also the teams in `shared_with`, or everybody. newest: the highest number that a version has had. stages: the
    version of each, by its name; a job file may name it in place of a version.
    """

    id = serializers.CharField(source="public_id")
    kind = KindField(DatasetKind.choices)
    name = serializers.CharField()
    team = serializers.CharField(source="team.name")
    owner = serializers.CharField(source="user.username")
    description = serializers.CharField(allow_blank=True)
    share = ShareField(Share.choices)
    shared_with = serializers.SerializerMethodField()
    newest = serializers.IntegerField()
    stages = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    links = serializers.SerializerMethodField()

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_shared_with(self, row: Dataset) -> list[str]:
        return sorted(team.name for team in row.shared_with.all())

    @extend_schema_field(serializers.DictField(child=serializers.IntegerField()))
    def get_stages(self, row: Dataset) -> dict[str, int]:
        return {stage.name: stage.version.number for stage in row.stages.all()}

    @extend_schema_field(Links)
    def get_links(self, row: Dataset) -> dict[str, str]:
        parts = {"dataset_id": row.public_id}
        return {"self": full_url("api-dataset", **parts), "html": full_url("dataset", **parts)}


class EnvironmentShape(DatasetShape):
    """A dataset of the kind environment. Its versions, shares and files are those of /datasets, by the same id."""


class LeftOutOfDataset(serializers.Serializer):
    """why: closed, special, too_deep or leads_out."""

    path = serializers.CharField()
    why = serializers.CharField()


class DatasetVersionShape(serializers.Serializer):
    """A version, which never changes. source: the folder it is of. bytes: of all its files. new_bytes: what it needed
    on disk besides earlier versions. digest: equal for equal contents. left_out: the first of left_out_count. error:
    why it failed; null otherwise. deleted ones come back until a week after deleted_at.
    """

    dataset = serializers.CharField(source="dataset.public_id")
    name = serializers.SerializerMethodField()
    version = serializers.IntegerField(source="number")
    state = StateField(VersionState.choices)
    source = serializers.CharField()  # type: ignore[assignment]
    by = serializers.CharField(source="user.username")
    note = serializers.CharField(allow_blank=True)
    base = serializers.CharField(allow_blank=True, help_text="The image of an environment, empty for none")
    files = serializers.IntegerField()
    bytes = serializers.IntegerField()
    new_bytes = serializers.IntegerField()
    digest = serializers.CharField(allow_blank=True)
    left_out = serializers.SerializerMethodField()
    left_out_count = serializers.IntegerField()
    error = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    ready_at = serializers.DateTimeField(allow_null=True)
    deleted_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.CharField(help_text="As a job file names it in `data`"))
    def get_name(self, row: DatasetVersion) -> str:
        return row.job_file_name

    @extend_schema_field(LeftOutOfDataset(many=True))
    def get_left_out(self, row: DatasetVersion) -> list[dict[str, str]]:
        return [{"path": path, "why": why} for path, why in row.left_out]

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_error(self, row: DatasetVersion) -> str | None:
        return describe_stored_refusal(row.error) if row.error else None


class FileShape(serializers.Serializer):
    """kind: file, folder or link. size: bytes, of files."""

    name = serializers.CharField()
    kind = serializers.CharField()
    size = serializers.IntegerField()


class DifferenceShape(serializers.Serializer):
    """change: added, removed or changed. Sizes and digests are null where it is not there."""

    path = serializers.CharField()
    change = serializers.CharField()
    size = serializers.IntegerField(source="after.size", default=None, allow_null=True)
    size_before = serializers.IntegerField(source="before.size", default=None, allow_null=True)


class DatasetVersionAsk(serializers.Serializer):
    """name: of the dataset; where the team has none of that name it is made. place, path: the folder to take. team:
    where you are in several. share (teams is for later), description: of a new dataset; note: of this version.
    """

    name = serializers.CharField(max_length=MOST_NAME)
    team = serializers.CharField(max_length=64, required=False)
    kind = KindField(DatasetKind.choices, default=DatasetKind.DATASET)
    place = serializers.CharField(default="home", max_length=80, help_text=PLACE)
    path = serializers.CharField(max_length=LONGEST_PATH, trim_whitespace=False)
    share = ShareField(Share.choices, default=Share.TEAM)
    description = serializers.CharField(max_length=MOST_TEXT, allow_blank=True, default="")
    note = serializers.CharField(max_length=MOST_TEXT, allow_blank=True, default="")


class DatasetChange(serializers.Serializer):
    """teams: by name, those that may read it where share is teams. stages: the version that each is at from now on, by
    its name, such as {"prod": 7}; null removes it, and those that are not named stay.
    """

    share = ShareField(Share.choices, required=False)
    teams = serializers.ListField(child=serializers.CharField(max_length=64), max_length=100, required=False)
    description = serializers.CharField(max_length=MOST_TEXT, allow_blank=True, required=False)
    stages = serializers.DictField(
        child=serializers.IntegerField(min_value=1, max_value=10**9, allow_null=True), required=False
    )
