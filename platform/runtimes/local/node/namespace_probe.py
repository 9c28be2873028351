"""Test a job's namespaces once; exits 0 if all works."""

import os

from runtimes.local import isolation


def main(scratch: str, run_dir: str, uid: str) -> None:
    isolation.open_namespaces()
    child = os.fork()
    if child == 0:
        try:
            seen_at = os.path.join(run_dir, "task")
            isolation.open_view()
            own = os.open(scratch, os.O_PATH | os.O_DIRECTORY)
            isolation.hide([os.path.dirname(scratch), run_dir], [(own, seen_at, "", False)])
            isolation.drop_to(int(uid) if uid else None, int(uid) if uid else None)
            os.chdir(seen_at)
            with open("written", "w") as file:
                file.write("x")
            hidden = not os.path.exists(scratch)
            processes = [name for name in os.listdir("/proc") if name.isdigit()]
            os._exit(0 if hidden and processes == ["1"] else 1)
        except BaseException:
            os._exit(1)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)
