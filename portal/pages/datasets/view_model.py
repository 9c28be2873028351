"""What the pages of datasets show."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlencode

from django.db.models import Count, QuerySet
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from common.amounts import show_bytes
from datasets.models import Dataset, DatasetOutput, DatasetUse, DatasetVersion, VersionState
from datasets.services import compare_versions, open_files, place_in_store
from jobs.code.git_code import is_git
from jobs.jobfile.spec import from_json, list_data
from jobs.models import Job
from jobs.outputs.outputs import load_outputs
from portal.wording.errors import describe_stored_refusal
from runtimes.dataset_store.manifest import Difference
from runtimes.storage.file_store import Entry

MOST_ROWS = 500
"""Files of a folder, and differences, that a page shows."""
MOST_JOBS = 20
CHIPS: dict[str, tuple[str, str, str | Promise]] = {
    VersionState.TAKING: ("next", "hourglass", _("being taken")),
    VersionState.READY: ("done", "check", _("ready")),
    VersionState.FAILED: ("fault", "alert-circle", _("failed")),
    VersionState.DELETED: ("stale", "trash", _("deleted")),
}
CHANGES: dict[str, tuple[str, str | Promise]] = {
    "added": ("done", _("added")),
    "removed": ("fault", _("removed")),
    "changed": ("next", _("changed")),
}
REASONS: dict[str, str | Promise] = {
    "closed": _("you may not read it"),
    "special": _("no regular file"),
    "too_deep": _("too many folders in each other"),
    "leads_out": _("the link leads out of the folder"),
}


@dataclass(frozen=True)
class VersionView:
    row: DatasetVersion
    jobs: int

    @property
    def chip(self) -> tuple[str, str, str | Promise]:
        return CHIPS[self.row.state]

    @property
    def size(self) -> str:
        return show_bytes(self.row.bytes)

    @property
    def base(self) -> str:
        """The image of an environment, without its digest."""
        return self.row.base.partition("@")[0]

    @property
    def new_size(self) -> str:
        return show_bytes(self.row.new_bytes)

    @property
    def failure(self) -> str:
        return describe_stored_refusal(self.row.error) if self.row.error else ""

    @property
    def left_out(self) -> list[tuple[str, str | Promise]]:
        return [(path, REASONS[why]) for path, why in self.row.left_out]

    @property
    def stages(self) -> list[str]:
        return [stage.name for stage in self.row.stages.all()]

    @property
    def is_ready(self) -> bool:
        return self.row.state == VersionState.READY

    @property
    def may_come_back(self) -> bool:
        return self.row.state == VersionState.DELETED and self.row.purged_at is None


class MakerView:
    """The job that left a version, and of what it made it."""

    def __init__(self, job: Job):
        self.job = job
        self.data = sorted(set(list_data(from_json(job.spec)).values()))
        self.image = (job.spec.get("image") or "").partition("@")[0]
        code = job.spec.get("code") or ""
        self.code = f"{code[:19]}…" if code and not is_git(code) else code


@dataclass(frozen=True)
class OutputRow:
    """words: what became of it. href: of its version, where the user may read it."""

    name: str
    href: str = ""
    words: str | Promise = ""


@dataclass(frozen=True)
class DatasetView:
    row: Dataset
    newest: VersionView
    count: int


@dataclass(frozen=True)
class FileRow:
    name: str
    icon: str
    href: str
    size: str


@dataclass(frozen=True)
class DifferenceRow:
    path: str
    tone: str
    words: str | Promise
    size: str


def view_datasets(rows: Iterable[Dataset]) -> list[DatasetView]:
    """Return datasets with their newest versions."""
    datasets = list(rows)
    found = DatasetVersion.objects.filter(dataset__in=[row.pk for row in datasets]).exclude(state=VersionState.DELETED)
    newest = {version.dataset_id: version for version in found.order_by("dataset_id", "-number").distinct("dataset_id")}
    counts = dict(found.order_by().values_list("dataset_id").annotate(Count("pk")))
    uses = _count_uses(newest.values())
    return [
        DatasetView(row, VersionView(version, uses.get(version.pk, 0)), counts[row.pk])
        for row in datasets
        if (version := newest.get(row.pk))
    ]


def view_versions(dataset: Dataset) -> list[VersionView]:
    rows = list(dataset.versions.select_related("user", "dataset__team").prefetch_related("stages"))
    uses = _count_uses(rows)
    return [VersionView(row, uses.get(row.pk, 0)) for row in rows]


def find_jobs(user: User, version: DatasetVersion) -> QuerySet[Job]:
    """Return the newest jobs that use a version, of those that the user sees."""
    numbers = DatasetUse.objects.filter(version=version).values("job")
    return Job.objects.visible_to(user).filter(pk__in=numbers).order_by("-pk")[:MOST_JOBS]


def find_maker(user: User, version: DatasetVersion) -> "MakerView | None":
    """Return the job that left a version, if the user sees it."""
    output = DatasetOutput.objects.filter(version=version).first()
    job = Job.objects.visible_to(user).filter(pk=output.job).first() if output else None
    return MakerView(job) if job else None


def view_outputs(user: User, job: Job) -> list["OutputRow"]:
    """Return what becomes of what a job leaves: its versions once it has succeeded, or why there is none."""
    begun = {row.name: row for row in load_outputs(job)}
    readable = set(
        Dataset.objects.readable_by(user).filter(versions__output__in=begun.values()).values_list("pk", flat=True)
    )
    return [_view_output(name, begun.get(name), readable) for name in (job.spec.get("outputs") or {}).values()]


def _view_output(name: str, row: DatasetOutput | None, readable: Collection[int]) -> "OutputRow":
    if row is None or (row.version is None and row.error is None):
        return OutputRow(name)
    if row.version is None:
        return OutputRow(name, words=describe_stored_refusal(row.error or {}))
    at = [row.version.dataset.public_id, row.version.number]
    href = reverse("dataset_version", args=at) if row.version.dataset_id in readable else ""
    return OutputRow(f"{name}@v{row.version.number}", href, CHIPS[row.version.state][2])


def list_files(user: User, version: DatasetVersion, path: str) -> list[FileRow]:
    """Return a folder of a version, the first MOST_ROWS."""
    found = open_files(user, version).list_folder(place_in_store(version, path))
    return [_file_row(version, path, entry) for entry in found.entries[:MOST_ROWS]]


def list_differences(before: DatasetVersion, after: DatasetVersion) -> list[DifferenceRow]:
    return [_difference_row(one) for one in islice(compare_versions(before, after), MOST_ROWS)]


def list_crumbs(path: str) -> list[tuple[str, str]]:
    """Return (name, query) of each folder from the top to `path`."""
    names = path.split("/") if path else []
    return [(name, urlencode({"path": "/".join(names[: depth + 1])})) for depth, name in enumerate(names)]


def _count_uses(versions: Iterable[DatasetVersion]) -> dict[int, int]:
    uses = DatasetUse.objects.filter(version__in=[row.pk for row in versions])
    return dict(uses.values_list("version_id").annotate(Count("pk")))


def _file_row(version: DatasetVersion, folder: str, entry: Entry) -> FileRow:
    path = f"{folder}/{entry.name}" if folder else entry.name
    query = urlencode({"path": path})
    if entry.kind == "folder":
        return FileRow(entry.name, "folder", f"?{query}", "")
    here = reverse("dataset_file", args=[version.dataset.public_id, version.number])
    icon, size = ("file", show_bytes(entry.size)) if entry.kind == "file" else ("link", "")
    return FileRow(entry.name, icon, f"{here}?{query}", size)


def _difference_row(one: Difference) -> DifferenceRow:
    tone, words = CHANGES[one.change]
    sizes = [show_bytes(entry.size) for entry in (one.before, one.after) if entry is not None]
    return DifferenceRow(one.path, tone, words, " → ".join(dict.fromkeys(sizes)))
