"""`bin/docs`: build the documents' site. A link or an anchor that leads nowhere fails.

It imports the standard library only, and MkDocs brings the rest: the image's build has nothing else of ours.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / ".site"


def build(site: Path = SITE) -> str:
    """Build the site and put it in the place of the one before; return what is wrong, or ""."""
    with tempfile.TemporaryDirectory(prefix=".site-", dir=ROOT) as directory:
        new, old = Path(directory) / "new", Path(directory) / "old"
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(new)]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        )
        if done.returncode:
            return done.stdout + done.stderr
        with open(ROOT / ".site-lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # bin/start may build it at the same moment
            if site.exists():
                site.rename(old)
            new.rename(site)
    return ""


def check() -> str:
    """Return what is wrong with the documents, or ""; nothing is kept."""
    with tempfile.TemporaryDirectory(prefix=".site-", dir=ROOT) as directory:
        return build(Path(directory) / "site")


if __name__ == "__main__":
    wrong = build()
    print(wrong or f"The site is in {SITE}; the portal serves it at /help/.")
    sys.exit(1 if wrong else 0)
