"""Every link of the documents leads somewhere in this tree, and the rooms that they name are those that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
TOPS = ("platform", "portal", "scheduler", "agent", "cli", "dev")
CITATION = re.compile(r"\(([PK]\d{1,2}b?)\)|docs/promises\.md#([pk]\d{1,2}b?)")
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]+))?\)")


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named = set(re.findall(r'<a id="([^"]+)">', text))
    return named | {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


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


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md", "docs/promises.md"])
def test_every_path_that_it_names_is_there(name):
    named = re.findall(
        r"`((?:platform|portal|scheduler|agent|cli|deploy|dev|tests|templates|docs|locale)/[\w./-]+)`",
        (ROOT / name).read_text(),
    )
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert named


def test_every_promise_that_code_cites_is_there():
    sources = [path for top in (*TOPS, "tests") for path in (ROOT / top).rglob("*.py")]
    cited = {name.lower() for path in sources for pair in CITATION.findall(path.read_text()) for name in pair if name}
    assert len(cited) > 8 and cited <= anchors((ROOT / "docs/promises.md").read_text())


def test_the_rooms_of_the_architecture_are_those_of_the_tree():
    section = (ROOT / "docs/architecture.md").read_text().split("## Rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_/]+)` \|", section, re.MULTILINE)
    folders = {path.parent.relative_to(ROOT) for top in TOPS for path in (ROOT / top).rglob("*.py")}
    rooms = {str(folder) for folder in folders if not {"migrations", "management"} & set(folder.parts)}
    assert sorted(rows) == sorted(rooms)


@pytest.mark.parametrize("top", TOPS)
def test_no_room_has_more_than_fifteen_files(top):
    folders = {path.parent for path in (ROOT / top).rglob("*.py") if "migrations" not in path.parts}
    assert {str(folder): count for folder in folders if (count := len(list(folder.glob("*.py")))) > 15} == {}
