"""What it is worth that work without cards keeps to one NUMA node, on this machine.

bin/bench numa [--cores N] [--mib 512] [--seconds 3] [--rounds 5]. N threads (half the cores of the smallest NUMA node,
two at least) add up memory that they wrote before, in order and at random places. In turns: on one NUMA node as the
local runtime starts a task there (its cores, and its memory preferred), and with the cores divided over all NUMA nodes
and the memory where each thread wrote it first. Prints how much faster the first is, with the spread. Where there is
one NUMA node this proves nothing: it says so, and exits 3.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import zip_longest

from runtimes.contract.node import NumaView
from runtimes.local.launch import choose_cpus, choose_memory_node
from runtimes.local.node.cards_and_numa import list_numa
from runtimes.local.shim.memory_policy import prefer_memory_of

WORKLOADS = ("in order", "at random")
PROGRAM = """
import json, sys, threading, time
import numpy
threads, mib, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
parts = [None] * threads
def write(at):
    parts[at] = numpy.full(mib * 2**20 // 8 // threads, 1.0)
def run(work):
    counts, until = [0] * threads, time.monotonic() + seconds
    def go(at):
        turn = at
        while time.monotonic() < until:
            work(parts[turn % threads])
            counts[at] += 1
            turn += 1
    for_all(go)
    return sum(counts) / seconds
def for_all(work):
    each = [threading.Thread(target=work, args=(at,)) for at in range(threads)]
    [one.start() for one in each], [one.join() for one in each]
for_all(write)
places = numpy.random.default_rng(1).integers(0, len(parts[0]), len(parts[0]) // 16)
print(json.dumps([run(lambda part: part.sum()), run(lambda part: part.take(places).sum())]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench numa", description=__doc__)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    nodes = list_numa()
    cores = options.cores or max(min(len(node.cpus) for node in nodes) // 2, 2)
    asked = [str(cores), str(options.mib), str(options.seconds)]
    print(f"NUMA nodes: {', '.join(f'{node.id} ({len(node.cpus)} cores)' for node in nodes)}; {cores} threads")
    ratios: list[list[float]] = [[] for _ in WORKLOADS]
    for _ in range(options.rounds):
        kept, spread = measure(nodes[:1], cores, asked), measure(nodes, cores, asked)
        for of_workload, one, all_ in zip(ratios, kept, spread, strict=True):
            of_workload.append(one / all_)
    for name, values in zip(WORKLOADS, ratios, strict=True):
        middle = statistics.median(values)
        print(f"memory read {name}: {middle:.2f} x on one NUMA node ({min(values):.2f} to {max(values):.2f})")
    if len(nodes) < 2:
        print("PROVES NOTHING HERE: this machine has one NUMA node. Both ways are the same, what differs is noise.")
        return 3
    return 0


def measure(nodes: Sequence[NumaView], cores: int, asked: list[str]) -> list[float]:
    """Return how often a second the memory was read, of each of WORKLOADS."""
    in_turns = [core for each in zip_longest(*(node.cpus for node in nodes)) for core in each if core is not None]
    near = [nodes[0].cpus] if len(nodes) == 1 else [[core] for core in in_turns[:cores]]
    chosen = choose_cpus(cores * 1000, near, os.sched_getaffinity(0), {}) or in_turns
    memory = choose_memory_node([node.id for node in nodes], [node.id for node in nodes])

    def enter() -> None:
        os.sched_setaffinity(0, chosen)
        if memory is not None:
            prefer_memory_of(memory)

    words = [sys.executable, "-c", PROGRAM, *asked]
    found = subprocess.run(words, capture_output=True, text=True, check=True, preexec_fn=enter)
    return json.loads(found.stdout)


if __name__ == "__main__":
    sys.exit(main())
