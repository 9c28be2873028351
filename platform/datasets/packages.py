"""The Python packages of an environment, read from the names of its files: nothing of it is run."""

import re
from collections.abc import Iterable

from runtimes.dataset_store.manifest import FOLDER, Entry

MOST_NAME, MOST_NUMBER = 200, 100
MOST_PACKAGES = 5_000
"""More folders of that name are no environment's."""
_INSTALLED = re.compile(r"lib/python3\.[0-9]+/site-packages/([^/]+?)-([^/-]+)\.dist-info")
OF_VENV = frozenset({"pip", "setuptools"})
"""Which every environment has before anything is installed."""


def read_packages(manifest: Iterable[Entry]) -> dict[str, str]:
    """Return {normalised name: version} of the packages that an environment's manifest shows, by name."""
    found = {}
    for entry in manifest:
        if entry.kind == FOLDER and (match := _INSTALLED.fullmatch(entry.path)):
            name = normalise_name(match[1])
            if name not in OF_VENV and len(name) <= MOST_NAME and len(match[2]) <= MOST_NUMBER:
                found[name] = match[2]
        if len(found) == MOST_PACKAGES:
            break
    return dict(sorted(found.items()))


def normalise_name(name: str) -> str:
    """Return a package's name as indexes compare it (PEP 503): Foo.Bar is foo-bar."""
    return re.sub(r"[-_.]+", "-", name).lower()
