"""Two hundred ways out of a pod, at our own door. test_rights.py sends the same past us, to the namespace."""

import copy
import json

import pytest

from common.errors import InvalidInput
from jobs.jobfile.parse import parse_spec
from runtimes.kubernetes.pods.manifest import build_pod
from tests.runtimes.kubernetes.hostile import VARIABLES, hostile_changes
from tests.runtimes.kubernetes.specs import CARDS, STORED, TASKS, task

CHANGES = {name: (said, change) for name, said, change in hostile_changes()}


def test_there_are_two_hundred_and_no_two_are_the_same_pod():
    ordinary = build_pod(TASKS["a_quarter"], STORED, CARDS)
    pods = {json.dumps(ordinary, sort_keys=True)}
    for _, change in CHANGES.values():
        pod = copy.deepcopy(ordinary)
        change(pod)
        pods.add(json.dumps(pod, sort_keys=True))
    assert len(pods) == len(CHANGES) + 1 > 200


@pytest.mark.parametrize("name", CHANGES)
def test_no_job_file_can_say_it(name):
    with pytest.raises(InvalidInput):
        parse_spec({"run": "true", **CHANGES[name][0]})


def test_no_variable_of_a_job_reaches_what_reads_it():
    wanted = {each["name"]: each["value"] for each in VARIABLES.values() if "value" in each}
    env = {
        each["name"]: each["value"] for each in build_pod(task(env=wanted), STORED, {})["spec"]["containers"][0]["env"]
    }
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert not [name for name in wanted if name in env and name != "NVIDIA_VISIBLE_DEVICES"]
