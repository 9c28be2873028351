"""NVML through the shim, asked by NVIDIA's own Python binding: memory and processes as far as the slice goes."""

import json
import subprocess
import sys

from tests.agent_slice import CARDS, LIMIT, MIB, run

ASK = """
import json, pynvml as n
n.nvmlInit()
one, two, other = [n.nvmlDeviceGetHandleByIndex(index) for index in range(3)]
memory, second = n.nvmlDeviceGetMemoryInfo(one), n.nvmlDeviceGetMemoryInfo(one, version=n.nvmlMemory_v2)
def error(ask, *words):
    try:
        return str(ask(*words))
    except n.NVMLError as failure:
        return failure.value
print(json.dumps({
    "name": n.nvmlDeviceGetName(one), "uuid": n.nvmlDeviceGetUUID(one),
    "first": [memory.total, memory.free, memory.used],
    "second": [second.total, second.free, second.used, second.reserved],
    "card two": n.nvmlDeviceGetMemoryInfo(two).total,
    "compute": [[row.pid, row.usedGpuMemory] for row in n.nvmlDeviceGetComputeRunningProcesses(one)],
    "compute two": len(n.nvmlDeviceGetComputeRunningProcesses(two)),
    "graphics": len(n.nvmlDeviceGetGraphicsRunningProcesses(one)),
    "mps": len(n.nvmlDeviceGetMPSComputeRunningProcesses(one)),
    "other": [error(n.nvmlDeviceGetMemoryInfo, other), error(n.nvmlDeviceGetComputeRunningProcesses, other)],
    "samples": error(n.nvmlDeviceGetProcessUtilization, one, 0),
    "missing": error(n.nvmlDeviceGetFanSpeed, one),
}))
"""


def ask(a_slice, library=None):
    done = run([sys.executable, "-c", ASK], env=a_slice.environment(library))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_the_agent_charges_besides_is_seen_and_no_process(a_slice):
    """As long as the agent tends it; dead requests stay counted."""
    words = [a_slice.built.slicectl, "tend", a_slice.path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tender:

        def tend(line: str) -> dict:
            tender.stdin.write(f"{line}\n")
            tender.stdin.flush()
            return json.loads(tender.stdout.readline())

        assert tend("")["cards"][0]["used_bytes"] == 0
        told = tend(f"{CARDS[0]}={LIMIT - MIB} {CARDS[1]}=7")
        assert [card["tended_bytes"] for card in told["cards"]] == [LIMIT - MIB, 7] and told["processes"] == []
        assert ask(a_slice)["first"] == [LIMIT, MIB, LIMIT - MIB] and ask(a_slice)["compute"] == []
        assert a_slice.held(MIB + 1).answer == 2 and a_slice.held(MIB).answer == 0
        a_slice.end()
        told = tend(f"{CARDS[0]}={2 * MIB}")
        assert told["cards"][0]["used_bytes"] == 2 * MIB and told["cards"][0]["refused"] == 1
        assert "besides the processes" in a_slice.control("show")
        tender.stdin.close()
    assert a_slice.used() == 0


def test_memory_and_processes_of_the_slice_only(a_slice, processes):
    processes += [a_slice.held(10 * MIB), a_slice.held(3)]
    used = 10 * MIB + 3
    told = ask(a_slice)
    assert told["name"] == "Doubled V100 1" and told["uuid"] == CARDS[0]  # falls through to the real library
    assert told["first"] == [LIMIT, LIMIT - used, used]
    assert told["second"] == [LIMIT, LIMIT - used, used, 0]
    assert told["card two"] == LIMIT // 2
    assert sorted(told["compute"]) == sorted([[processes[0].pid, 10 * MIB], [processes[1].pid, 3]])
    assert told["compute two"] == told["graphics"] == told["mps"] == 0
    assert told["other"] == [4, 4]  # no permission: another task's card
    assert told["samples"] == 6  # not found
    assert told["missing"] == 13  # this driver (the double) has no such function


def test_without_the_shim_strangers_are_seen(a_slice, built):
    assert ask_strangers(a_slice, built) == [[4242, 9 << 30]]


def ask_strangers(a_slice, built):
    short = (
        "import json, pynvml as n\nn.nvmlInit()\n"
        "rows = n.nvmlDeviceGetComputeRunningProcesses(n.nvmlDeviceGetHandleByIndex(0))\n"
        "print(json.dumps([[row.pid, row.usedGpuMemory] for row in rows]))"
    )
    return json.loads(run([sys.executable, "-c", short], env=a_slice.environment(built.driver)).stdout)


def test_without_its_files_it_fails_closed(a_slice):
    (a_slice.path / "limits").unlink()
    short = "import pynvml as n\nn.nvmlInit()\nn.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetHandleByIndex(0))"
    done = run([sys.executable, "-c", short], env=a_slice.environment())
    assert "NVMLError" in done.stderr and "Tessera: this task's slice" in done.stderr
