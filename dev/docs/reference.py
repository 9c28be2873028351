"""Keep docs/reference equal to what the code says. `bin/check` runs it in Django's shell."""

import sys

from dev.docs.commands import describe_commands
from dev.docs.messages import ROOT, describe_errors, describe_reasons
from dev.docs.settings_table import describe_settings

PAGES = {
    "errors.md": describe_errors,
    "reasons.md": describe_reasons,
    "commands.md": describe_commands,
    "settings.md": describe_settings,
}
FOLDER = ROOT / "docs/reference"


def check(fix: bool) -> None:
    """End with a line for each page that is not what the code says. fix: write the pages anew."""
    wanted = {FOLDER / name: describe() for name, describe in PAGES.items()}
    for path, text in wanted.items():
        if fix:
            path.write_text(text)
    wrong = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if wrong:
        sys.exit(
            "\n".join(f"docs/reference/{name} is not what the code says; bin/check --fix writes it." for name in wrong)
        )
