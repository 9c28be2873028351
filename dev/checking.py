"""`bin/check`: what must hold before a change lands, as one table of commands. All run; any failure fails.

--fix   put right what a tool can put right (format, lint, OpenAPI file, translation catalogue)
--fast  format, lint and import contracts only
--lock  compute requirements.txt and requirements-dev.txt anew from the .in files
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dev import architecture_picture, flaky, import_check, job_file, translations, version
from dev.docs import build as docs_site

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
OPENAPI = ROOT / "docs/openapi.json"
MANAGE = [sys.executable, "-W", "ignore", "manage.py"]
LOCK = ["pip", "compile", "-q", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
LOCK += ["--no-emit-find-links", "--no-emit-index-url"]
NOTEBOOKS, AGENT = "platform/notebooks/requirements", "agent/requirements"
SLOW_TO_IMPORT = ("rfc3987-syntax", "lark")
"""Left out of notebooks: jsonschema checks IRIs with it where it is there, and builds its grammar at each start, which
is more than half of what JupyterLab takes to answer."""
CONCISE = ["--output-format", "concise"]
MOST_LINES = 60
REFERENCE = "from dev.docs.reference import check; check(fix={})"
SPELLED = [
    "docs",
    "mkdocs.yml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "templates",
    "--skip=*.json,*.svg,*.png,*.webp",
]
SPELLED += ["--ignore-words-list=aks,passt"]
TYPED = ["platform", "scheduler", "portal", "cli", "agent", "dev", "tests", "bench"]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("bin/check", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("--fix", "--fast", "--lock"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    if options.lock:
        compute_locks()
    checks = quick_checks(options.fix) + ([] if options.fast else slow_checks(options.fix))
    failed = [name for name, check in checks if not passes(name, check)]
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


def quick_checks(fix: bool) -> list[tuple[str, Callable[[], str]]]:
    return [
        ("format", command(tool("ruff"), "format", *([] if fix else ["--check", *CONCISE]), ".")),
        ("lint", command(tool("ruff"), "check", *(["--fix"] if fix else []), "-q", *CONCISE, ".")),
        ("import contracts", command(tool("lint-imports"), "--no-cache")),
        ("imports are there", import_check.check),
        ("no test flaky twice", flaky.check),
        ("locks name no host", check_locks),
        ("one version", lambda: version.check(fix)),
        ("glossary", command(sys.executable, "-m", "dev.glossary")),
        ("architecture picture", lambda: architecture_picture.check(fix)),
        ("schema and table of the job file", lambda: job_file.check(fix)),
        ("links of the documents", docs_site.check),
        ("spelling of the documents", command(tool("codespell"), *SPELLED)),
        ("vendored files", command("bin/vendor", "--check")),
    ]


def slow_checks(fix: bool) -> list[tuple[str, Callable[[], str]]]:
    return [
        ("types", command(sys.executable, "-m", "mypy", "--no-error-summary", *TYPED)),
        ("Django's own", command(*MANAGE, "check", "--fail-level", "WARNING")),
        ("migrations", command(*MANAGE, "makemigrations", "--check", "--dry-run")),
        ("OpenAPI file", lambda: check_openapi(fix)),
        (
            "reference of the documents",
            command(*MANAGE, "shell", "-v", "0", "-c", REFERENCE.format(fix)),
        ),
        ("translations", lambda: translations.check(fix)),
    ]


def passes(name: str, check: Callable[[], str]) -> bool:
    """Run a check, which returns what is wrong, and print it."""
    began = time.monotonic()
    wrong = check()
    print(f"{'FAILED' if wrong else 'ok':6} {name} ({time.monotonic() - began:.1f} s)", flush=True)
    lines = wrong.rstrip().splitlines()
    for line in lines[-MOST_LINES:]:
        print(f"  {line}", flush=True)
    if len(lines) > MOST_LINES:
        print(f"  and {len(lines) - MOST_LINES} lines before these", flush=True)
    return not wrong


def command(*argv: str) -> Callable[[], str]:
    def check() -> str:
        done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
        return (done.stdout + done.stderr or f"exit status {done.returncode}") if done.returncode else ""

    return check


def tool(name: str) -> str:
    return str(BIN / name)


def compute_locks() -> None:
    """Compile all lock files. Needs the package index."""
    inputs = (
        ("requirements", ""),
        ("requirements-dev", "requirements"),
        ("requirements-docs", "requirements-dev"),
        (NOTEBOOKS, ""),
        (AGENT, "requirements-dev"),
    )
    for name, above in inputs:
        more = ["-c", f"{above}.txt"] if above else []
        more += [f"--no-emit-package={package}" for package in SLOW_TO_IMPORT] if name == NOTEBOOKS else []
        argv = [tool("uv"), *LOCK, *more, f"{name}.in", "-o", f"{name}.txt"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def check_locks() -> str:
    """Report locks that name a host."""
    named = [
        f"{lock.name}:{number}: {line}"
        for lock in [*sorted(ROOT.glob("requirements*.txt")), *(ROOT / f"{name}.txt" for name in (NOTEBOOKS, AGENT))]
        for number, line in enumerate(lock.read_text().splitlines(), 1)
        if re.search(r"://|^\s*--(index|extra|find|trusted)", line)
    ]
    return "\n".join(named)


def check_openapi(fix: bool) -> str:
    with tempfile.TemporaryDirectory() as directory:
        fresh = Path(directory) / "openapi.json"
        wrong = command(*MANAGE, "spectacular", "--format", "openapi-json", "--fail-on-warn", "--file", str(fresh))()
        if wrong:
            return wrong
        text = fresh.read_text()
    if fix:
        OPENAPI.write_text(text)
    if not OPENAPI.exists() or OPENAPI.read_text() != text:
        return "docs/openapi.json is not what the API says; bin/check --fix writes it anew."
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
