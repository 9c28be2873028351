import pytest

from common.errors import InvalidInput
from jobs.jobfile.load import MAX_DEPTH, load_jobfile, load_json, load_with_lines


def error_of(reader, data):
    with pytest.raises(InvalidInput) as caught:
        reader(data)
    [error] = caught.value.errors
    return error.pointer, error.code


def test_yaml_is_read_by_1_2():
    assert load_jobfile(b"on: push\na: no\nb: yes\nc: 10:30\nd: 1e-4\ne: 010\nf: 0x10\ng: ~\nh: TRUE\ni: 1_000") == {
        "on": "push", "a": "no", "b": "yes", "c": "10:30", "d": 1e-4, "e": 10, "f": 16, "g": None, "h": True,
        "i": "1_000",
    }  # fmt: skip


def test_text_keys_are_kept_as_written():
    data = load_jobfile(b"name: 007\nrun: true\nenv: {LR: 1e-4, NO: no, EMPTY: , V: 1.10}\nroles: {w: {run: 1}}")
    assert data["name"] == "007" and data["run"] == "true" and data["roles"] == {"w": {"run": "1"}}
    assert data["env"] == {"LR": "1e-4", "NO": "no", "EMPTY": None, "V": "1.10"}


def test_a_byte_order_mark_and_windows_line_ends_are_tolerated():
    assert load_jobfile(b"\xef\xbb\xbfrun: a\r\ngpu: 1\r\n") == {"run": "a", "gpu": 1}


def test_an_editor_learns_the_line_of_each_value():
    _, lines = load_with_lines(b"run: a\nenv:\n  A/B: 1\n  C: 2\n")
    assert (lines["/run"], lines["/env/A~1B"], lines["/env/C"]) == (1, 3, 4)


def test_json_goes_the_same_way():
    assert load_json(b'{"run": "a", "gpu": 1, "cpu": 0.5, "env": {"A": "1"}, "x": [true, null]}') == {
        "run": "a", "gpu": 1, "cpu": 0.5, "env": {"A": "1"}, "x": [True, None],
    }  # fmt: skip


@pytest.mark.parametrize(
    "data, answer",
    [
        (b'{"a": 1, "a": 2}', ("/a", "duplicate_key")),
        (b'{"env": {"A": 1, "A": 2}}', ("/env/A", "duplicate_key")),
        (b'{"cpu": NaN}', ("/cpu", "not_a_number")),
        (b'{"cpu": -Infinity}', ("/cpu", "not_a_number")),
        (b'{"cpu": 1e999}', ("/cpu", "number_out_of_range")),
        (b'{"cpu": ' + b"9" * 5_000 + b"}", ("/cpu", "number_out_of_range")),
        (b'{"name": "a\\u0000b"}', ("/name", "bad_characters")),
        (b'{"a\\u0000b": 1}', ("", "bad_characters")),
        (b'{"name": "\\ud800"}', ("/name", "bad_characters")),
        (b'{"run": "' + b"x" * 70_000 + b'"}', ("/run", "too_long")),
        (b"[" * 100_000, ("", "too_deep")),
        (b'{"a":' * 40 + b"1" + b"}" * 40, ("/" + "/".join("a" * MAX_DEPTH), "too_deep")),
        (b'{"a": [' + b"1," * 20_000 + b"1]}", ("", "too_many_nodes")),
        (b'{"a": 1', ("", "json_syntax")),
        (b"", ("", "empty")),
        (b"null", ("", "empty")),
        (b"[1]", ("", "not_a_map")),
        (b"\xff{}", ("", "not_utf8")),
        (b" " * 300_000, ("", "file_too_large")),
    ],
)
def test_bad_json_is_answered(data, answer):
    assert error_of(load_json, data) == answer
