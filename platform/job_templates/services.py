"""Find, make and change templates; examples are found as templates, too, and never change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from accounts.models import Team, User
from accounts.permissions import may, require
from common.errors import Conflict, FieldError, InvalidInput, NameTaken, NotFound, QuotaExceeded
from events.record_and_publish import record
from job_templates.examples import load_examples, translate
from job_templates.models import PREFIX, JobTemplate, JobTemplateVersion
from job_templates.template_file import Rendered, TemplateFile, load_template, read_template, render
from jobs.models import CodePack, Job
from jobs.submit import Check, Origin, submit_job

MOST_TEMPLATES = 500
"""Of a team, or of everybody, archived ones aside."""


@dataclass(frozen=True)
class Template:
    """A template as people find it. id: tpl-4, or an example's name. team: "" for everybody's. row: of no example."""

    id: str
    name: str
    description: str
    team: str = ""
    by: str = ""
    version: int = 1
    created_at: datetime | None = None
    archived_at: datetime | None = None
    row: JobTemplate | None = None

    @property
    def is_example(self) -> bool:
        return self.row is None


@dataclass(frozen=True)
class Version:
    """A version of a template that was read. by, created_at: empty of an example."""

    template: Template
    number: int
    file: TemplateFile
    by: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True)
class TemplateQuery:
    """Which templates a list shows. team: "" for all. archived: those instead of the others."""

    text: str = ""
    name: str = ""
    team: str = ""
    examples: bool | None = None
    archived: bool = False


def list_templates(user: User, query: TemplateQuery = TemplateQuery()) -> list[Template]:
    """Return the templates that the user sees, by name: those of teams, everybody's, and examples."""
    rows = [] if query.examples else [_show_row(row) for row in _find_rows(user, query)]
    hides_examples = query.examples is False or query.archived or query.team
    examples = [] if hides_examples else [_show_example(file) for file in load_examples().values()]
    words = query.text.lower().split()
    return [one for one in [*rows, *examples] if query.name in ("", one.name) and _has(one, words)]


def find_template(user: User, template_id: str) -> Template:
    """Return a template or an example. Raises NotFound."""
    if template_id in load_examples():
        return _show_example(load_examples()[template_id])
    number = template_id.removeprefix(PREFIX)
    if number != template_id and number.isascii() and number.isdecimal() and len(number) < 19:
        rows = JobTemplate.objects.visible_to(user).select_related("team", "user").filter(pk=int(number))
        if row := rows.first():
            return _show_row(row)
    raise NotFound(kind="template", id=template_id)


def list_versions(template: Template) -> list[JobTemplateVersion]:
    """Return the stored versions, newest first; an example has none."""
    return list(template.row.versions.select_related("user")) if template.row else []


def find_version(template: Template, number: int | None = None) -> Version:
    """Return a version, the newest for None. Raises NotFound."""
    wanted = template.version if number is None else number
    if template.row is None:
        if wanted == template.version:
            return Version(template, wanted, translate(load_examples()[template.id]))
    elif kept := template.row.versions.select_related("user").filter(number=wanted).first():
        return Version(template, wanted, load_template(kept.file), kept.user.username, kept.created_at)
    raise NotFound(kind="template", id=f"{template.id}@{wanted}")


def render_job(
    version: Version, values: Mapping[str, Any], changes: Mapping[str, Any] | None = None
) -> tuple[Rendered, Origin]:
    """Return the job file of these values, and what the job keeps of it. Raises Conflict of an archived template."""
    template = version.template
    if template.archived_at is not None:
        raise Conflict("template_archived", name=template.name)
    rendered = render(version.file, values, changes)
    kept = {"id": template.id, "name": template.name, "version": version.number, "values": rendered.values}
    return rendered, Origin(template=kept)


def run_template(
    *,
    user: User,
    version: Version,
    values: Mapping[str, Any],
    check: Check,
    containers: bool,
    changes: Mapping[str, Any] | None = None,
    key: str = "",
    body: bytes = b"",
) -> Job:
    """Submit the job of these values. What it needs and raises: see render_job and jobs.submit.submit_job."""
    rendered, origin = render_job(version, values, changes)
    share_code(user, version, rendered.spec.code)
    return submit_job(
        user=user, spec=rendered.spec, check=check, containers=containers, key=key, body=body, origin=origin
    )


def share_code(user: User, version: Version, code: str | None) -> None:
    """Let the user name the code that the template itself names: who saved that version has shared it with them."""
    if code is None or code != version.file.data.get("code"):
        return
    pack = CodePack.objects.filter(user__username=version.by, digest=code).first()
    if pack is not None:
        CodePack.objects.get_or_create(user=user, digest=code, defaults={"files": pack.files, "bytes": pack.bytes})


def may_change(user: User, template: Template) -> bool:
    row = template.row
    return row is not None and may(user, "template.change", row.team, row.user_id if row.team else None)


def require_change(user: User, template: Template) -> JobTemplate:
    """Return the row of a template that the user may change. Raises NotPermitted, Conflict of an example."""
    if template.row is None:
        raise Conflict("example_is_fixed", name=template.name)
    _require_change(user, template.row)
    return template.row


@transaction.atomic
def create_template(*, actor: User, text: str, team: Team | None) -> JobTemplate:
    """Store a new template with its first version. team: None for everybody's."""
    require(actor, "template.create", team)
    file = read_template(text)
    _check_room(team)
    if file.name in load_examples():
        raise InvalidInput([FieldError("/template/name", "template_name_taken", {"name": file.name})])
    fields = {"name": file.name, "description": file.description, "team": team, "user": actor}
    try:
        with transaction.atomic():
            template = JobTemplate.objects.create(**fields)
    except IntegrityError:
        raise InvalidInput([FieldError("/template/name", "template_name_taken", {"name": file.name})]) from None
    JobTemplateVersion.objects.create(template=template, number=1, file=text, user=actor)
    record(template, "created", actor=actor.as_actor, params={"name": file.name}, new=True)
    return template


@transaction.atomic
def add_version(*, actor: User, template: JobTemplate, text: str) -> JobTemplateVersion:
    """Store a new version; the earlier ones stay. A template keeps its name."""
    row = _lock(actor, template)
    if row.archived_at is not None:
        raise Conflict("template_archived", name=row.name)
    file = read_template(text)
    if file.name != row.name:
        raise InvalidInput([FieldError("/template/name", "template_keeps_name", {"name": row.name})])
    newest = row.versions.get(number=row.version)
    if newest.file == text:
        return newest
    row.version += 1
    row.description = file.description
    row.save(update_fields=["version", "description"])
    version = JobTemplateVersion.objects.create(template=row, number=row.version, file=text, user=actor)
    record(row, "changed", actor=actor.as_actor, params={"name": row.name, "version": row.version})
    return version


@transaction.atomic
def archive_template(*, actor: User, template: JobTemplate) -> None:
    """Take a template out of lists. Jobs that were made of it keep its name, and it can be restored."""
    row = _lock(actor, template)
    if row.archived_at is None:
        JobTemplate.objects.filter(pk=row.pk).update(archived_at=Now())
        record(row, "archived", actor=actor.as_actor, params={"name": row.name})


@transaction.atomic
def restore_template(*, actor: User, template: JobTemplate) -> None:
    """Put an archived template back into lists. Raises NameTaken if another has its name meanwhile."""
    row = _lock(actor, template)
    if row.archived_at is None:
        return
    _check_room(row.team)
    try:
        with transaction.atomic():
            JobTemplate.objects.filter(pk=row.pk).update(archived_at=None)
    except IntegrityError:
        raise NameTaken("template_name_taken", name=row.name) from None
    record(row, "restored", actor=actor.as_actor, params={"name": row.name})


def _lock(actor: User, template: JobTemplate) -> JobTemplate:
    row = JobTemplate.objects.select_for_update(of=("self",)).select_related("team").get(pk=template.pk)
    _require_change(actor, row)
    return row


def _require_change(user: User, row: JobTemplate) -> None:
    """Its maker changes a team's template, too; everybody's are changed by admins alone."""
    require(user, "template.change", row.team, row.user_id if row.team else None)


def _check_room(team: Team | None) -> None:
    used = JobTemplate.objects.in_use().filter(team=team).count()
    if used >= MOST_TEMPLATES:
        raise QuotaExceeded(what="templates", used=used, limit=MOST_TEMPLATES)


def _find_rows(user: User, query: TemplateQuery) -> Iterable[JobTemplate]:
    """Whoever sees all templates lists those of other teams one team at a time."""
    rows = JobTemplate.objects.select_related("team", "user").filter(archived_at__isnull=not query.archived)
    return rows.visible_to(user).filter(team__name=query.team) if query.team else rows.visible_to(user).of(user)


def _show_row(row: JobTemplate) -> Template:
    return Template(
        id=row.public_id,
        name=row.name,
        description=row.description,
        team=row.team.name if row.team else "",
        by=row.user.username,
        version=row.version,
        created_at=row.created_at,
        archived_at=row.archived_at,
        row=row,
    )


def _show_example(file: TemplateFile) -> Template:
    return Template(file.name, file.name, translate(file).description)


def _has(template: Template, words: Iterable[str]) -> bool:
    told = f"{template.name} {template.description} {template.team} {template.by}".lower()
    return all(word in told for word in words)
