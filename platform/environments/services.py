"""Environments: built from a recipe by a job, saved from a notebook, found by what they bring, compared."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db.models import Count

from accounts.models import User
from common.errors import Conflict, InvalidInput, NotFound
from datasets.models import DatasetKind, DatasetQuerySet, DatasetVersion, EnvironmentPackage, VersionState
from datasets.packages import normalise_name
from datasets.services import add_version, list_datasets
from environments.recipes import LABEL, Recipe, build_job_spec, check_recipe
from files.file_areas import HOME, find_file_area
from jobs.models import Job, JobQuerySet
from jobs.submit import Check, submit_job
from notebooks.kept_packages import find_kept_folder
from notebooks.models import Notebook


@dataclass(frozen=True)
class PackageChange:
    """A package that differs between two versions. before, after: its version, "" where it is not."""

    name: str
    before: str
    after: str


def build_environment(
    *, user: User, recipe: Recipe, check: Check, containers: bool, key: str = "", body: bytes = b""
) -> Job:
    """Submit the job that makes the next version. check, containers, key, body: of jobs.submit.submit_job.

    Raises InvalidInput, and what a submit does.
    """
    check_recipe(recipe)
    spec = build_job_spec(recipe)
    try:
        return submit_job(user=user, spec=spec, check=check, containers=containers, key=key, body=body)
    except InvalidInput as refused:
        raise InvalidInput([replace(one, pointer=_name_in_recipe(one.pointer)) for one in refused.errors]) from None


def find_own_notebook(user: User, public_id: str) -> Notebook:
    """Return a notebook of the user's own: what it keeps lies in their home. Raises NotFound."""
    number = public_id.removeprefix("nb-")
    found = (
        Notebook.objects.live().with_names().filter(user=user, pk=int(number)).first() if number.isdecimal() else None
    )
    if found is None:
        raise NotFound(kind="notebook", id=public_id)
    return found


def save_kept(*, actor: User, notebook: Notebook, name: str, note: str = "") -> DatasetVersion:
    """Begin the next version of an environment from what a notebook of the actor's own keeps.

    Raises Conflict (nothing_kept), and what datasets.services.add_version does.
    """
    folder = find_kept_folder(notebook.public_id)
    try:
        find_file_area(actor, HOME).store.stat(f"{folder}/bin/python")
    except NotFound:
        raise Conflict("nothing_kept", name=notebook.name) from None
    image = (notebook.job.spec.get("image") if notebook.job else None) or ""
    said = {"kind": DatasetKind.ENVIRONMENT, "note": note or notebook.public_id, "base": image}
    return add_version(actor=actor, team=notebook.team, name=name, place=HOME, path=folder, **said)


def list_environments(user: User, package: str = "") -> DatasetQuerySet:
    """Return the environments that the user may use. package: one that a ready version brings, such as numpy==2.1.0."""
    found = list_datasets(user, DatasetKind.ENVIRONMENT)
    return found.filter(pk__in=find_with_package(package).values("dataset")) if package.strip() else found


def find_with_package(text: str):
    """Return the ready versions that bring a package, by a part of its name, or by `name==version`."""
    name, is_exact, number = (part.strip() for part in text.partition("=="))
    packages = EnvironmentPackage.objects.filter(name__contains=normalise_name(name))
    if is_exact:
        packages = EnvironmentPackage.objects.filter(name=normalise_name(name), number=number)
    return DatasetVersion.objects.filter(state=VersionState.READY, pk__in=packages.values("version"))


def match_packages(versions: Iterable[DatasetVersion], text: str) -> tuple[dict[int, int], dict[int, list[str]]]:
    """Return how many packages each version brings, and which of them `text` names, by the version's key."""
    rows = EnvironmentPackage.objects.filter(version__in=[row.pk for row in versions])
    counts = dict(rows.order_by().values_list("version_id").annotate(Count("pk")))
    found: dict[int, list[str]] = {}
    if wanted := normalise_name(text.partition("==")[0].strip()):
        for one in rows.filter(name__contains=wanted):
            found.setdefault(one.version_id, []).append(str(one))
    return counts, found


def list_builds(user: User) -> JobQuerySet:
    """Return the jobs that build environments, of those that the user sees, newest first."""
    return Job.objects.visible_to(user).filter(labels__has_key=LABEL).order_by("-pk")


def compare_packages(before: DatasetVersion, after: DatasetVersion) -> list[PackageChange]:
    """Return the packages that differ, by name."""
    old, new = (dict(row.packages.values_list("name", "number")) for row in (before, after))
    names = sorted(old.keys() | new.keys())
    changes = [PackageChange(name, old.get(name, ""), new.get(name, "")) for name in names]
    return [change for change in changes if change.before != change.after]


def _name_in_recipe(pointer: str) -> str:
    return {"/image": "/base", "/outputs/env": "/team"}.get(pointer, pointer)
