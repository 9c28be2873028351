"""Job files changed in place: read back by the platform's own reader."""

import pytest

from cli.failures import Failure
from cli.job_file_editor import change, read_key, read_text
from jobs.jobfile.load import load_jobfile

FILE = """\
# my job
name: "a: b"   # with a comment
run: |
  python train.py \\
    --lr $LR
env:
  # rates
  LR: 1e-4
  OTHER: x
retry:
  when:
  - preempted
  - node_lost
code: .    # this directory
"""


def read(text: str) -> dict:
    return load_jobfile(text.encode())


def with_(text: str, *settings: tuple[str, str]) -> dict:
    return read(change(text, settings))


def test_nothing_asked_nothing_changed():
    assert change(FILE, []) == FILE


def test_one_value_changes_and_the_rest_stays_as_it_was_written():
    assert change(FILE, [("code", "sha256:1")]) == FILE.replace("code: .  ", 'code: "sha256:1"  ')


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("code", "sha256:1", {"code": "sha256:1"}),
        ("run", "python a.py # not: a comment", {"run": "python a.py # not: a comment"}),
        ("gpu", "1/2", {"gpu": "1/2"}),
        ("nodes", "2", {"nodes": 2}),
        ("preemptible", "true", {"preemptible": True}),
        ("name", "true-ish: [", {"name": "true-ish: ["}),
        ("name", '"4"', {"name": "4"}),
        ("name", "yes\nno", {"name": "yes\nno"}),
        ("time", "1h30m", {"time": "1h30m"}),
        ("labels", '{"a": "b"}', {"labels": {"a": "b"}}),
        ("labels.team.x", "y", {"labels": {"team": {"x": "y"}}}),
        ("env.LR", "3e-4", {"env": {"LR": "3e-4", "OTHER": "x"}}),
        ("env.NEW", "z", {"env": {"LR": "1e-4", "OTHER": "x", "NEW": "z"}}),
        ("retry.times", "5", {"retry": {"when": ["preempted", "node_lost"], "times": 5}}),
        ("retry.when", '["idle"]', {"retry": {"when": ["idle"]}}),
        ("env", "null", {"env": None}),
    ],
)
def test_a_key_is_set(key, value, expected):
    assert with_(FILE, (key, value)) == read(FILE) | expected


@pytest.mark.parametrize(
    "text",
    [
        "{run: x, code: .}",
        '{"run": "x", "code": "."}',
        "---\nrun: x\ncode: .\n",
        "  run: x\n  code: .\n",
        "run: x\ncode: .",
        "run: x\r\ncode: .\r\n",
        "'code': .\nrun: x\n",
        "code:\n  .\nrun: x\n",
        "run: x\ncode:   .   # here\n\n\n",
        "run: x\n...\n",
        "run: x\ncode:\n",
        "run: x\ncode: # nothing\n",
    ],
)
def test_every_way_to_write_it_is_understood(text):
    assert with_(text, ("code", "sha256:1"), ("gpu", "1/4"), ("env.A", "1")) == {
        "run": "x", "code": "sha256:1", "gpu": "1/4", "env": {"A": "1"},
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "# only a comment\n", "{}"])
def test_an_empty_file_may_be_filled(text):
    assert with_(text, ("run", "true"), ("gpu", "1")) == {"run": "true", "gpu": 1}


def test_only_the_key_at_the_top_is_read():
    assert read_key(FILE, "code") == "." and read_key("env: {code: .}", "code") is None
    assert read_key("run: code: x", "name") is None and read_key("code: [.]", "code") is None
    assert read_key("run: |\n  code: .\n", "code") is None


@pytest.mark.parametrize(
    "text", ["run: [", "\tcode: .", "a: b: code", "code: \x00", "? code\n: .", "- code", "code: .\n---\ncode: ."]
)
def test_what_cannot_be_changed_is_said(text):
    with pytest.raises(Failure):
        change(text, [("code", "sha256:1"), ("code.x", "1")])


def test_a_value_without_keys_takes_none():
    with pytest.raises(Failure, match=r"run\.x cannot be set"):
        change("run: x", [("run.x", "1")])


def test_what_is_no_text_is_refused_and_a_byte_order_mark_goes():
    assert read_text(b"\xef\xbb\xbfrun: x", "job.yaml") == "run: x"
    with pytest.raises(Failure, match="no text in UTF-8"):
        read_text(b"\xff\xfe", "job.yaml")
