"""Jobs of several roles: what each says, what stands beside them, and what is kept of old ones."""

import pytest

from common.errors import InvalidInput
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.spec import RoleSpec, declared_ports, from_json, role_of, roles_of, to_json
from portal.wording.errors import describe_field_error

RL = b"""\
env: {SEED: 1}
roles:
  head:
    run: ray start --head --block
    cpu: 8
    ports: [8265]
    ends_job: all
  learner: {run: python learn.py, gpu: "A100:2", env: {LR: 1e-4}}
  actors: {run: python act.py, gpu: 1/8, count: 4..32}
"""


def errors_of(data: dict) -> list:
    with pytest.raises(InvalidInput) as caught:
        parse_spec(data)
    return caught.value.errors


def test_each_role_says_what_it_runs_and_how_many_of_it_there_are():
    spec = parse_spec(load_jobfile(RL))
    head, learner, actors = roles_of(spec)
    assert (head.name, head.cpu_milli, head.ports, head.ends_job, head.nodes) == ("head", 8000, (8265,), "all", 1)
    assert (learner.gpu.text, learner.env, spec.env) == ("A100:2", {"LR": "1e-4"}, {"SEED": "1"})
    assert (actors.nodes, actors.nodes_max, actors.gpu.text) == (4, 32, "1/8")
    assert spec.name == "ray start --head --block"


def test_a_job_without_roles_has_one_called_main():
    spec = parse_spec({"run": "a", "gpu": 1, "nodes": "2..3", "ports": [6006]})
    assert [(role.name, role.nodes, role.nodes_max, role.ports) for role in roles_of(spec)] == [("main", 2, 3, (6006,))]
    assert role_of(spec, "main").run == "a"


def test_roles_are_written_as_a_person_would():
    assert (
        dump_yaml(parse_spec(load_jobfile(RL)))
        == """\
name: ray start --head --block
roles:
  head:
    run: ray start --head --block
    cpu: 8
    ports: [8265]
    ends_job: all
  learner:
    run: python learn.py
    gpu: A100:2
    env:
      LR: "1e-4"
  actors:
    run: python act.py
    gpu: 1/8
    count: "4..32"
env:
  SEED: "1"
"""
    )


def test_a_job_that_was_stored_with_its_ask_beside_its_only_role_stays_readable():
    stored = to_json(parse_spec({"run": "a", "gpu": "1/4", "cpu": 2, "ports": [8080]}))
    del stored["nodes"]
    spec = from_json(stored | {"roles": {"worker": {"count": 3}}})
    assert [(r.name, r.run, r.nodes, r.gpu.text, r.ports) for r in spec.roles] == [("worker", "a", 3, "1/4", (8080,))]
    assert parse_spec(to_json(spec)) == spec


def test_all_that_is_wrong_in_roles_comes_at_once():
    found = errors_of({"gpu": 1, "nodes": 2, "roles": {"a": {"gpu": "9/4", "x": 1}, "B": {"run": "b"}}})
    assert [(error.pointer, error.code) for error in found] == [
        ("/roles/B", "bad_role_name"),
        ("/roles/a/x", "unknown_key"),
        ("/roles/a/gpu", "gpu_part_too_large"),
        ("/roles/a/run", "required"),
        ("/gpu", "beside_roles"),
        ("/nodes", "beside_roles"),
    ]


@pytest.mark.parametrize("said, meant", [("nodes", "count"), ("replicas", "count"), ("command", "run")])
def test_what_others_call_a_key_is_known(said, meant):
    [error] = errors_of({"roles": {"a": {"run": "a", said: 2}}})
    assert f"Did you mean “{meant}”?" in describe_field_error(error)


def test_one_role_alone_may_have_a_name():
    assert parse_spec({"roles": {"worker": {"run": "a"}}}).roles == (RoleSpec(name="worker", run="a"),)


def test_the_tasks_of_a_role_listen_where_it_says_and_the_first_of_all_has_the_board():
    spec = parse_spec({"roles": {"a": {"run": "a", "ports": [8080]}, "b": {"run": "b"}}, "tensorboard": "tb"})
    assert declared_ports(spec, "a", 0) == (8080, 6006) and declared_ports(spec, "b", 1) == ()
