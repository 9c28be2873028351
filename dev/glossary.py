"""Refuse names that docs/glossary.md has replaced by the field's own words.

The table under "Words that are not used" has an old word in its first column. No module, class, function, variable or
field of the product may have that word as a part of its name.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from dev.code_metrics import ROOT, product_files

GLOSSARY = ROOT / "docs/glossary.md"
HEADING = "## Words that are not used"
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # of snake_case, CamelCase and UPPER_CASE


def check() -> str:
    """What is wrong, a line each; "" when nothing is."""
    words = read_old_words(GLOSSARY.read_text())
    found = [line for path in product_files(ROOT) for line in find_old_names(path, words)]
    return "\n".join(found)


def read_old_words(text: str) -> dict[str, str]:
    """{old word: what is said instead}, from the glossary's table. Raises ValueError where there is no such table."""
    if HEADING not in text:
        raise ValueError(f"docs/glossary.md has no heading {HEADING!r}.")
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", text.split(HEADING, 1)[1], re.MULTILINE)
    return {word: term for old, term in rows[1:] for word in old.split(", ")}


def find_old_names(path: Path, words: dict[str, str]) -> Iterator[str]:
    where = path.relative_to(ROOT)
    for old in parts_of(path.stem) & words.keys():
        yield f"{where}: the module is named {old!r}; the glossary says {words[old]}"
    told = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type != tokenize.NAME or token.string in told:
            continue
        for old in parts_of(token.string) & words.keys():
            told.add(token.string)
            yield f"{where}:{token.start[0]}: {token.string} has {old!r}; the glossary says {words[old]}"


def parts_of(name: str) -> set[str]:
    return {part.lower() for part in PART.findall(name)}


if __name__ == "__main__":
    sys.exit(check() or 0)
