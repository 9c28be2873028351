"""A posted form and YAML as one job file, with errors by field and line."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.http import QueryDict
from django.utils.translation import gettext as _

from common.errors import FieldError, Hint, Impossible, InvalidInput, PlatformError
from jobs.jobfile.dump import dump_file
from jobs.jobfile.load import load_with_lines
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.spec import JobSpec
from portal.pages.jobs.form import FIELDS, data_of, gpu_of, values_of
from portal.wording.errors import describe_error, describe_field_error


class EditedJob:
    """A job file with the form's changes applied.

    Args:
        yaml: the file as posted.
        values: {field: text} changed since form and file agreed.
        posted: the whole form, to show again.
        chosen: a file to upload is chosen.

    `lines`: {pointer: line from 1}. `trouble`: the parse error. `blocked`: unreadable as posted, form not applied.
    """

    def __init__(
        self, yaml: str, values: dict[str, str] | None = None, *, posted: dict | None = None, chosen: bool = False
    ):
        self.posted, self.chosen = posted, chosen
        self.text = yaml
        self.trouble: InvalidInput | None = None
        self.data: dict = {}
        self.lines: dict[str, int] = {}
        self._read()
        self.blocked = self.trouble is not None
        if not self.blocked:
            self.write({**data_of(values or {}, self.data), **({"code": "."} if chosen else {})})

    def write(self, data: dict) -> None:
        """Rewrite the file as `data`, unless it already says so; keeps comments then."""
        if data != self.data:
            self.text = dump_file(data)
            self._read()  # applies the file's limits to the form

    def spec(self) -> JobSpec:
        """Parse the job file. Raises InvalidInput."""
        if self.trouble:
            raise self.trouble
        return parse_spec(self.data)

    def shown(self) -> dict[str, str]:
        """Return {field: text} for the form."""
        return self.posted if self.trouble and self.posted else values_of(self.data)

    def _read(self) -> None:
        self.trouble, self.data, self.lines = None, {}, {}
        try:
            if self.text.strip():
                self.data, self.lines = load_with_lines(self.text.encode("utf-8", "surrogatepass"))
        except InvalidInput as error:
            self.trouble = error


@dataclass
class Verdict:
    """Validation result: sentences by field, by line (0: whole file) and overall, and one-click `fixes`."""

    fields: dict[str, str] = field(default_factory=dict)
    lines: list[dict] = field(default_factory=list)
    spec: JobSpec | None = None
    words: str = ""
    fixes: list[dict] = field(default_factory=list)


def read_edited_job(post: QueryDict) -> EditedJob:
    """Read a posted form; `touched` names changed fields.

    Without the page's script, fields that differ from the `start` file count.
    """
    posted = {name: post.get(name, "") for name in FIELDS} | {"gpu": gpu_of(post)}
    yaml = post.get("yaml", "")
    touched = post["touched"].split(",") if "touched" in post else _changed(posted, yaml, post.get("start", yaml))
    values = {name: posted[name] for name in FIELDS if name in touched}
    return EditedJob(yaml, values, posted=posted, chosen=post.get("code_chosen") == "1")


def _changed(posted: dict[str, str], yaml: str, start: str) -> list[str]:
    began, stands = values_of(EditedJob(start).data), values_of(EditedJob(yaml).data)
    return [name for name in FIELDS if posted[name].split() != began[name].split() and stands[name] == began[name]]


def validate_edited_job(edited: EditedJob) -> Verdict:
    """Validate without teams, pools or machines."""
    try:
        return Verdict(spec=edited.spec())
    except InvalidInput as error:
        return locate_errors(error, edited)


def locate_errors(error: PlatformError, edited: EditedJob) -> Verdict:
    """Assign an error to fields and lines."""
    errors: list[FieldError] = getattr(error, "errors", [])
    lines = sorted((_build_line_error(one, edited) for one in errors), key=lambda line: line["line"])
    verdict = Verdict(words=describe_error(error), lines=lines)
    for one in errors:
        name = one.pointer.split("/")[1] if one.pointer else ""
        if name in FIELDS:
            verdict.fields.setdefault(name, describe_field_error(one))
    verdict.fixes = build_fixes(error.hints) if isinstance(error, Impossible) else []
    return verdict


def build_fixes(hints: Iterable[Hint]) -> list[dict]:
    """Return one-click fixes {field, value, words}, the smallest value of each."""
    known: dict[str, str] = {}
    for hint in hints:
        name, value = hint.pointer[1:], str(hint.value)
        if name in FIELDS and (name not in known or _is_less(value, known[name])):
            known[name] = value
    return [
        {"field": name, "value": value, "words": _("Set %(field)s to %(value)s") % {"field": name, "value": value}}
        for name, value in known.items()
    ]


def _is_less(value: str, other: str) -> bool:
    return value.isdigit() and other.isdigit() and int(value) < int(other)


def _build_line_error(error: FieldError, edited: EditedJob) -> dict:
    """Return {"line", "words"}; a missing key has its parent's line."""
    line, parts = error.params.get("line", 0), error.pointer.split("/")
    while not line and len(parts) > 1:
        line = edited.lines.get("/".join(parts), 0)
        parts.pop()
    return {"line": line, "words": describe_field_error(error)}
