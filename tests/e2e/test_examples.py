"""Each example that Tessera ships runs to its end on one machine, as it is offered: with its defaults.

The one of a service is tried in tests/scheduler/test_file_types.py.
"""

import pytest

from bench.stack import Stack
from job_templates.examples import load_examples

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SERVES = {"file-type"}
ENDS_WITH = {
    "first-steps": "step 5 of 5",
    "checkpoint-and-resume": "done: all 10 steps were done once",
    "train-digits": "The figures are in ~/examples/",
    "ring-all-reduce": "done: every task has the same sums",
    "tune-a-model": '"final_loss": 0.0',
    "batch-inference": "The results are in ~/examples/inference/",
    "prepare-data": "6 of 6: part-",
    "score-data": "120000 words in 6 parts",
}


def run(stack: Stack, name: str, **values) -> str:
    return stack.api("POST", f"/templates/{name}:run", {"values": values})["id"]


def test_every_example_runs_to_its_end(stack):
    assert {*load_examples()} == ENDS_WITH.keys() | SERVES
    jobs = {name: run(stack, name) for name in ENDS_WITH if name != "score-data"}
    jobs["score-data"] = run(stack, "score-data", after="prepare-data")
    logs = {}
    for name, job in jobs.items():
        ended = stack.wait_for(job, "succeeded", "failed", "cancelled", seconds=120)
        logs[name] = stack.text(f"/jobs/{job}/logs")
        assert ended["state"] == "succeeded", f"{name}: {ended['reason_text']} {logs[name][-2000:]}"
        assert ENDS_WITH[name] in logs[name], f"{name}: {logs[name][-2000:]}"
        assert ended["template"]["name"] == name
    assert "resumed at step 5" in logs["checkpoint-and-resume"]
    assert stack.api("GET", f"/jobs/{jobs['checkpoint-and-resume']}")["attempt"] == 2
    reported = {
        name: stack.api("GET", f"/jobs/{jobs[name]}/numbers")["numbers"] for name in ("train-digits", "tune-a-model")
    }
    assert [(one["name"], one["count"]) for one in reported["train-digits"]] == [("accuracy", 8), ("loss", 8)]
    final, loss = reported["tune-a-model"]
    assert loss["count"] == loss["last"]["step"] == 400 and final["last"]["value"] < loss["max"]["value"]
    resumed = stack.api("GET", f"/jobs/{jobs['checkpoint-and-resume']}/numbers?name=total")["numbers"]
    assert [point["step"] for point in resumed[0]["points"]] == list(range(1, 11))
    accuracy = logs["train-digits"].splitlines()[-2].rpartition(" ")[2]
    assert float(accuracy.rstrip("%")) > 90


def test_a_rerun_starts_at_once_and_says_the_same(stack):
    first = run(stack, "first-steps", steps=1)
    stack.wait_for(first, "succeeded")
    again = stack.api("POST", f"/jobs/{first}:rerun", {"exact": True})["id"]
    assert stack.wait_for(again, "succeeded")["parent"] == first
    assert stack.api("GET", f"/jobs/{first}/diff?other={again}")["differences"] == []
    stack.wait_for_line(again, "step 1 of 1")
