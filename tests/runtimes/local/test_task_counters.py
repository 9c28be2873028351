"""What a task uses: the kernel's files as fixtures, and a real program that burns CPU, memory and disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.usage import group_counters
from agent.usage.group_counters import read_counters, read_cpu_ms, read_io
from runtimes.local.node.isolation_probe import SHARED, Isolation, MemoryControl
from runtimes.local.shim import task_counters
from runtimes.local.shim.cgroups import V1, V2, WATCHDOG
from runtimes.local.shim.task_counters import TaskCounters
from tests.runtimes.worlds import LocalWorld, wait_for

NOTHING = {"isolation": Isolation(SHARED, False, False), "memory": MemoryControl(WATCHDOG)}

# Of Linux 6.1 and 5.10, shortened.
VERSION_2 = {
    "cpu.stat": "usage_usec 81234567\nuser_usec 80000000\nsystem_usec 1234567\nnr_periods 0\n",
    "memory.current": "2147483648\n",
    "memory.peak": "3221225472\n",
    "memory.stat": "anon 1073741824\nfile 1073741824\ninactive_anon 0\nactive_anon 1\ninactive_file 536870912\n",
    "io.stat": "8:0 rbytes=1048576 wbytes=4096 rios=2 wios=1 dbytes=0\n259:1 rbytes=1024 wbytes=0 rios=1 wios=0\n",
    "cgroup.procs": "",
}
VERSION_1 = {
    "cpuacct.usage": "81234567890\n",
    "memory.usage_in_bytes": "2147483648\n",
    "memory.max_usage_in_bytes": "3221225472\n",
    "memory.stat": "cache 1073741824\ninactive_file 5\ntotal_cache 1073741824\ntotal_inactive_file 536870912\n",
    "cgroup.procs": "",
}
MEMORY = {"memory_mib": 1536, "peak_mib": 3072}


def make_group(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / name).write_text(text)
    return str(folder)


def test_a_group_of_version_2_tells_all(tmp_path):
    counters = read_counters(V2, [make_group(tmp_path, VERSION_2)])
    assert counters == MEMORY | {"cpu_ms": 81234, "read_kib": 1025, "write_kib": 4, "processes": 0}


def test_groups_of_version_1_tell_what_they_have(tmp_path):
    assert read_counters(V1, [make_group(tmp_path, VERSION_1)]) == MEMORY | {
        "cpu_ms": 81234,
        "read_kib": 0,  # no process is left, so nothing more is known to have been read
        "write_kib": 0,
        "processes": 0,
    }


@pytest.mark.parametrize("missing", ["memory.current", "memory.stat"])
def test_memory_that_is_half_known_is_absent(tmp_path, missing):
    group = make_group(tmp_path, {name: text for name, text in VERSION_2.items() if name != missing})
    assert "memory_mib" not in read_counters(V2, [group])


def test_without_a_group_memory_is_absent_until_the_tree_was_summed():
    assert not {"memory_mib", "peak_mib"} & read_counters(WATCHDOG, [], [os.getpid()]).keys()
    told = TaskCounters(WATCHDOG, [], lambda: 0).count([os.getpid()], None, 7)
    assert told["counters"]["memory_mib"] == told["counters"]["peak_mib"] == 7


def test_a_process_whose_disk_use_is_secret_makes_that_unknown_not_0(monkeypatch):
    def refuse(pid):
        raise PermissionError

    monkeypatch.setattr(group_counters, "read_io", refuse)
    assert not {"read_kib", "write_kib"} & read_counters(WATCHDOG, [], [os.getpid()]).keys()


def test_a_process_that_is_gone_counts_nothing():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert read_counters(WATCHDOG, [], [gone.pid]) == {"processes": 1, "cpu_ms": 0, "read_kib": 0, "write_kib": 0}


def test_names_of_programs_may_hold_spaces_and_brackets(tmp_path):
    (tmp_path / "7").mkdir()
    fields = "S 1 7 7 0 -1 4194304 100 0 0 0 250 50 100 100 20 0 1 0 12345 0 0"
    (tmp_path / "7/stat").write_text(f"7 (a) R (b) {fields}\n")
    (tmp_path / "7/io").write_text("rchar: 9\nwchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\n")
    assert read_cpu_ms(7, str(tmp_path)) == round(500 * group_counters.TICK_MS)
    assert read_io(7, str(tmp_path))["write_bytes"] == 8192


def test_totals_never_decrease_when_a_process_takes_its_figures_along(monkeypatch):
    figures = iter([{"cpu_ms": 900, "processes": 2, "memory_mib": 9}, {"cpu_ms": 300, "processes": 1, "memory_mib": 4}])
    monkeypatch.setattr(task_counters, "read_counters", lambda *_: next(figures))
    monkeypatch.setattr(task_counters, "COUNT_EVERY_S", 0.0)
    counters = TaskCounters(WATCHDOG, [], lambda: 0)
    told = [counters.count([], None, None)["counters"] for _ in range(2)]
    assert told == [{"cpu_ms": 900, "processes": 2, "memory_mib": 9}, {"cpu_ms": 900, "processes": 1, "memory_mib": 4}]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, NOTHING], ids=["all", "nothing"])
def test_a_running_task_tells_what_it_has_used(options):
    """Its children ended before it was looked at, and count: one that it waited for, one that it left behind."""
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    hold = "python3 -c 'import time; held = bytearray(80 << 20); time.sleep(60)'"
    world = LocalWorld(**options)
    try:
        spec = world.spec(f"({burn}); (({burn}) & ); head -c 3000000 /dev/zero > f; sync f; {hold}", memory_mib=1024)
        world.runtime.start(spec)
        told = wait_for(lambda: (record := world.task(spec.uuid).read("use")) and record["counters"])
        assert told["processes"] >= 1  # at the first tick, whatever it had done by then
        told = wait_for(lambda: (now := world.task(spec.uuid).read("use")["counters"])["memory_mib"] >= 80 and now)
        assert 100 < told["cpu_ms"] < 60_000
        assert 80 <= told["memory_mib"] <= told["peak_mib"] < 400
        assert 1 <= told["processes"] < 10
        assert told["write_kib"] >= 2900
    finally:
        world.close()
