"""Check that every gettext sentence of the sources is in the catalogue and translated.

With `fix`, sentences are added and removed there and the .mo file is written.
"""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import polib
from django.utils.translation.template import templatize
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
CATALOGUE = ROOT / "locale/zh_Hans/LC_MESSAGES/django.po"
SOURCES = ("platform", "portal", "scheduler", "templates")
KEYWORDS = (
    "gettext_noop", "gettext_lazy", "ngettext_lazy:1,2", "pgettext:1c,2", "npgettext:1c,2,3", "pgettext_lazy:1c,2",
    "npgettext_lazy:1c,2,3", "_",
)  # fmt: skip
HEADER = {"Content-Type": "text/plain; charset=UTF-8", "Language": "zh_Hans", "Plural-Forms": "nplurals=1; plural=0;"}

Key = tuple[str, str | None]


def check(fix: bool = False) -> str:
    """Return what is wrong, or ""."""
    needed = extract()
    catalogue = read_catalogue()
    if fix:
        bring_up_to_date(catalogue, needed)
    return "\n".join([*untranslated(catalogue, needed), *stale_binary(catalogue)])


def extract() -> polib.POFile:
    """Extract sentences by xgettext."""
    with TemporaryDirectory() as directory:
        listing = Path(directory) / "files"
        listing.write_text("\n".join(str(path) for path in gather(Path(directory))))
        options = ["--from-code=UTF-8", "--language=Python", "--add-comments=Translators", "--no-wrap", "-o", "-"]
        keywords = [f"--keyword={keyword}" for keyword in KEYWORDS]
        argv = ["xgettext", *options, *keywords, "--files-from", str(listing)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return polib.pofile(done.stdout) if done.stdout else polib.POFile()


def gather(directory: Path) -> list[Path]:
    """List Python files, and templates and examples of jobs rewritten to Python."""
    found = []
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*")):
            if path.suffix == ".py" and "migrations" not in path.parts:
                found.append(path)
            elif path.suffix == ".yaml" and path.parent.name == "examples":
                found.append(directory / f"{path.stem}.py")
                found[-1].write_text("".join(f"gettext({text!r})\n" for text in list_example_texts(path)))
            elif path.suffix in {".html", ".txt"}:
                found.append(directory / (str(path.relative_to(ROOT)).replace("/", "__") + ".py"))
                found[-1].write_text(templatize(path.read_text(), origin=str(path)))
    return found


def list_example_texts(path: Path) -> list[str]:
    """Return what people read of a shipped template (job_templates.examples.translate)."""
    head = YAML(typ="safe").load(path)["template"]
    return [head["description"], *(one["help"] for one in head["parameters"].values() if "help" in one)]


def read_catalogue() -> polib.POFile:
    if CATALOGUE.exists():
        return polib.pofile(str(CATALOGUE), wrapwidth=110)
    catalogue = polib.POFile(wrapwidth=110)
    catalogue.metadata = dict(HEADER)
    return catalogue


def bring_up_to_date(catalogue: polib.POFile, needed: polib.POFile) -> None:
    wanted = {key(entry): entry for entry in needed}
    known = {key(entry) for entry in catalogue}
    kept = [entry for entry in catalogue if key(entry) in wanted and not entry.obsolete]
    added = [blank(entry) for name, entry in wanted.items() if name not in known]
    catalogue[:] = sorted([*kept, *added], key=lambda entry: (entry.msgid, entry.msgctxt or ""))
    CATALOGUE.parent.mkdir(parents=True, exist_ok=True)
    catalogue.save(str(CATALOGUE))
    catalogue.save_as_mofile(str(CATALOGUE.with_suffix(".mo")))


def blank(entry: polib.POEntry) -> polib.POEntry:
    plural = {0: ""} if entry.msgid_plural else {}
    flags = [flag for flag in entry.flags if flag.endswith("-format")]
    return polib.POEntry(
        msgid=entry.msgid, msgid_plural=entry.msgid_plural, msgctxt=entry.msgctxt, msgstr_plural=plural, flags=flags
    )


def untranslated(catalogue: polib.POFile, needed: polib.POFile) -> list[str]:
    done = {key(entry) for entry in catalogue.translated_entries()}
    fuzzy = {key(entry) for entry in catalogue.fuzzy_entries()}
    missing = [entry for entry in needed if key(entry) not in done]
    return [f"{'fuzzy' if key(entry) in fuzzy else 'missing'} in zh_Hans: {entry.msgid!r}" for entry in missing]


def stale_binary(catalogue: polib.POFile) -> list[str]:
    compiled = CATALOGUE.with_suffix(".mo")
    if catalogue and (not compiled.exists() or compiled.read_bytes() != catalogue.to_binary()):
        return [f"{compiled.relative_to(ROOT)} is not made from django.po; bin/check --fix writes it."]
    return []


def key(entry: polib.POEntry) -> Key:
    return entry.msgid, entry.msgctxt
