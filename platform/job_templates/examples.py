"""Examples that Tessera ships: templates for everybody, each a file beside this one."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from django.utils.translation import gettext as _

from job_templates.template_file import TemplateFile, read_template

_FILES = Path(__file__).parent / "examples"


@cache
def load_examples() -> dict[str, TemplateFile]:
    """Return the examples by name, those for a start first."""
    files = [read_template(path.read_text(encoding="utf-8")) for path in sorted(_FILES.glob("*.yaml"))]
    return {file.name: file for file in files}


def translate(file: TemplateFile) -> TemplateFile:
    """Return an example with its description and the help of its parameters in the reader's language."""
    parameters = {name: replace(one, help=one.help and _(one.help)) for name, one in file.parameters.items()}
    return replace(file, description=_(file.description), parameters=parameters)
