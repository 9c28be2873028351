"""Keep what editors and people read about the job file equal to its description.

That is docs/job.schema.json and the table of keys in docs/reference/job-file.md.
"""

import json
import re
from collections.abc import Iterator

from dev.code_metrics import ROOT
from jobs.jobfile.description import JOB
from jobs.jobfile.schema import editor_schema
from jobs.jobfile.shapes import Field, Keys, Map

SCHEMA, GUIDE = ROOT / "docs/job.schema.json", ROOT / "docs/reference/job-file.md"
TABLE = re.compile(r"(<!-- keys -->\n).*(<!-- end of keys -->)", re.DOTALL)


def check(fix: bool) -> str:
    """Return what is wrong, or "". fix: write the files anew."""
    guide = TABLE.sub(lambda found: found[1] + describe_keys() + found[2], GUIDE.read_text())
    wanted = {SCHEMA: json.dumps(editor_schema(), indent=2) + "\n", GUIDE: guide}
    for path, text in wanted.items():
        if fix:
            path.write_text(text)
    wrong = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    return "".join(f"docs/{name} is not what the description says; bin/check --fix writes it anew.\n" for name in wrong)


def describe_keys() -> str:
    head = ["| Key | Is | Without it | Such as |", "|---|---|---|---|"]
    return "\n".join(["", *head, *_rows(JOB, ""), "", ""])


def _rows(keys: Keys, above: str) -> Iterator[str]:
    for one in keys.fields:
        path = above + one.key
        yield f"| `{path}` | {one.doc} | {'required' if one.required else one.usual} | {_examples(one)} |"
        inner = one.shape.value if isinstance(one.shape, Map) else one.shape
        if isinstance(inner, Keys):
            yield from _rows(inner, f"{path}.NAME." if isinstance(one.shape, Map) else f"{path}.")


def _examples(one: Field) -> str:
    schema = one.shape.schema(yaml=False)
    words = one.examples or schema.get("enum") or schema.get("anyOf", [{}])[0].get("enum", ())
    return ", ".join(f"`{word if isinstance(word, str) else json.dumps(word)}`" for word in words)
