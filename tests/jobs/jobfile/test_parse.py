from datetime import UTC, datetime

import pytest
from django.utils import translation

from common.errors import FieldError, Hint, InvalidInput
from common.resources import parse_gpu
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import MAX_ERRORS, Defaults, derive_name, parse_spec
from jobs.jobfile.spec import DEFAULT_RETRY_WHEN, Checkpoint, JobSpec, PlaceWish, from_json, to_json
from jobs.jobfile.value_hints import suggest_values
from portal.wording.errors import ERROR_MESSAGES, FIELD_MESSAGES, describe_error, describe_field_error


def errors_of(data: dict) -> list[FieldError]:
    with pytest.raises(InvalidInput) as caught:
        parse_spec(data)
    return caught.value.errors


def codes_of(data: dict) -> list[tuple[str, str]]:
    return [(error.pointer, error.code) for error in errors_of(data)]


def test_two_lines_are_a_job():
    spec = parse_spec(load_jobfile(b"run: python train.py\ngpu: 1\n"))
    assert spec == JobSpec(run="python train.py", name="python train.py", gpu=parse_gpu(1))


def test_example_c_without_what_is_not_built():
    spec = parse_spec(load_jobfile(
        b"name: llama-sft\nteam: nlp\ncode: .\nrun: torchrun train.py --resume auto\ngpu: H100:8\nnodes: 4\n"
        b"time: 18h\nmax_time: 36h\npreemptible: true\nretry: {times: 5, when: [preempted, node_lost]}\n"
    ))  # fmt: skip
    assert (spec.name, spec.team, spec.code, spec.gpu.text, spec.nodes) == ("llama-sft", "nlp", ".", "H100:8", 4)
    assert (spec.time_s, spec.max_time_s, spec.preemptible) == (64_800, 129_600, True)
    assert (spec.retry_times, spec.retry_when) == (5, ("preempted", "node_lost"))


def test_all_errors_come_at_once():
    found = codes_of({"gpus": 1, "place": "x", "gpu": "5/4", "memory": 16, "env": {"LD_PRELOAD": "x", "1A": "y"}})
    assert found == [
        ("/gpus", "unknown_key"),
        ("/gpu", "gpu_part_too_large"),
        ("/memory", "unit_missing"),
        ("/env/LD_PRELOAD", "reserved_name"),
        ("/env/1A", "bad_env_name"),
        ("/place", "wrong_type"),
        ("/run", "required"),
    ]


@pytest.mark.parametrize(
    "said", ["22:00", "2027-01-05", "2027-01-05T22:00", "2027-02-30T22:00Z", "2027-01-05T22:00+08", "tonight", 20270105]
)
def test_a_moment_that_could_mean_several_or_none_is_refused(said):
    [(pointer, code)] = codes_of({"run": "a", "start_at": said})
    assert (pointer, code) == ("/start_at", "wrong_type" if isinstance(said, int) else "bad_moment")


@pytest.mark.parametrize("said", ["2027-01-05T22:00+08:00", "2027-01-05 22:00:00+08:00", "2027-01-05T14:00Z"])
def test_a_moment_is_the_same_in_every_zone(said):
    assert parse_spec({"run": "a", "start_at": said}).start_at == datetime(2027, 1, 5, 14, tzinfo=UTC)


def test_the_number_of_errors_is_bounded():
    assert len(errors_of({f"k{i}": 1 for i in range(1000)})) == MAX_ERRORS


def test_an_unknown_key_gets_did_you_mean():
    [error] = errors_of({"run": "a", "pirority": "high"})
    assert error.params == {"key": "pirority", "did_you_mean": "priority"}
    assert describe_field_error(error) == "“pirority” is not a key of the job file. Did you mean “priority”?"


@pytest.mark.parametrize(
    "said, wrong",
    [
        ({}, ("/place", "place_empty")),
        ({"same": "rack"}, ("/place/same", "unknown_value")),
        ({"same": "switch", "prefer": "switch"}, ("/place/prefer", "place_needless")),
        ({"same": "node", "prefer": "switch"}, ("/place/prefer", "place_needless")),
    ],
)
def test_a_place_says_something_that_can_be_had(said, wrong):
    assert codes_of({"run": "a", "nodes": 4, "place": said}) == [wrong]
    assert parse_spec({"run": "a", "place": {"same": "switch", "prefer": "node"}}).place == PlaceWish("switch", "node")


def test_a_key_with_nothing_behind_it_asks_for_nothing():
    assert parse_spec({"run": "a", "gpu": None, "shm": None, "team": None}).gpu.count == 0


def test_a_gang_may_have_a_least_and_a_most():
    spec = parse_spec({"run": "a", "nodes": " 4 .. 8 "})
    assert (spec.nodes, spec.nodes_max) == (4, 8) and from_json(to_json(spec)) == spec
    assert to_json(spec)["nodes"] == "4..8"


def test_a_span_of_one_number_is_that_number():
    spec = parse_spec({"run": "a", "nodes": "4..4"})
    assert (spec.nodes, spec.nodes_max) == (4, None) and to_json(spec)["nodes"] == 4


@pytest.mark.parametrize(
    "nodes, code",
    [
        ("8..4", "bad_span"),
        ("4..", "bad_span"),
        ("..8", "bad_span"),
        ("a..b", "bad_span"),
        ("0..2", "too_small"),
        ("1..99999", "too_large"),
        ("4", "wrong_type"),
    ],
)
def test_a_bad_span_is_answered(nodes, code):
    assert codes_of({"run": "a", "nodes": nodes}) == [("/nodes", code)]


@pytest.mark.parametrize(
    "roles, answer",
    [
        ({}, ("/roles", "required")),
        ([], ("/roles", "wrong_type")),
        ({"Worker": {}}, ("/roles/Worker", "bad_role_name")),
        ({"w": 1}, ("/roles/w", "wrong_type")),
        ({"w": {"count": "32..4"}}, ("/roles/w/count", "bad_span")),
        ({"w": {"place": "x"}}, ("/roles/w/place", "unknown_key")),
        ({"w": {"gpus": 1}}, ("/roles/w/gpus", "unknown_key")),
        ({"w": {"run": ""}}, ("/roles/w/run", "required")),
    ],
)
def test_a_bad_role_is_answered(roles, answer):
    assert answer in codes_of({"roles": roles})


def test_retry_may_be_a_number():
    spec = parse_spec({"run": "a", "retry": 2})
    assert (spec.retry_times, spec.retry_when) == (2, DEFAULT_RETRY_WHEN)
    assert parse_spec({"run": "a", "retry": {"when": "exit_nonzero"}}).retry_when == ("exit_nonzero",)


def test_a_checkpoint_may_be_just_its_directory():
    assert parse_spec({"run": "a", "checkpoint": "ckpt"}).checkpoint == Checkpoint("ckpt", "", None)
    whole = {"dir": "/out/ckpt", "signal": "SIGUSR1", "grace": "3m"}
    assert parse_spec({"run": "a", "checkpoint": whole}).checkpoint == Checkpoint("/out/ckpt", "SIGUSR1", 180)


@pytest.mark.parametrize(
    "checkpoint, answer",
    [
        ({"signal": "SIGUSR1"}, ("/checkpoint/dir", "required")),
        ({"dir": "c", "signal": "SIGKILL"}, ("/checkpoint/signal", "unknown_value")),
        ({"dir": "c", "grace": "2h"}, ("/checkpoint/grace", "too_large")),
        ({"dir": "c", "grace": "soon"}, ("/checkpoint/grace", "bad_duration")),
        ({"dir": "-rf"}, ("/checkpoint/dir", "bad_directory")),
        ({"dir": "c", "every": "5m"}, ("/checkpoint/every", "unknown_key")),
        (3, ("/checkpoint", "wrong_type")),
    ],
)
def test_a_bad_checkpoint_is_answered(checkpoint, answer):
    assert codes_of({"run": "a", "checkpoint": checkpoint}) == [answer]


def test_numbers_from_json_become_text_only_when_they_keep_their_spelling():
    assert parse_spec({"run": "a", "env": {"SEED": 7}}).env == {"SEED": "7"}
    assert codes_of({"run": "a", "env": {"LR": 0.0001, "B": True}}) == [
        ("/env/LR", "wrong_type"),
        ("/env/B", "wrong_type"),
    ]


@pytest.mark.parametrize(
    "given, kept", [("src//train/", "src/train"), ("./a", "a"), (".", ""), ("a/.hidden", "a/.hidden")]
)
def test_workdir_is_a_clean_path_beneath_the_code(given, kept):
    assert parse_spec({"run": "a", "workdir": given}).workdir == kept


@pytest.mark.parametrize("path", ["..", "a/..", "/", "~/x", "a\\..\\b", "~"])
def test_workdir_never_leaves_the_code(path):
    assert codes_of({"run": "a", "workdir": path}) == [("/workdir", "workdir_outside")]


def test_a_name_may_hold_any_script_and_markup_stays_text():
    for name in ("训练 实验", "<b>x</b>", "=1+1", "émoji 🚀"):
        assert parse_spec({"run": "a", "name": name}).name == name


def test_a_job_without_a_name_is_called_after_its_command():
    assert derive_name("python   train.py\nexit 0") == "python train.py"
    assert len(derive_name("x" * 500)) == 40
    assert parse_spec({"run": "echo \u202e\x1b"}).name == "echo \ufffd\ufffd"
    assert parse_spec({"run": "a"}, defaults=Defaults(name="upload", team="nlp")).name == "upload"


def test_defaults_stand_in_for_what_is_missing_only():
    spec = parse_spec({"run": "a", "pool": "train"}, defaults=Defaults(team="nlp", pool="dev"))
    assert (spec.team, spec.pool) == ("nlp", "train")


def test_windows_line_ends_of_a_form_become_unix():
    assert parse_spec({"run": "set -e\r\npython a.py\r\n"}).run == "set -e\npython a.py"


def test_hints_offer_the_nearest_value():
    data = {
        "run": "a",
        "priority": "hihg",
        "memory": 16,
        "nodes": 0,
        "preemptible": "yes",
        "time": "2h",
        "max_time": "1h",
    }
    assert set(map(repr, suggest_values(errors_of(data), data))) == set(map(repr, [
        Hint("/priority", "high"), Hint("/memory", "16GB"), Hint("/nodes", 1), Hint("/preemptible", True),
        Hint("/max_time", "2h"),
    ]))  # fmt: skip


def test_a_sentence_names_the_field():
    assert describe_field_error(FieldError("/env/A~1B", "required")) == "env.A/B is missing. Add it."


def test_a_sentence_never_fails():
    assert "gpu" in describe_field_error(FieldError("/gpu", "a_code_nobody_knows", {}))
    for code in FIELD_MESSAGES:
        assert "%(" not in describe_field_error(FieldError("/gpu", code, {}))
    for code in ERROR_MESSAGES:
        error = InvalidInput(errors=[], code=code)
        assert "%(" not in describe_error(error)


def test_a_sentence_has_whole_words_for_kinds():
    with translation.override("en"):
        [error] = errors_of({"run": "a", "preemptible": "yes"})
        assert describe_field_error(error) == (
            "preemptible must be true or false, but it is text. Change the value; quotes turn it into text."
        )
