"""The tests of `.ci/run`: at most three that fail get one more try, alone, and are named as flaky if they pass.

python -m dev.flaky MARKS [pytest options]   run the tests with these marks; the exit status is pytest's
python -m dev.flaky --report                 name what failed in all runs, and the flaky tests, with their reasons in
                                             tests/flaky.md

TESSERA_FLAKY: a file that collects the flaky tests of several runs, of which two may go on at the same time; beside it
is what failed.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REASONS = ROOT / "tests/flaky.md"
MOST = 3
"""Flaky tests of all runs together."""
TESTS_FAILED, NOT_FOUND = 1, 4
"""Exit statuses of pytest."""
LONGEST = 600
"""Letters of a failure that are told at the end."""


def main(arguments: list[str]) -> int:
    collected = Path(os.environ["TESSERA_FLAKY"])
    if arguments == ["--report"]:
        print(report(read_lines(collected), read_reasons(REASONS.read_text())), end="")
        print("".join(f"{line}\n" for line in read_lines(file_of_failures(collected))), end="")
        return 0
    marks, *options = arguments
    with tempfile.TemporaryDirectory(prefix="tessera-") as cache:
        results = Path(cache) / "results.xml"
        status = run_tests("-m", marks, "-o", f"cache_dir={cache}", f"--junitxml={results}", *options)
        failed = read_failed(Path(cache))
        append(file_of_failures(collected), read_failures(results))
    if status != TESTS_FAILED or not may_try_again(failed, read_lines(collected)):
        return status
    print("ONCE MORE, ALONE:", *failed, sep="\n  ", flush=True)
    if status := try_alone(marks, failed):
        return status
    append(collected, failed)
    return 0


def read_lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def append(file: Path, lines: Sequence[str]) -> None:
    with file.open("a") as appended:
        appended.writelines(f"{line}\n" for line in lines)


def file_of_failures(collected: Path) -> Path:
    return collected.with_suffix(".failed")


def read_failures(results: Path) -> list[str]:
    """Return a line for each failure in a file of JUnit's format: the test, and how its message begins."""
    if not results.exists():
        return []
    return [
        f"FAILED {case.get('classname')}.{case.get('name')}: {' '.join(wrong.get('message', '').split())[:LONGEST]}"
        for case in ET.parse(results).iter("testcase")  # noqa: S314  pytest wrote it a moment ago
        for wrong in [*case.iter("failure"), *case.iter("error")]
    ]


def read_failed(cache: Path) -> list[str]:
    """Return the tests that failed last by pytest's own cache."""
    file = cache / "v/cache/lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


def may_try_again(failed: Sequence[str], flaky: Sequence[str]) -> bool:
    """Whether these tests are few enough. A file that could not be collected has no second try."""
    return bool(failed) and all("::" in name for name in failed) and len(failed) + len(flaky) <= MOST


def try_alone(marks: str, failed: Sequence[str]) -> int:
    """Run the tests in one process. A part of a test (a subtest) has no name of its own: then its whole file runs."""
    status = run_tests("-m", marks, "-n", "0", *failed)
    if status != NOT_FOUND:
        return status
    return run_tests("-m", marks, "-n", "0", *sorted({name.partition("::")[0] for name in failed}))


def run_tests(*arguments: str) -> int:
    return subprocess.run([ROOT / "bin/test", *arguments], check=False).returncode


def report(flaky: Sequence[str], reasons: Sequence[tuple[str, str]]) -> str:
    """Return a line for each flaky test."""
    known = dict(reasons)
    return "".join(f"FLAKY {name}: {known.get(name, 'give the reason in tests/flaky.md')}\n" for name in flaky)


def read_reasons(text: str) -> list[tuple[str, str]]:
    """Return (test, reason) for each row of the table."""
    return re.findall(r"^\| `([^`]+::[^`]+)` \| ([^|]+?) \|", text, re.MULTILINE)


def check() -> str:
    """Name the tests that were flaky twice: they are mended before anything else."""
    counts = Counter(name for name, _ in read_reasons(REASONS.read_text()))
    return "\n".join(
        f"{name} was flaky {count} times: mend it, then take its rows out"
        for name, count in counts.items()
        if count > 1
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
