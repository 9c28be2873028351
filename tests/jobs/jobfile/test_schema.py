"""The JSON Schema has the reader's verdict on all that parsed data can show."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from common.errors import InvalidInput
from job_templates.template_file import read_template
from jobs.jobfile.description import CHECKPOINT, JOB, RETRY, ROLE
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.schema import editor_schema, job_schema, list_completions
from jobs.jobfile.spec import to_json
from tests.jobs.jobfile.test_dump import specs

ROOT = Path(__file__).parents[3]
GOOD = sorted((ROOT / "tests/jobs/good").glob("*.yaml"))
BAD = sorted((ROOT / "tests/jobs/corpus").glob("*.yaml"))
EDITOR = Draft202012Validator(editor_schema())
API = Draft202012Validator(job_schema(yaml=False))

NO_DATA = "no parser makes data of it"
ONLY_TEXT = "the data is that of a good file; only the text shows it"
NO_JSON = "JSON has no such value"
SUM = "a schema does not calculate"
COMPARED = "a schema does not compare two places of a file"
# All bad files that the schema does not refuse, and why.
NOT_REFUSED = {
    **dict.fromkeys(("alias_unknown", "duplicate_env", "duplicate_key", "latin1", "nul", "python_object"), NO_DATA),
    **dict.fromkeys(("tab", "two_documents", "unclosed", "yaml_control"), NO_DATA),
    **dict.fromkeys(("anchor", "merge_key", "utf16"), ONLY_TEXT),
    **dict.fromkeys(("nan", "surrogate"), NO_JSON),
    **dict.fromkeys(
        (
            "array_large",
            "gpu_more_than_a_card",
            "gpu_too_fine",
            "idle_too_soon",
            "roles_tasks",
            "search_grid_large",
            "serve_none",
        ),
        SUM,
    ),
    **dict.fromkeys(
        (
            "array_env",
            "array_held",
            "data_twice",
            "environment_output",
            "output_over_data",
            "output_twice",
            "main_alone",
            "main_ends",
            "main_role",
            "role_data_twice",
            "max_time_below_time",
            "place_needless",
            "role_both",
            "role_secret_in_env",
            "role_secret_twice",
            "role_secrets_many",
            "role_twice",
            "search_bare",
            "search_beside_array",
            "search_env",
            "search_grid",
            "search_interval",
            "search_log",
            "search_no_rungs",
            "search_no_trials",
            "search_rungs",
            "search_rungs_of_tpe",
            "serve_alone",
            "serve_missing",
            "serve_nodes",
        ),
        COMPARED,
    ),
}


def data_of_editor(text: bytes):
    """As any parser of YAML 1.2 reads it."""
    return YAML(typ="safe", pure=True).load(text)


def is_refused(text: bytes) -> bool:
    """Whether the schema refuses what an editor's parser makes of it, and what the platform's own does."""
    try:
        verdicts = {EDITOR.is_valid(data_of_editor(text))}
    except (YAMLError, UnicodeDecodeError):
        return False
    try:
        data = load_jobfile(text)
    except InvalidInput:
        return verdicts == {False}
    verdicts |= {EDITOR.is_valid(data), API.is_valid(data)}
    assert len(verdicts) == 1
    return verdicts == {False}


def test_it_is_a_schema_and_says_what_each_key_is():
    Draft202012Validator.check_schema(editor_schema())
    for keys in (JOB, ROLE):
        for key, described in keys.schema(yaml=True)["properties"].items():
            assert described["title"] == key and described["description"].endswith("."), key


def test_the_examples_are_good():
    for one in (*JOB.fields, *ROLE.fields, *RETRY.fields, *CHECKPOINT.fields):
        for example in one.examples:
            one.shape.read(example, "")
            assert Draft202012Validator(one.shape.schema(yaml=False)).is_valid(example)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_has_the_readers_verdict(path):
    assert is_refused(path.read_bytes()) != (path.stem in NOT_REFUSED)


def test_each_exception_is_a_file():
    assert NOT_REFUSED.keys() <= {path.stem for path in BAD}


def test_the_good_files_use_every_key():
    files = [load_jobfile(path.read_bytes()) for path in GOOD]
    roles = [role for data in files for role in data.get("roles", {}).values()]
    for keys, used in ((JOB, files), (ROLE, roles)):
        assert {one.key for one in keys.fields} <= {key for data in used for key in data}


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_file_is_valid(path):
    data = load_jobfile(path.read_bytes())
    parse_spec(data)
    for schema, seen in ((EDITOR, data_of_editor(path.read_bytes())), (EDITOR, data), (API, data)):
        assert not [f"{error.json_path}: {error.message}" for error in schema.iter_errors(seen)]


@pytest.mark.parametrize("page", ["README.md", "docs/using.md"])
def test_what_the_documents_show_is_valid(page):
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        if block.startswith("template:"):
            read_template(block)
            continue
        data = {"run": "a", **data_of_editor(block.encode())}
        if "roles" in data:
            del data["run"]
        assert not [f"{error.json_path}: {error.message}" for error in EDITOR.iter_errors(data)]


@given(specs)
@settings(max_examples=100, deadline=None)
def test_every_spec_is_valid_as_it_is_stored_and_dumped(spec):
    assert API.is_valid(to_json(spec))
    assert EDITOR.is_valid(data_of_editor(dump_yaml(spec).encode()))


def test_an_editor_is_offered_each_key_where_it_may_stand_and_no_other():
    places = list_completions({"gpu": "V100:1"})
    assert {one["hint"] for place in ("", "roles.*") for one in places[place] if one["key"] == "gpu"} == {"V100:1"}
    assert [one["key"] for one in places[""]] == [field.key for field in JOB.fields]
    assert [one["key"] for one in places["roles.*"]] == [field.key for field in ROLE.fields]
    assert {"retry", "checkpoint", "idle", "notify", "main"} <= places.keys()
    words = {one["key"]: one["words"] for one in places[""]}
    assert words["hold"] == ["true", "false"] and "urgent" in words["priority"] and words["name"] == []
