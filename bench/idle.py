"""How well idle jobs are told from busy ones, on forty labelled traces of three hours.

bin/bench idle [--seed 1] [--seeds 1]. It prints how many of the 26 that work, or cannot be known, would have been acted
on (goal: 0), and how many of the 14 idle ones were within the rule's minutes and 60 s (goal: 14). --seeds: that many
seeds, one after the other.
"""

import argparse
import sys
import time

from tests.monitoring.traces.corpus import build_corpus
from tests.monitoring.traces.play import find_act

WINDOW_S, ACT_S, SLACK_S = 30 * 60, 60 * 60, 60


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench idle", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    return max([judge(seed) for seed in range(options.seed, options.seed + options.seeds)])


def judge(seed: int) -> int:
    """Print the figures of a seed; 1 if a goal is missed."""
    began, wrong, late, in_time, at_work, idle = time.monotonic(), [], [], 0, 0, 0
    for trace in build_corpus(seed):
        acted = find_act(trace, window_s=WINDOW_S, act_s=ACT_S)
        if trace.idle_from is None:
            at_work += 1
            wrong += [trace.name] if acted is not None else []
            continue
        idle += 1
        due = trace.idle_from + ACT_S
        if acted is not None and due <= acted <= due + SLACK_S:
            in_time += 1
        else:
            late.append(f"{trace.name}: {'never' if acted is None else f'{acted - due:+} s'}")
    took = time.monotonic() - began
    right = f"acts on {len(wrong)} of {at_work} that work; {in_time} of {idle} idle ones in time"
    print(f"seed {seed}: {right}; {took:.1f} s")
    for line in [f"acted on: {name}" for name in wrong] + late:
        print("   ", line)
    return 1 if wrong or late else 0


if __name__ == "__main__":
    sys.exit(main())
