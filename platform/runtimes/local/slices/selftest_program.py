"""Run one program as a job in a slice, without a shim, for the self-test."""

import json
import os
import sys

from runtimes.local import isolation
from runtimes.local.shim import mounts
from runtimes.local.shim.child import become_job


def main(path: str) -> None:
    """Run the program of a spec.json record at `path`; exit 0 if it started."""
    with open(path) as file:
        plan = json.load(file)["plan"] | {"groups": []}
    mounts.make_scratch(plan)
    mounts.prepare(plan)
    go_r, go_w = os.pipe2(os.O_CLOEXEC)
    os.write(go_w, b"g")
    if plan["namespaces"]:
        isolation.open_namespaces()
    child = os.fork()
    if child == 0:
        become_job(plan, go_r, os.dup(1), os.dup(2))
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)
