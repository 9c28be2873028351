"""Trace one job from its POST to its process, and count the files of ours that its way crosses.

python -m dev.job_path [--compare REVISION] [--list]

A file counts when one of its functions is called, in any of the processes: web, cycle, reconcile, and the shim with
its children up to the job's program. The commit stretch is what a plan's steps call, until the tasks are ASSIGNED; it
comes back where a call enters a file that the stretch had entered and left before; the same way back counts once.
--list  the files in the order in which the job reaches them, and those of the commit stretch call by call
"""

import argparse
import json
import os
import subprocess
import sys
from itertools import groupby, pairwise
from pathlib import Path

from dev.code_metrics import ROOT, export_revision

TRACE = ROOT / "dev/job_trace.py"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("job_path", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--compare", metavar="REVISION")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    now = run_in(ROOT)
    if options.list:
        print(*now["files"], "", "commit:", *(name for name, _ in groupby(now["commit"])), "", sep="\n")
    before = now
    if options.compare:
        with export_revision(options.compare) as root:
            before = run_in(root)
    for name, count in (("files from POST to process", count_files), ("returns of the commit stretch", count_returns)):
        print(f"{name:42} " + (f"{count(before):>9} -> " if options.compare else "") + f"{count(now):>9}")


def count_files(traced: dict[str, list[str]]) -> int:
    return len(traced["files"])


def count_returns(traced: dict[str, list[str]]) -> int:
    """From how many other files the commit stretch calls into one that it had left: a pair of files counts once."""
    left: set[str] = set()
    returns: set[tuple[str, str]] = set()
    for before, name in pairwise(traced["commit"]):
        left.add(before)
        if name != before and name in left:
            returns.add((before, name))
    return len(returns)


def run_in(root: Path) -> dict[str, list[str]]:
    """Trace a job in a tree, on servers of its own."""
    paths = f"PYTHONPATH={root}{os.pathsep}{root / 'platform'}"
    trace = ["env", f"--chdir={root}", paths, sys.executable, "-P", str(TRACE)]  # -P: dev/ hides no app
    own = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'platform'}"}
    program = [sys.executable, "-m", "dev.testing", "--run", *trace]
    done = subprocess.run(program, cwd=ROOT, env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main(sys.argv[1:])
