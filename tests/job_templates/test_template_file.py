"""Templates read and rendered, without a database."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidInput
from job_templates.examples import load_examples
from job_templates.template_file import read_template, render
from jobs.jobfile.load import load_jobfile
from portal.wording.errors import describe_field_error

FINETUNE = """\
template:
  name: finetune
  description: Finetunes a model.
  parameters:
    lr: {type: number, default: 3e-4, least: 0, most: 1}
    epochs: {type: integer, least: 1, most: 100}
    data: {}
    mixed: {type: boolean, default: true}
    size: {type: choice, choices: [small, large], default: small}
    gpu: {type: gpu, default: 1/4}
    pool: {default: ""}
name: finetune ${{ size }}
pool: ${{pool}}
nodes: ${{ epochs }}
gpu: ${{ gpu }}
preemptible: ${{ mixed }}
env:
  LR: ${{ lr }}
  MIXED: ${{ mixed }}
  POOL: ${{ pool }}
run: |-
  # the shell's own ${LR:-0} and ${#MIXED} stay
  python train.py --data ${{ data }} --size=${{ size }}
"""


def refusals(text: str, values: dict | None = None) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        file = read_template(text)
        render(file, values or {})
    assert all(describe_field_error(one) for one in refused.value.errors)
    return {one.pointer: one.code for one in refused.value.errors}


def test_values_stand_where_their_names_stood():
    spec = render(read_template(FINETUNE), {"epochs": "3", "data": "a", "lr": "1e-5", "mixed": "no"}).spec
    assert (spec.nodes, spec.gpu.text, spec.preemptible, spec.pool) == (3, "1/4", False, None)
    assert spec.env == {"LR": "1e-5", "MIXED": "false", "POOL": ""}
    assert spec.run.endswith("python train.py --data a --size=small") and "${LR:-0}" in spec.run


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40))
def test_a_value_is_one_word_of_a_command_and_no_key_whatever_is_in_it(text):
    rendered = render(read_template(FINETUNE), {"epochs": 1, "data": text})
    assert shlex.split(rendered.spec.run.splitlines()[-1])[3] == text
    assert load_jobfile(rendered.text.encode()).keys() == {
        "name", "run", "gpu", "nodes", "env", "preemptible",
    }  # fmt: skip


def test_a_shell_reads_a_value_as_it_was_given():
    text = "template: {name: a, parameters: {what: {}}}\nrun: printf %s ${{ what }}\n"
    what = "$(echo no) `no` 'no' \"no\"\n; ${{ what }} no: true"
    run = render(read_template(text), {"what": what}).spec.run
    assert subprocess.run(["sh", "-c", run], capture_output=True, text=True, check=True).stdout == what


def test_a_value_can_add_no_key():
    text = "template: {name: a, parameters: {title: {}}}\nname: ${{ title }}\nrun: ls\n"
    assert refusals(text, {"title": "x\npriority: urgent"}) == {"/values/title": "bad_characters"}


def test_a_number_stays_as_it_was_written():
    for written in ("3e-4", "0.0003", "1E3", "7", 0.5, 12):
        text = "template: {name: a, parameters: {lr: {type: number}}}\nrun: ls\nenv: {LR: '${{ lr }}'}\n"
        assert render(read_template(text), {"lr": written}).spec.env == {"LR": str(written)}


def test_a_whole_command_may_be_a_value():
    text = "template: {name: a, parameters: {command: {}}}\nrun: ${{ command }}\n"
    assert render(read_template(text), {"command": "ls | wc -l"}).spec.run == "ls | wc -l"


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({}, {"/values/epochs": "required", "/values/data": "required"}),
        ({"epochs": 0, "data": "a"}, {"/values/epochs": "too_small"}),
        ({"epochs": "101", "data": "a"}, {"/values/epochs": "too_large"}),
        ({"epochs": "3.5", "data": "a"}, {"/values/epochs": "not_whole_number"}),
        ({"epochs": True, "data": "a"}, {"/values/epochs": "wrong_type"}),
        ({"epochs": 1, "data": {"a": 1}}, {"/values/data": "wrong_type"}),
        ({"epochs": 1, "data": "\0"}, {"/values/data": "bad_characters"}),
        ({"epochs": 1, "data": "a", "lr": "fast"}, {"/values/lr": "not_number"}),
        ({"epochs": 1, "data": "a", "lr": "1e999"}, {"/values/lr": "number_out_of_range"}),
        ({"epochs": 1, "data": "a", "lr": 2}, {"/values/lr": "too_large"}),
        ({"epochs": 1, "data": "a", "mixed": "perhaps"}, {"/values/mixed": "not_true_or_false"}),
        ({"epochs": 1, "data": "a", "size": "smal"}, {"/values/size": "unknown_value"}),
        ({"epochs": 1, "data": "a", "gpu": "-1"}, {"/values/gpu": "too_small"}),
        ({"epochs": 1, "data": "a", "epoch": 1}, {"/values/epoch": "unknown_parameter"}),
        ({"epochs": 1, "data": "a", "pool": " "}, {"/values/pool": "outer_space"}),
    ],
)
def test_a_wrong_value_is_told_at_its_parameter(values, refused):
    found = refusals(FINETUNE, values)
    assert found.keys() == refused.keys()
    assert all(code in found[pointer] for pointer, code in refused.items())


@pytest.mark.parametrize(
    ("text", "pointer", "code"),
    [
        ("run: ls\n", "/template", "no_template_head"),
        ("template: {name: A}\nrun: ls\n", "/template/name", "bad_template_name"),
        ("template: {}\nrun: ls\n", "/template/name", "required"),
        ("template: {name: a, parameter: {}}\nrun: ls\n", "/template/parameter", "unknown_key"),
        ("template: {name: a}\nrun: ls ${{ x }}\n", "/run", "undeclared_parameter"),
        ("template: {name: a}\nrun: ls ${{ x }\n", "/run", "bad_placeholder"),
        ("template: {name: a}\nrunn: ls\n", "/runn", "unknown_key"),
        ("template: {name: a, parameters: {x: {}}}\nrun: ls\n", "/template/parameters/x", "unused_parameter"),
        ("template: {name: a, parameters: {X: {}}}\nrun: ls\n", "/template/parameters/X", "bad_parameter_name"),
        ("template: {name: a, parameters: {x: {type: txt}}}\nrun: ls ${{x}}\n", "/template/parameters/x/type",
         "unknown"),
        ("template: {name: a, parameters: {x: {type: choice}}}\nrun: ls ${{x}}\n", "/template/parameters/x/choices",
         "choices_and_type"),
        ("template: {name: a, parameters: {x: {least: 1}}}\nrun: ls ${{x}}\n", "/template/parameters/x/least",
         "limits_and_type"),
        ("template: {name: a, parameters: {x: {type: integer, default: 3, most: 2}}}\nrun: ls ${{x}}\n",
         "/template/parameters/x/default", "too_large"),
        ("template: {name: a, parameters: {x: {}}}\nrun: ls\nenv: {'${{ x }}': a}\n", "/env/${{ x }}", "placeholder"),
        ("template: {name: a, parameters: {x: {default: soon}}}\nrun: ls\ntime: ${{ x }}\n",
         "/template/parameters/x/default", "bad_duration"),
    ],
)  # fmt: skip
def test_a_wrong_template_is_told_where_it_is_wrong(text, pointer, code):
    found = refusals(text)
    assert code in found[pointer], found


def test_what_only_a_value_can_say_is_not_refused_before_it_is_known():
    text = "template: {name: a, parameters: {x: {}}}\nrun: ls\ntime: ${{ x }}\n"
    assert render(read_template(text), {"x": "2h"}).spec.time_s == 7200
    assert refusals(text, {"x": "soon"}) == {"/values/x": "bad_duration"}


def test_the_caller_may_say_a_key_otherwise():
    file = read_template(FINETUNE)
    spec = render(file, {"epochs": 2, "data": "a"}, {"gpu": "1", "preemptible": None, "team": "nlp"}).spec
    assert (spec.gpu.text, spec.preemptible, spec.team) == ("1", None, "nlp")
    assert render(file, {"epochs": 2, "data": "a"}, {"env": {"LR": "1", "A": "b"}}).spec.env["MIXED"] == "true"
    with pytest.raises(InvalidInput) as refused:
        render(file, {"epochs": 2, "data": "a"}, {"gpu": "-1"})
    assert [one.pointer for one in refused.value.errors] == ["/gpu"]


def test_every_example_is_a_job_with_its_defaults():
    for name, file in load_examples().items():
        rendered = render(file, {})
        assert rendered.spec.name and file.name == name and file.description and len(file.parameters) >= 2
    assert len(load_examples()) == 9
