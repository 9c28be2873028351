"""Which code made a figure."""

import subprocess
from pathlib import Path


def revision() -> str:
    """The short hash of the commit, "+" behind it where files differ from it; "unknown" outside of a repository."""
    here = Path(__file__).parent
    ask = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    said = subprocess.run(ask, cwd=here, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"
