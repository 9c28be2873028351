"""Whoever makes, removes or sweeps versions may be killed at any moment: what is there is whole, the rest is swept."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtimes.dataset_store.layout import StoreLayout
from runtimes.dataset_store.removing import sweep_store
from tests.runtimes.dataset_store.trees import KEY, check_version, fill, home, list_objects
from tests.whole import part_of

KILLS = part_of(200, 20)
SOURCE = Path(__file__).resolve().parents[3]
WORK = """
import itertools, random, sys
from pathlib import Path
from runtimes.dataset_store import contents
from runtimes.dataset_store.layout import StoreLayout
from runtimes.dataset_store.removing import remove_version, sweep_store
from tests.runtimes.dataset_store.trees import KEY, fill, home, take
contents.PUBLISH_EVERY = 7
root, number = Path(sys.argv[1]), int(sys.argv[2])
layout, rng = StoreLayout(root), random.Random(number)
print("ready", flush=True)
for number in itertools.count(number):
    fill(home(root) / "corpus", {str(n): str(rng.random()) for n in rng.sample(range(40), 5)})
    take(root, "corpus", number)
    there = sorted(int(tree.name) for tree in (layout.versions / KEY).iterdir())
    for old in there[:-3]:
        remove_version(layout, KEY, old)
    sweep_store(layout, lambda: {(KEY, n) for n in range(number + 2) if layout.version(KEY, n).exists()})
"""


@pytest.mark.slow
def test_killed_at_random_moments_nothing_is_half_left_behind_or_lost(tmp_path):
    for above in (tmp_path, *tmp_path.parents[:2]):
        above.chmod(0o711)
    root, rng = tmp_path / "files", random.Random(5)
    root.mkdir(mode=0o711)
    fill(home(root) / "corpus", {f"{n}": str(n) for n in range(40)})
    layout, next_number, seen = StoreLayout(root), 1, set()
    for _ in range(KILLS):
        argv = [sys.executable, "-c", WORK, str(root), str(next_number)]
        env = {**os.environ, "PYTHONPATH": f"{SOURCE}:{SOURCE}/platform"}
        with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, start_new_session=True) as worker:
            worker.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.6))
            os.killpg(worker.pid, signal.SIGKILL)
        there = list_numbers(layout)
        for number in there:
            check_version(root, number)
        sweep_store(layout, lambda: {(KEY, number) for number in there})  # noqa: B023 - called at once
        assert list_numbers(layout) == there
        for number in there:
            check_version(root, number)
        assert [path for path in layout.taking.iterdir() if path.is_dir()] == []
        assert {path.name for path in layout.manifests.iterdir()} == {f"{KEY}-{number}.jsonl" for number in there}
        assert min(list_objects(root).values(), default=2) >= 2
        seen.update(there)
        next_number = max([next_number, *there]) + 1
    assert len(seen) > KILLS / 4  # it did come to something


def list_numbers(layout: StoreLayout) -> list[int]:
    folder = layout.versions / KEY
    return sorted(int(tree.name) for tree in folder.iterdir()) if folder.exists() else []
