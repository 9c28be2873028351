"""Every link of the documents leads somewhere in this tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]+))?\)")


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_link_leads_somewhere(document):
    for path, anchor in LINK.findall(document.read_text()):
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), path
        assert not anchor or anchor in anchors(target.read_text()), f"{path}#{anchor}"


def test_every_page_can_be_found_from_the_readme():
    linked = {ROOT / path for path, _ in LINK.findall((ROOT / "README.md").read_text())}
    pages = {page for page in DOCUMENTS if page.parent == ROOT / "docs"}
    assert pages <= linked
