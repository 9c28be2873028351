"""What MkDocs does besides: no page of the site needs an exception of the portal's content policy.

The theme writes small scripts into its pages. Each becomes a file of its own, named by what it says, and a page that
still has a script, a style or a handler in its text ends the build. The standard library and MkDocs alone are imported.
"""

import hashlib
import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from dev.docs.operations import FOLDER, describe_operations

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = re.compile(r"<script>(.+?)</script>", re.DOTALL)
REFUSED = re.compile(
    r"<style|<[a-z][^>]*\s(?:style|on[a-z]+)=|(?:src|href)=\"?https?://[^\"> ]+\.(?:js|css|woff2?)\b", re.IGNORECASE
)
NAMED = re.compile(r"\[([\w/.-]+\.md)\]\(\1(#[\w-]+)?\)")
CHINESE = "zh/"
BROKEN_LINE = re.compile(r"(?<=[一-鿿，。；：、）])\n *(?=[一-鿿（\[])")  # of Chinese, which would show a space
WORDS = ROOT / "locale/zh_Hans/LC_MESSAGES/django.po"
SPACE = "\u200b"
"""Has no width. The search of the theme takes it for the end of a word, and does not show it."""
scripts: dict[str, str] = {}
"""Scripts that were moved out of pages, by their address."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List all files of a folder where the navigation names the folder."""
    config.nav = _with_folders(config.nav or [], Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the portal's own mark, and the pages of the API."""
    files.append(File.generated(config, "images/tessera.svg", abs_src_path=str(ROOT / "static/img/tessera.svg")))
    for address, text in _api_pages(Path(config.docs_dir)).items():
        files.append(File.generated(config, address, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Call a page by its title where the text calls it by its file's name."""

    def name(found: re.Match) -> str:
        file = files.get_file_from_path(str(Path(page.file.src_uri).parent / found[1]))
        title = file and re.match(r"# (.+)", file.content_string)
        return f"[{title[1]}]({found[1]}{found[2] or ''})" if title else found[0]

    return _link_languages(BROKEN_LINE.sub("", NAMED.sub(name, markdown)), page.file.src_uri, files)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Move the page's scripts into files; end the build where something is left that the policy refuses."""
    if page.file.src_uri.startswith(CHINESE):
        output = output.replace('<html lang="en"', '<html lang="zh-Hans"', 1)
    text = SCRIPT.sub(lambda found: f'<script src="{get_relative_url(_keep(found[1]), page.url)}"></script>', output)
    if found := REFUSED.search(text):
        raise PluginError(
            f"{page.file.src_uri}: the content policy refuses {text[found.start() : found.start() + 120]!r}"
        )
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """Write the scripts, let the search find Chinese words, and take away what the portal does not serve."""
    site = Path(config.site_dir)
    for address, script in scripts.items():
        (site / address).parent.mkdir(parents=True, exist_ok=True)
        (site / address).write_text(script)
    index = site / "search/search_index.json"
    index.write_text(part_chinese_words(index.read_text()))
    for name in ("404.html", "sitemap.xml", "sitemap.xml.gz"):
        (site / name).unlink(missing_ok=True)


def _link_languages(markdown: str, address: str, files: Files) -> str:
    """Put a link to the page in the other language behind its title, where there is one."""
    chinese = address.startswith(CHINESE)
    other = address.removeprefix(CHINESE) if chinese else CHINESE + address
    if files.get_file_from_path(other) is None:
        return markdown
    title, rest = markdown.split("\n", 1)
    way = posixpath.relpath(other, posixpath.dirname(address) or ".")
    return f"{title}\n\n[{'English' if chinese else '中文'}]({way}){{ .language }}\n{rest}"


def part_chinese_words(index: str) -> str:
    """Return the search's index with a space behind each Chinese word: one that the portal uses, else a letter."""
    known = set(re.findall(r'^msgstr "([一-鿿]{2,5})"$', WORDS.read_text(), re.MULTILINE))
    word = re.compile("|".join([*sorted(known, key=len, reverse=True), "[一-鿿]"]))
    content = json.loads(index)
    for entry in content["docs"]:
        for field in ("title", "text"):
            entry[field] = word.sub(lambda found: f"{SPACE}{found[0]}{SPACE}", entry[field])
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _keep(script: str) -> str:
    address = f"assets/page-scripts/{hashlib.sha256(script.encode()).hexdigest()[:12]}.js"
    scripts[address] = script
    return address


def _api_pages(docs: Path) -> dict[str, str]:
    return describe_operations(json.loads((docs / "openapi.json").read_text()))


def _with_folders(nav: list, docs: Path) -> list:
    return [_expand(entry, docs) for entry in nav]


def _expand(entry: object, docs: Path) -> object:
    if not isinstance(entry, dict):
        return entry
    [(title, below)] = entry.items()
    if isinstance(below, list):
        return {title: _with_folders(below, docs)}
    if below == FOLDER:
        return {title: list(_api_pages(docs))}
    if below.endswith("/"):
        return {title: [path.relative_to(docs).as_posix() for path in sorted((docs / below).glob("*.md"))]}
    return entry
