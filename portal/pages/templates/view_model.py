"""What the pages of templates show."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import User
from common.errors import FieldError, InvalidInput, PlatformError
from common.text import shorten_text
from job_templates.services import Template, TemplateQuery, Version, list_templates, render_job
from job_templates.template_file import TEMPLATE_NAME, Rendered, TemplateFile, read_template
from jobs.copying.copies import copy_file
from jobs.jobfile.dump import dump_file
from jobs.jobfile.load import load_with_lines
from jobs.models import Job
from portal.pages.jobs.job_editor import EditedJob, Verdict
from portal.pages.jobs.submit import preview
from portal.wording.errors import describe_field_error, describe_refusal

SHOWN: dict[str, str | Promise] = {
    "": gettext_lazy("All"),
    "own": gettext_lazy("Teams"),
    "examples": gettext_lazy("Examples"),
    "archived": gettext_lazy("Archived"),
}
HEAD = """\
template:
  name: %(name)s
  description: %(description)s
  parameters:
    # lr: {type: number, default: 3e-4, least: 0, most: 1, help: The learning rate.}
    # Types: text, integer, number, boolean, choice, gpu, cpu, memory, duration.
    # Write ${{ lr }} below, where the value belongs. Remove these lines.
"""
BLANK = "name: my-job\nrun: python train.py\n"


class TemplateList:
    def __init__(self, request: HttpRequest):
        self.asked = request.GET.get("show", "") if request.GET.get("show", "") in SHOWN else ""
        self.text = request.GET.get("q", "")[:100]
        examples = {"own": False, "examples": True}.get(self.asked)
        query = TemplateQuery(text=self.text, examples=examples, archived=self.asked == "archived")
        self.templates: list[Template] = list_templates(request.user, query)

    @property
    def filters(self) -> list[dict]:
        about = {"q": self.text} if self.text else {}
        return [
            {
                "words": words,
                "current": code == self.asked,
                "href": f"{reverse('templates')}?{urlencode({'show': code, **about} if code else about)}",
            }
            for code, words in SHOWN.items()
        ]


@dataclass(frozen=True)
class RunPreview:
    """What would come of these values. text: the job file; "" if there is none. told: as the submit form tells it.

    is_begun: False while nothing is wrong but that values are missing.
    """

    text: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    is_begun: bool = True


def preview_run(user: User, version: Version, values: dict, changes: dict, *, ahead: bool) -> RunPreview:
    """Render the job file and say when it would start. Stores nothing."""
    try:
        rendered, _origin = render_job(version, values, changes)
    except PlatformError as error:
        errors = [at_parameter(one) for one in getattr(error, "errors", [])]
        words = tuple(map(_describe, errors)) or (describe_refusal(error),)
        return RunPreview(refusals=words, is_begun={one.code for one in errors} != {"required"})
    return RunPreview(rendered.text, _foresee(user, rendered, ahead=ahead))


def at_parameter(error: FieldError) -> FieldError:
    """Return an error at /values/NAME as one at the parameter itself, as its sentence tells it."""
    return replace(error, pointer=error.pointer.removeprefix("/values"))


def _foresee(user: User, rendered: Rendered, *, ahead: bool) -> Mapping[str, Any]:
    """Say when it would start, or the first replica; code that comes with the template does not matter for that."""
    spec = replace(rendered.spec, code=None, serve=None)
    if (serving := rendered.spec.serve) is not None and spec.preemptible is None:
        spec = replace(spec, preemptible=serving.replicas[0] == 0)
    verdict = Verdict(spec=spec)
    return preview(user, EditedJob(rendered.text), verdict, ahead=ahead)["preview"]


def _describe(error: FieldError) -> str:
    """Return its sentence, which names the parameter."""
    name, words = error.pointer.removeprefix("/"), describe_field_error(error)
    return words if name in words else f"{name}: {words}"


def check_text(text: str) -> tuple[TemplateFile | None, list[dict]]:
    """Read a template while it is written: return it, or what is wrong with it by line."""
    try:
        return read_template(text), []
    except InvalidInput as error:
        return None, locate_errors(error, text)


def locate_errors(error: InvalidInput, text: str) -> list[dict]:
    """Return {"line", "words"} of each error, by line; 0 where none is known."""
    try:
        known = load_with_lines(text.encode("utf-8", "surrogatepass"))[1]
    except InvalidInput:
        known = {}
    lines = [_find_line(one.pointer, one.params, known) for one in error.errors]
    found = [{"line": n, "words": describe_field_error(one)} for n, one in zip(lines, error.errors, strict=True)]
    return sorted(found, key=lambda one: one["line"])


def _find_line(pointer: str, params: dict, known: Mapping[str, int]) -> int:
    line, parts = params.get("line", 0), pointer.split("/")
    while not line and len(parts) > 1:
        line = known.get("/".join(parts), 0)
        parts.pop()
    return line


def write_copy_of(version: Version) -> str:
    """Return a template's text under another name."""
    name = version.template.name
    return version.file.text.replace(f"name: {name}\n", f"name: my-{name}\n", 1)


def write_template_of(user: User, job: Job | None) -> str:
    """Return the first text of a new template: of a job's file, or blank."""
    if job is None:
        return HEAD % {"name": "my-template", "description": _("What it is for.")} + BLANK
    words = _("Made of %(job)s.") % {"job": job.public_id}
    return HEAD % {"name": _name_of(job), "description": words} + dump_file(copy_file(user, job))


def _name_of(job: Job) -> str:
    """Return a job's name as one of a template."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in job.name.lower())
    name = "-".join(part for part in shorten_text(kept, 60).split("-") if part.isascii() and part.isalnum())
    return name if TEMPLATE_NAME.fullmatch(name) else job.public_id
