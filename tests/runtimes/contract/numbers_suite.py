"""How every runtime lets a task report numbers: by its tools, and by lines in a file, which the platform opens."""

import json
import os
import time

REPORT = """
tessera-report loss=0.5 step=100 || exit 3
tessera-report train/acc=.75 || exit 4
tessera-report 'two words=1' 2>/dev/null && exit 5
tessera-report loss 2>/dev/null && exit 5
tessera-report loss=low! 2>/dev/null && exit 5
echo '{"loss": 0.25, "step": 200}' >>"$TESSERA_REPORT" || exit 6
(unset TESSERA_REPORT && tessera-report loss=9 2>/dev/null) || exit 7
"""
WANTED = [{"loss": "0.5", "step": "100"}, {"train/acc": ".75"}, {"loss": 0.25, "step": 200}]
BY_PYTHON = """
import tessera_report
tessera_report.report(loss=0.5, step=1)
tessera_report.report({"train/acc": 1})
"""


class NumbersContract:
    def read(self, world, uuid: str) -> list[dict]:
        fd = world.runtime.open_report(uuid)
        try:
            return [json.loads(line) for line in os.pread(fd, 65536, 0).splitlines()]
        finally:
            os.close(fd)

    def test_a_task_reports_numbers_until_it_is_forgotten(self, world):
        spec = world.spec(REPORT)
        world.runtime.start(spec)
        assert world.until(spec.uuid, "exited").exit_code == 0
        assert self.read(world, spec.uuid) == WANTED
        world.runtime.forget(spec.uuid)
        assert world.runtime.open_report(spec.uuid) is None

    def test_numbers_are_seen_while_the_task_runs(self, world):
        spec = world.spec("tessera-report loss=1; sleep 60")
        world.runtime.start(spec)
        world.until(spec.uuid, "running")
        until = time.monotonic() + 20
        while not (found := self.read(world, spec.uuid)) and time.monotonic() < until:
            time.sleep(0.05)
        assert found == [{"loss": "1"}]

    def test_a_program_in_python_reports_numbers(self, world):
        python, more = world.python
        spec = world.spec(f"{python} -c '{BY_PYTHON}'", **more)
        world.runtime.start(spec)
        assert world.until(spec.uuid, "exited").exit_code == 0
        assert self.read(world, spec.uuid) == [{"loss": 0.5, "step": 1}, {"train/acc": 1}]

    def test_a_start_that_is_repeated_keeps_what_was_reported(self, world):
        spec = world.spec("tessera-report loss=1")
        world.runtime.start(spec)
        world.until(spec.uuid, "exited")
        world.runtime.start(spec)
        assert self.read(world, spec.uuid) == [{"loss": "1"}]

    def test_nothing_is_open_of_a_task_that_is_not_there(self, world):
        assert world.runtime.open_report("f" * 32) is None
