"""An array on the whole platform: its elements run with their values, never more at once than may, without gaps."""

import time
from datetime import datetime

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
RUN = 'echo "lr=$lr seed=$seed index=$TESSERA_ARRAY_INDEX of $TESSERA_ARRAY_ID"; sleep 1; test $seed != 3'
FILE = {"run": RUN, "name": "sweep", "array": {"lr": ["1e-4", "3e-4"], "seed": "1..3", "at_once": 2}}


def wait_for_end(stack, array: str, seconds: float = 60) -> dict:
    until = time.monotonic() + seconds
    while (shown := stack.api("GET", f"/arrays/{array}"))["ended_at"] is None and time.monotonic() < until:
        assert shown["elements"]["running"] + shown["elements"]["waiting"] <= 2
        time.sleep(0.2)
    return shown


def read_times(job: dict) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(job["started_at"]), datetime.fromisoformat(job["ended_at"])


def test_elements_run_with_their_values_as_there_is_room(stack):
    array = stack.api("POST", "/jobs", FILE)["id"]
    shown = wait_for_end(stack, array)
    assert (shown["state"], shown["elements"]["succeeded"], shown["elements"]["failed"]) == ("failed", 4, 2)
    jobs = stack.api("GET", f"/jobs?array={array}&sort=id")["results"]
    assert [job["index"] for job in jobs] == list(range(6))
    for job in jobs:
        env = job["spec"]["env"]
        assert f"lr={env['lr']} seed={env['seed']} index={job['index']} of {array}" in stack.text(
            f"/jobs/{job['id']}/logs"
        )
    times = [read_times(job) for job in jobs]
    for began, _ended in times:
        assert sum(other <= began < until for other, until in times) <= 2
    waits = [began - max(end for _, end in times if end <= began) for began, _ in times[2:]]
    assert max(wait.total_seconds() for wait in waits) < 10, waits
    stack.api("POST", f"/arrays/{array}:retry", {})
    again = wait_for_end(stack, array)
    assert again["elements"]["failed"] == 2
    retried = stack.api("GET", f"/jobs?array={array}&state=failed")["results"]
    assert [job["attempt"] for job in retried] == [2, 2]


TRIAL = """trap 'echo saved; exit 0' TERM
for step in $(seq 1 40); do tessera-report loss=$x step=$step; sleep 0.5 & wait; done"""
SWEEP = {
    "run": TRIAL, "name": "search",
    "search": {"method": "asha", "metric": "loss", "trials": 3, "rungs": [4], "space": {"x": ["3", "5", "7"]}},
}  # fmt: skip


def test_a_sweep_stops_who_falls_behind_and_tells_the_best(stack):
    array = stack.api("POST", "/jobs", SWEEP)["id"]
    until = time.monotonic() + 100
    while (shown := stack.api("GET", f"/arrays/{array}"))["ended_at"] is None and time.monotonic() < until:
        time.sleep(0.5)
    trials = shown["sweep"]["trials"]
    assert (shown["state"], shown["elements"]["succeeded"], len(trials)) == ("succeeded", 3, 3)
    assert trials[0] == shown["sweep"]["best"] and [trial["is_pruned"] for trial in trials] == [False, True, True]
    assert [trial["score"] for trial in trials] == sorted(float(trial["values"]["x"]) for trial in trials)
    for trial in trials[1:]:
        job = stack.api("GET", f"/jobs/{trial['job']}")
        assert (job["state"], job["reason"]) == ("cancelled", "pruned")
        assert "saved" in stack.text(f"/jobs/{trial['job']}/logs")
