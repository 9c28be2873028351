"""All of what bin/test plays a part of: lives of the loops, races, golden orders, requests, pages in each look.

bin/bench promises [pytest options]. Exits as pytest does.
"""

import os
import subprocess
import sys

from bench.stack import ROOT

FILES = (
    "tests/agent/slice/test_files.py",
    "tests/dev/cluster/test_lifecycle.py",
    "tests/e2e/test_clock_jumps.py",
    "tests/jobs/test_many_elements.py",
    "tests/loop/test_loop.py",
    "tests/loop/test_resizing.py",
    "tests/loop/test_same_on_postgres.py",
    "tests/monitoring/idle/test_evidence.py",
    "tests/monitoring/idle/test_faults.py",
    "tests/portal/api/test_schema.py",
    "tests/portal/ssh/test_files_and_ports.py",
    "tests/portal/test_accessible_in_browser.py",
    "tests/portal/test_legible_in_browser.py",
    "tests/scheduler/test_allocating_transaction.py",
    "tests/scheduler/test_faults_on_cluster.py",
    "tests/schedules/test_many.py",
    "tests/simulation/test_aistation.py",
    "tests/simulation/test_openb.py",
    "tests/simulation/test_traces.py",
)


def main() -> int:
    command = [str(ROOT / "bin/test"), "--all", *FILES, *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, "TESSERA_WHOLE": "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
