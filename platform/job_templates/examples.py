"""Examples that Tessera ships: templates for everybody, each a file beside this one."""

from functools import cache
from pathlib import Path

from job_templates.template_file import TemplateFile, read_template

_FILES = Path(__file__).parent / "examples"


@cache
def load_examples() -> dict[str, TemplateFile]:
    """Return the examples by name, those for a start first."""
    files = [read_template(path.read_text(encoding="utf-8")) for path in sorted(_FILES.glob("*.yaml"))]
    return {file.name: file for file in files}
