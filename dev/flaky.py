"""The tests of `.ci/run`: at most three that fail get one more try, alone, and are named as flaky if they pass.

python -m dev.flaky MARKS [pytest options]   run the tests with these marks; the exit status is pytest's
python -m dev.flaky --report                 name the flaky tests of all runs, with their reasons in tests/flaky.md

TESSERA_FLAKY: a file that collects the flaky tests of several runs, of which two may go on at the same time.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REASONS = ROOT / "tests/flaky.md"
MOST = 3
"""Flaky tests of all runs together."""
TESTS_FAILED, NOT_FOUND = 1, 4
"""Exit statuses of pytest."""


def main(arguments: list[str]) -> int:
    collected = Path(os.environ["TESSERA_FLAKY"])
    if arguments == ["--report"]:
        print(report(read_flaky(collected), read_reasons(REASONS.read_text())), end="")
        return 0
    marks, *options = arguments
    with tempfile.TemporaryDirectory(prefix="tessera-") as cache:
        status = run_tests("-m", marks, "-o", f"cache_dir={cache}", *options)
        failed = read_failed(Path(cache))
    if status != TESTS_FAILED or not may_try_again(failed, read_flaky(collected)):
        return status
    print("ONCE MORE, ALONE:", *failed, sep="\n  ", flush=True)
    if status := try_alone(marks, failed):
        return status
    with collected.open("a") as file:
        file.writelines(f"{name}\n" for name in failed)
    return 0


def read_flaky(collected: Path) -> list[str]:
    return collected.read_text().splitlines() if collected.exists() else []


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
