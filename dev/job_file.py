"""Keep what editors and people read about the job file equal to its description: docs/job.schema.json."""

import json

from dev.code_metrics import ROOT
from jobs.jobfile.schema import editor_schema

SCHEMA = ROOT / "docs/job.schema.json"


def check(fix: bool) -> str:
    """Return what is wrong, or "". fix: write the file anew."""
    wanted = {SCHEMA: json.dumps(editor_schema(), indent=2) + "\n"}
    for path, text in wanted.items():
        if fix:
            path.write_text(text)
    wrong = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    return "".join(f"docs/{name} is not what the description says; bin/check --fix writes it anew.\n" for name in wrong)
